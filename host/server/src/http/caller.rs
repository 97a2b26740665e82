//! The tenant of a request.

use axum::{extract::FromRequestParts, http::request::Parts};

use super::{Problem, Shared, from_parent::FromParent};
use crate::Tenant;

/// Extracts the tenant of a request from the header `Authorization: Bearer TOKEN` or `X-API-Key: TOKEN`.
pub(crate) struct Caller(pub(crate) Tenant);

impl FromRequestParts<Shared> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Problem> {
        // In a worker process, the parent has authenticated the request.
        let tenant = match parts.extensions.remove() {
            Some(FromParent(tenant)) => tenant,
            None => shared.tenants.asking(&parts.headers)?.clone(),
        };
        // The body counts against this tenant's share of the memory budget.
        parts.extensions.insert(tenant.clone());
        Ok(Self(tenant))
    }
}
