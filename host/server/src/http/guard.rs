//! Requests that a browser sends on behalf of somebody else's page.

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use super::Shared;

/// Refuses what does not name the server.
pub(crate) async fn guard(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    match shared.names.check(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}
