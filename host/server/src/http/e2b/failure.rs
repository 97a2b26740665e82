//! Errors in the form that E2B's clients read.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use glovebox::Untrusted;
use serde_json::json;

use super::super::Problem;
use crate::ServiceError;

/// A problem document with the fields `code` and `message`, which E2B's clients read.
pub(super) struct Failure(pub(super) Problem);

impl Failure {
    pub(super) fn new(status: StatusCode, kind: &str, detail: impl Into<Untrusted>) -> Self {
        Self(Problem::new(status, kind, detail))
    }

    pub(super) fn invalid(detail: impl Into<Untrusted>) -> Self {
        Self(Problem::invalid(detail))
    }

    /// Error for an unknown sandbox. E2B's clients recognize the wording.
    pub(super) fn no_sandbox(id: &str) -> Self {
        let detail = format!("the sandbox `{}` was not found", glovebox::escaped(id));
        Self::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    /// Error for a sandbox that is not running, with the status that E2B's proxy uses.
    pub(super) fn not_running(id: &str) -> Self {
        let detail = format!("the sandbox `{}` was not found: it does not run", glovebox::escaped(id));
        Self::new(StatusCode::BAD_GATEWAY, "not-running", detail)
    }

    pub(super) fn unsupported(what: &str) -> Self {
        let detail = format!("{what} is not supported; docs/e2b.md lists the supported features");
        Self::new(StatusCode::NOT_IMPLEMENTED, "unsupported", detail)
    }

    /// Responds to a procedure call. The error codes of the Connect protocol are words.
    pub(super) fn of_call(self) -> Response {
        let code = match self.0.status {
            400 | 413 | 422 => "invalid_argument",
            401 => "unauthenticated",
            404 => "not_found",
            409 => "already_exists",
            429 => "resource_exhausted",
            501 => "unimplemented",
            500 => "internal",
            _ => "unavailable",
        };
        let Problem { kind, status, title, detail, retry_after } = &self.0;
        let detail = detail.to_string();
        let body = json!({ "code": code, "message": detail, "type": kind, "status": status, "title": title, "detail": detail, "retry_after": retry_after });
        let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(body)).into_response()
    }
}

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        Self(error.into())
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut body = serde_json::to_value(&self.0).unwrap_or_default();
        if let Some(object) = body.as_object_mut() {
            object.insert("code".to_owned(), self.0.status.into());
            object.insert("message".to_owned(), self.0.detail.to_string().into());
        }
        let mut response = self.0.into_response();
        *response.body_mut() = body.to_string().into();
        // E2B uses this header to mark responses that clients may retry.
        response.headers_mut().insert("should-retry", HeaderValue::from_static("false"));
        response.headers_mut().remove(header::CONTENT_LENGTH);
        response
    }
}
