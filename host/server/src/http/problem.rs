//! Errors as problem documents (RFC 9457).

use axum::{
    body::Body,
    http::{HeaderValue, Response, StatusCode, header},
    response::IntoResponse,
};
use glovebox::Untrusted;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{ServiceError, shown::shown};

/// An error response: a problem document, `application/problem+json`. The outcome of a script is never a problem.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Problem {
    /// Kind of the problem for programs: the contract's name of the error, if it has one. A URI reference relative to
    /// this document.
    #[serde(rename = "type")]
    #[schema(example = "invalid-policy")]
    pub kind: String,
    /// HTTP status code.
    #[schema(example = 400)]
    pub status: u16,
    /// Kind of the problem in words.
    pub title: String,
    /// Explanation of the problem, and how to solve it.
    #[serde(serialize_with = "shown")]
    #[schema(value_type = String)]
    pub detail: Untrusted,
    /// Seconds to wait before a retry. Also in the header `Retry-After`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
}

impl Problem {
    /// Creates a problem that has no [`ServiceError`].
    pub(crate) fn new(status: StatusCode, kind: &str, detail: impl Into<Untrusted>) -> Self {
        let title = status.canonical_reason().unwrap_or("Error").to_owned();
        Self { kind: kind.to_owned(), status: status.as_u16(), title, detail: detail.into(), retry_after: None }
    }

    /// Creates a problem for an invalid request, with status 400.
    pub(crate) fn invalid(detail: impl Into<Untrusted>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid-argument", detail)
    }
}

impl From<ServiceError> for Problem {
    fn from(error: ServiceError) -> Self {
        let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let retry_after = error.retry_after().map(|after| after.as_secs().max(1));
        Self { retry_after, ..Self::new(status, error.code(), error.public()) }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::Problem;
    use crate::ServiceError;

    /// Parser errors quote their input.
    #[test]
    fn a_problem_quotes_a_client_escaped_and_short() {
        let key = format!("a\nerror: forged\u{202e}\u{7f}{}", "x".repeat(10 << 20));
        let error = serde_json::from_value::<glovebox::Limits>(serde_json::json!({ key: 1 })).unwrap_err();
        for problem in [Problem::invalid(error.to_string()), ServiceError::Invalid(error.to_string()).into()] {
            let text = serde_json::to_string(&problem).unwrap();
            let detail = serde_json::from_str::<Value>(&text).unwrap()["detail"].as_str().unwrap().to_owned();
            assert!(!detail.chars().any(glovebox::is_hidden), "{detail}");
            assert!(detail.contains(r"a\nerror: forged\u{202e}\u{7f}x") && text.len() < 2_000, "{text}");
        }
    }
}
