//! Authentication of E2B's clients.

use std::sync::Arc;

use axum::{
    Extension,
    extract::FromRequestParts,
    http::{HeaderMap, StatusCode, request::Parts},
};

use super::{
    super::{Caller, Shared},
    failure::Failure,
    sandboxes::{Sandbox, Sandboxes},
};
use crate::{Door, Tenant};

/// Extracts the tenant of a request to the sandbox API, as [`Caller`] does. E2B's clients send `X-API-Key`.
pub(super) struct By(pub(super) Tenant);

impl FromRequestParts<Shared> for By {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Failure> {
        let Caller(tenant) = Caller::from_request_parts(parts, shared).await?;
        Ok(Self(tenant.through(Door::E2b)))
    }
}

/// Extracts the running sandbox of a request, from the headers `E2b-Sandbox-Id` and `X-Access-Token` or
/// `E2B-Traffic-Access-Token`.
pub(super) struct Asked(pub(super) Arc<Sandbox>);

impl FromRequestParts<Shared> for Asked {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Failure> {
        let extension = Extension::<Sandboxes>::from_request_parts(parts, shared).await;
        let Extension(sandboxes) = extension.map_err(|_| Failure::unsupported("this"))?;
        let id = text(&parts.headers, "e2b-sandbox-id").unwrap_or_default();
        let named = sandboxes.named(id);
        if named.is_empty() {
            return Err(Failure::not_running(id));
        }
        let given = ["x-access-token", "e2b-traffic-access-token"].iter().find_map(|name| text(&parts.headers, name));
        // Several tenants may have a sandbox with this id. The secret selects one.
        let sandbox = given.and_then(|given| named.into_iter().find(|sandbox| sandbox.is_secret(given)));
        let Some(sandbox) = sandbox else {
            let detail = "wrong access token for this sandbox; connect to the sandbox again";
            return Err(Failure::new(StatusCode::UNAUTHORIZED, "unauthorized", detail));
        };
        if sandbox.is_paused() {
            return Err(Failure::not_running(id));
        }
        // The body counts against this tenant's share of the memory budget.
        parts.extensions.insert(sandbox.tenant.clone());
        Ok(Self(sandbox))
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
