//! Counting of responses against the memory budget.

use axum::{
    extract::{Request, State},
    http::Method,
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http_body::Body as _;
use http_body_util::BodyExt as _;

use super::{
    BodyBudget, Shared,
    budget::{SHORT_BYTES, held_body, too_many_answers},
};
use crate::Tenant;

/// Marks a response that already holds room in the budget.
#[derive(Clone, Copy)]
pub(super) struct Counted;

/// Middleware that counts every response against the memory budget, including errors.
pub(super) async fn count(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let is_head = request.method() == Method::HEAD;
    let tenant = shared.tenants.asking(request.headers()).ok().map(Tenant::name).map(str::to_owned);
    let response = next.run(request).await;
    if is_head { response } else { count_answer(&shared.bodies, tenant.as_deref(), response).await }
}

/// Counts a response until it is written, unless it is marked as [`Counted`] or has no known length.
pub(crate) async fn count_answer(bodies: &BodyBudget, tenant: Option<&str>, response: Response) -> Response {
    let is_counted = response.extensions().get::<Counted>().is_some();
    let Some(len) = response.body().size_hint().exact().filter(|len| !is_counted && *len > 0) else { return response };
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    let held = match bodies.bytes().try_room(tenant, len) {
        Ok(held) => held,
        Err(_) if len <= SHORT_BYTES => return response,
        Err(_) => match bodies.bytes().room(tenant, len).await {
            Ok(held) => held,
            Err(_) => return too_many_answers().into_response(),
        },
    };
    let (parts, body) = response.into_parts();
    match body.collect().await {
        Ok(body) => Response::from_parts(parts, held_body(body.to_bytes(), held)),
        Err(_) => Response::from_parts(parts, axum::body::Body::empty()),
    }
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::StatusCode};

    use super::*;
    use crate::http::{HttpConfig, Problem};

    fn bodies(bytes: usize) -> BodyBudget {
        let config = HttpConfig {
            bodies_bytes: bytes,
            body_time: std::time::Duration::from_millis(20),
            ..HttpConfig::default()
        };
        BodyBudget::new(&config, ["a"].into_iter())
    }

    fn response(bytes: usize) -> Response {
        Response::new(Body::from(vec![b'x'; bytes]))
    }

    #[tokio::test]
    async fn answers_that_nobody_reads_are_bounded() {
        let bodies = bodies(1 << 20);
        let mut unread = Vec::new();
        let mut refused = 0;
        for _ in 0..40 {
            let answer = count_answer(&bodies, Some("a"), response(100_000)).await;
            refused += usize::from(answer.status() == StatusCode::SERVICE_UNAVAILABLE);
            unread.push(answer);
        }
        assert_eq!(refused, 30, "ten of 100,000 bytes have room");
        let short = count_answer(&bodies, Some("a"), response(100)).await;
        assert_eq!(short.status(), StatusCode::OK, "what is short is answered in any case");
        drop(unread);
        assert_eq!(count_answer(&bodies, Some("a"), response(1 << 19)).await.status(), StatusCode::OK);
    }

    #[tokio::test]
    async fn an_answer_counts_until_its_last_byte_is_written() {
        let bodies = bodies(256 << 10);
        let mut answer = count_answer(&bodies, None, response(100_000)).await.into_body();
        let mut written = Vec::new();
        while let Some(frame) = answer.frame().await {
            written.push(frame.unwrap().into_data().unwrap());
        }
        drop(answer);
        assert_eq!(written.iter().map(|piece| piece.len()).collect::<Vec<_>>(), [65_536, 34_464]);
        assert!(bodies.bytes().try_room(None, 60_000).is_err());
        drop(written);
        drop(bodies.bytes().try_room(None, 60_000).unwrap());
    }

    #[test]
    fn a_problem_is_short_whatever_it_quotes() {
        for letter in ["x", "\u{202e}", "\u{1}"] {
            let problem = Problem::invalid(letter.repeat(1 << 20));
            assert!(serde_json::to_vec(&problem).unwrap().len() < 8 << 10);
        }
    }
}
