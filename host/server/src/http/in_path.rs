//! What stands in a path.

use axum::{
    extract::{FromRequestParts, Path},
    http::request::Parts,
};
use serde::de::DeserializeOwned;

use super::{Problem, Shared};

/// As [`Path`]; what cannot be in one is a problem as any other.
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
