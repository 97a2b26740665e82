//! The tenant who asks.

use axum::{extract::FromRequestParts, http::request::Parts};

use super::{Problem, Shared, from_parent::FromParent};
use crate::Tenant;

/// The tenant who asks, by the header `Authorization: Bearer TOKEN`, or `X-API-Key: TOKEN`.
pub(crate) struct Caller(pub(crate) Tenant);

impl FromRequestParts<Shared> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Problem> {
        // The parent of a worker knows who asks.
        let tenant = match parts.extensions.remove() {
            Some(FromParent(tenant)) => tenant,
            None => shared.tenants.asking(&parts.headers)?.clone(),
        };
        // Whose share of the memory the body counts against.
        parts.extensions.insert(tenant.clone());
        Ok(Self(tenant))
    }
}
