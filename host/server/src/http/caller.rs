//! The tenant who asks.

use axum::{extract::FromRequestParts, http::request::Parts};

use super::{Problem, Shared};
use crate::Tenant;

/// The tenant who asks, by the header `Authorization: Bearer TOKEN`, or `X-API-Key: TOKEN`.
pub(crate) struct Caller(pub(crate) Tenant);

impl FromRequestParts<Shared> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Problem> {
        let tenant = shared.tenants.asking(&parts.headers)?.clone();
        // Whose share of the memory the body counts against.
        parts.extensions.insert(tenant.clone());
        Ok(Self(tenant))
    }
}
