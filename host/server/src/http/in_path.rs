//! Path parameters.

use axum::{
    extract::{FromRequestParts, Path},
    http::request::Parts,
};
use glovebox_sessions::SessionId;
use serde::de::DeserializeOwned;

use super::{Problem, Shared};
use crate::ServiceError;

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

/// Parses a session name from a path.
pub(crate) fn session_id(id: String) -> Result<SessionId, Problem> {
    SessionId::new(id).map_err(|error| ServiceError::from(error).into())
}
