//! Conditional requests: the header `If-Match`.

use std::convert::Infallible;

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};

use super::{Problem, Shared, session_id};
use crate::Target;

/// The generation that the session must have, or `None` for any.
pub(crate) struct IfMatch(Option<String>);

impl FromRequestParts<Shared> for IfMatch {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.headers))
    }
}

impl IfMatch {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let Some(value) = headers.get(header::IF_MATCH) else { return Self(None) };
        let text = value.to_str().unwrap_or_default().trim();
        Self((text != "*").then(|| text.trim_matches('"').to_owned()))
    }

    /// Returns the session with this name, at the expected generation.
    pub(crate) fn target(self, id: String) -> Result<Target, Problem> {
        Ok(Target { id: session_id(id)?, expected: self.0 })
    }
}

/// Adds a session's generation to a response, as `ETag`.
pub(crate) fn with_etag(generation: Option<String>, answer: impl IntoResponse) -> Response {
    let mut response = answer.into_response();
    if let Some(etag) = generation.and_then(|generation| HeaderValue::from_str(&format!("\"{generation}\"")).ok()) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response
}

/// Returns the empty response to a change of a session.
pub(crate) fn done(generation: Option<String>) -> Response {
    with_etag(generation, StatusCode::NO_CONTENT)
}
