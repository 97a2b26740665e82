//! What is refused before anything looks at a request.

use axum::{
    extract::{Request, State},
    http::{Method, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use super::{Problem, Shared};

/// Refuses what does not name the server, or asks for what is not looked at.
pub(crate) async fn guard(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    match shared.names.check(request.headers()).and_then(|()| check_precondition(&request)) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// Refuses `If-Match` where it would not be looked at: a change that was to be made only in one state must not be made in another.
fn check_precondition(request: &Request) -> Result<(), Problem> {
    let (method, path) = (request.method(), request.uri().path());
    let is_execution = method == Method::POST && path.starts_with("/v1/sessions/") && path.ends_with("/execute");
    if is_execution || method.is_safe() || !request.headers().contains_key(header::IF_MATCH) {
        return Ok(());
    }
    Err(Problem::invalid("`If-Match` is looked at where a session executes, and nowhere else yet; leave it out here"))
}
