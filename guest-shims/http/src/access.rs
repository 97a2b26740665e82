//! Access control.

use sha2::{Digest, Sha256};

use crate::{http::Request, problem::Problem};

/// The token that requests must carry. Only its digest is stored.
#[derive(Clone, Debug)]
pub(crate) struct Token([u8; 32]);

impl Token {
    pub(crate) fn new(token: &str) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Returns whether a token is this one. Comparing digests leaks nothing about the token through timing.
    fn is(&self, token: &str) -> bool {
        Sha256::digest(token).as_slice() == self.0
    }
}

/// Rejects a request from a page of another origin, which a browser would send on behalf of its user.
pub(crate) fn check_origin(request: &Request) -> Result<(), Problem> {
    if !request.has("origin") {
        return Ok(());
    }
    let origin = request.header("origin").unwrap_or_default();
    let host = request.authority.as_deref().or_else(|| request.header("host")).unwrap_or_default();
    match origin.split_once("://") {
        Some((_, authority)) if !host.is_empty() && authority.eq_ignore_ascii_case(host) => Ok(()),
        _ => Err(Problem::new(403, "origin", "pages of this `Origin` are not allowed; send requests from a server")),
    }
}

/// Rejects a request without the token, if a token is set.
pub(crate) fn check_token(token: Option<&Token>, request: &Request) -> Result<(), Problem> {
    let Some(token) = token else { return Ok(()) };
    let bearer = request.header("authorization").and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    match bearer.or_else(|| request.header("x-api-key")) {
        Some(shown) if token.is(shown) => Ok(()),
        Some(_) => {
            Err(Problem::new(401, "unauthorized", "unknown token; check the `authorization` or `x-api-key` header"))
        }
        None => {
            let detail = "send the token of this server, as `Authorization: Bearer TOKEN` or `X-API-Key: TOKEN`";
            Err(Problem::new(401, "unauthorized", detail))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: &[(&str, &str)]) -> Request {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
        Request { authority: Some("box.example:8080".into()), headers, ..Request::default() }
    }

    #[test]
    fn only_the_token_lets_in_where_there_is_one() {
        let token = Token::new("secret");
        let status = |headers| check_token(Some(&token), &request(headers)).map_err(|problem| problem.status);
        assert_eq!(status(&[("authorization", "Bearer secret")]), Ok(()));
        assert_eq!(status(&[("authorization", "bearer  secret")]), Ok(()));
        assert_eq!(status(&[("x-api-key", "secret")]), Ok(()));
        for headers in [
            &[][..],
            &[("authorization", "Bearer secret2")],
            &[("authorization", "Bearer ")],
            &[("authorization", "Basic secret")],
            &[("authorization", "secret")],
            &[("x-api-key", "Secret")],
            &[("x-api-key", "secret"), ("x-api-key", "secret")],
        ] {
            assert_eq!(status(headers), Err(401), "{headers:?}");
        }
        assert_eq!(check_token(None, &request(&[])), Ok(()));
    }

    #[test]
    fn a_page_of_another_origin_is_refused() {
        let status = |origin| check_origin(&request(&[("origin", origin)])).map_err(|problem| problem.status);
        assert_eq!(status("http://box.example:8080"), Ok(()));
        assert_eq!(status("https://BOX.example:8080"), Ok(()));
        for origin in ["", "null", "http://box.example", "http://evil.example:8080", "box.example:8080"] {
            assert_eq!(status(origin), Err(403), "{origin}");
        }
        assert_eq!(check_origin(&request(&[])), Ok(()));
        let nameless = Request { authority: None, ..request(&[("origin", "http://")]) };
        assert!(check_origin(&nameless).is_err());
    }
}
