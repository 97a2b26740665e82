//! Checks that precede all other handling of a request.

use axum::{
    extract::{Request, State},
    http::{Method, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use super::{Problem, Shared};

/// Middleware that refuses requests with an unknown `Host`, a foreign `Origin`, or a precondition without effect.
pub(crate) async fn guard(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    match shared.names.check(request.uri(), request.headers()).and_then(|()| check_precondition(&request)) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// Refuses `If-Match` where it would be ignored, since a conditional change must not become unconditional. Routes that
/// change an existing session evaluate the header. `PUT /v1/sessions/{id}` creates a session instead.
fn check_precondition(request: &Request) -> Result<(), Problem> {
    let (method, path) = (request.method(), request.uri().path());
    if method.is_safe() || !request.headers().contains_key(header::IF_MATCH) {
        return Ok(());
    }
    let below = path.strip_prefix("/v1/sessions/").map(|rest| rest.trim_end_matches('/'));
    if below.is_some_and(|below| below.contains('/') || (!below.is_empty() && method == Method::DELETE)) {
        return Ok(());
    }
    Err(Problem::invalid("`If-Match` is supported only for changes of a session; leave it out here"))
}
