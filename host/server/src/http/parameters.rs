//! Parameters of paths and queries, the `If-Match` header, and responses with an `ETag`.

use axum::{
    extract::{FromRequestParts, Path, Query},
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use serde::de::DeserializeOwned;
use utoipa::{IntoParams, IntoResponses, ToSchema};

use super::{Problem, Shared};
use crate::SessionTarget;

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

/// The `If-Match` header in the OpenAPI document.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only its description is used")]
pub(super) struct IfMatch {
    /// Required generation of the session, from its `ETag`.
    #[param(rename = "If-Match")]
    generation: Option<String>,
}

// Bytes in the OpenAPI document, where a `Vec<u8>` would be a list of integers. This is not a doc comment, because doc
// comments appear in the document.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct Octets(Vec<u8>);

/// The problems of most routes in the OpenAPI document.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only its description is used")]
pub(super) enum Failures {
    /// The request was refused.
    #[response(status = "4XX")]
    Refused(Problem),
    /// The server could not carry out the request.
    #[response(status = "5XX")]
    Failed(Problem),
}

/// Returns the expected generation of a session, from `If-Match`. `None` accepts every generation.
pub(crate) fn if_match(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(header::IF_MATCH)?.to_str().unwrap_or_default().trim();
    (text != "*").then(|| text.trim_matches('"').to_owned())
}

/// Extracts the session from a path with no other parameters, and its expected generation from `If-Match`.
impl FromRequestParts<Shared> for SessionTarget {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Problem> {
        let InPath(id) = InPath::from_request_parts(parts, shared).await?;
        Ok(Self { id, expected: if_match(&parts.headers) })
    }
}

/// The session and the second parameter of a path, with the expected generation from `If-Match`.
pub(crate) struct InSession(pub(crate) SessionTarget, pub(crate) String);

impl FromRequestParts<Shared> for InSession {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Problem> {
        let InPath((id, name)) = InPath::from_request_parts(parts, shared).await?;
        Ok(Self(SessionTarget { id, expected: if_match(&parts.headers) }, name))
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
pub(crate) fn changed_response(generation: Option<String>) -> Response {
    with_etag(generation, StatusCode::NO_CONTENT)
}
