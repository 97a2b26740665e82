//! Path parameters, the `If-Match` header, and responses with an `ETag`.

use std::convert::Infallible;

use axum::{
    extract::{FromRequestParts, Path, Query},
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use glovebox_sessions::SessionId;
use serde::de::DeserializeOwned;

use super::{Problem, Shared};
use crate::{ServiceError, SessionTarget};

/// Like [`Path`], but rejects invalid parameters with a [`Problem`].
pub(crate) struct InPath<T>(pub(crate) T);

impl<T: DeserializeOwned + Send> FromRequestParts<Shared> for InPath<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Problem> {
        match Path::from_request_parts(parts, shared).await {
            Ok(Path(value)) => Ok(Self(value)),
            Err(rejection) => Err(Problem::invalid(rejection.body_text())),
        }
    }
}

/// Like [`Query`], but rejects invalid parameters with a [`Problem`].
pub(crate) struct InQuery<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Shared> for InQuery<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Problem> {
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(value)) => Ok(Self(value)),
            Err(rejection) => Err(Problem::invalid(rejection.body_text())),
        }
    }
}

/// Parses the session ID in a URL.
pub(crate) fn session_id(id: String) -> Result<SessionId, Problem> {
    SessionId::new(id).map_err(|error| ServiceError::from(error).into())
}

/// The expected generation of a session, from `If-Match`. `None` accepts every generation.
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

    /// Combines a session ID with the expected generation. Fails if the ID is invalid.
    pub(crate) fn target(self, id: String) -> Result<SessionTarget, Problem> {
        Ok(SessionTarget { id: session_id(id)?, expected: self.0 })
    }
}

/// Adds a session's generation to a response as `ETag`.
pub(crate) fn with_etag(generation: Option<String>, answer: impl IntoResponse) -> Response {
    let mut response = answer.into_response();
    if let Some(etag) = generation.and_then(|generation| HeaderValue::from_str(&format!("\"{generation}\"")).ok()) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response
}

/// Returns the empty response to a change of a session, with the new generation as `ETag`.
pub(crate) fn done(generation: Option<String>) -> Response {
    with_etag(generation, StatusCode::NO_CONTENT)
}
