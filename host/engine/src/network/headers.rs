//! Headers: which a script may send, and which it sees.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

/// The most headers of a request, and the most bytes of their names and values together.
pub(super) const MAX_REQUEST_HEADERS: usize = 64;
pub(super) const MAX_REQUEST_HEADER_BYTES: usize = 32 << 10;
/// The same of a response. Python's `http.client` reads no more than a hundred, with those that are added there.
pub(super) const MAX_RESPONSE_HEADERS: usize = 96;
pub(super) const MAX_RESPONSE_HEADER_BYTES: usize = 64 << 10;

/// What says how a message goes from one machine to the next, and to which one. The client knows that itself, and a script that said
/// something else would speak to another server than the one that was allowed, or in the middle of another message.
const NOT_THE_SCRIPTS: [&str; 16] = [
    "connection",
    "content-length",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    ":authority",
];

/// What belongs to a body, and goes with it.
const OF_THE_BODY: [&str; 4] = ["content-encoding", "content-language", "content-location", "content-type"];

/// What is for one server alone.
const OF_THE_ORIGIN: [&str; 3] = ["authorization", "cookie", "cookie2"];

/// A request's headers as a script sends them: checked, its placeholders as they are.
pub(super) type Headers = Vec<(HeaderName, String)>;

/// Takes the headers of a script.
pub(super) fn request(list: Vec<(String, String)>) -> Result<Headers, String> {
    if list.len() > MAX_REQUEST_HEADERS {
        return Err(format!("the request has {} headers; the most is {MAX_REQUEST_HEADERS}", list.len()));
    }
    let bytes: usize = list.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > MAX_REQUEST_HEADER_BYTES {
        return Err(format!("the headers are {bytes} bytes; the most is {MAX_REQUEST_HEADER_BYTES}"));
    }
    let check = |(name, value): (String, String)| {
        let shown: String = name.chars().take(64).collect();
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("`{shown}` is no name of a header"))?;
        if NOT_THE_SCRIPTS.contains(&name.as_str()) || name.as_str().starts_with("proxy-") {
            return Err(format!("the header `{name}` is not a script's to set; leave it out"));
        }
        let value = value.trim_matches([' ', '\t']).to_owned();
        if HeaderValue::from_str(&value).is_err() {
            return Err(format!("the header `{name}` has a line end or another character that no header has"));
        }
        Ok((name, value))
    };
    list.into_iter().map(check).collect()
}

/// What stays of the headers when a redirect makes a `GET` of the request.
pub(super) fn without_body(headers: &mut Headers) {
    headers.retain(|(name, _)| !OF_THE_BODY.contains(&name.as_str()));
}

/// What stays of them when a redirect leads to another server. `is_secret`: of the values.
pub(super) fn without_credentials(headers: &mut Headers, is_secret: impl Fn(&str) -> bool) {
    headers.retain(|(name, value)| !OF_THE_ORIGIN.contains(&name.as_str()) && !is_secret(value));
}

/// A response's headers as the script sees them, each byte a character.
pub(super) fn response(headers: &HeaderMap) -> Result<Vec<(String, String)>, String> {
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if headers.len() > MAX_RESPONSE_HEADERS || bytes > MAX_RESPONSE_HEADER_BYTES {
        let most = format!("{MAX_RESPONSE_HEADERS} headers and {MAX_RESPONSE_HEADER_BYTES} bytes");
        return Err(format!("the response has {} headers of {bytes} bytes; the most is {most}", headers.len()));
    }
    let is_shown = |name: &HeaderName| {
        !matches!(name.as_str(), "connection" | "keep-alive" | "transfer-encoding" | "te" | "trailer" | "upgrade")
            && !name.as_str().starts_with("proxy-")
    };
    let text = |value: &HeaderValue| value.as_bytes().iter().map(|byte| char::from(*byte)).collect::<String>();
    Ok(headers
        .iter()
        .filter(|(name, _)| is_shown(name))
        .map(|(name, value)| (name.as_str().to_owned(), text(value)))
        .collect())
}
