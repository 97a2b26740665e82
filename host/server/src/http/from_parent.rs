//! Requests in a worker process, which its parent has already checked.

use axum::{
    extract::{Request, State},
    http::{HeaderMap, StatusCode},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use super::{Problem, Shared};
use crate::{
    Tenant,
    workers::{REQUEST, RUNNING_PATH},
};

/// Header with the tenant's name.
pub(super) const TENANT: &str = "glovebox-tenant";

/// The tenant that the parent has authenticated. Only [`from_parent`] creates this extension.
#[derive(Clone)]
pub(crate) struct FromParent(pub(super) Tenant);

/// Middleware that accepts the parent's statement of the tenant, and reports when the work for a request has ended.
pub(crate) async fn from_parent(State(shared): State<Shared>, mut request: Request, next: Next) -> Response {
    let number = text(request.headers(), REQUEST).and_then(|number| number.parse().ok());
    let (Some(reporter), Some(number)) = (&shared.service.0.reporter, number) else { return unknown() };
    if request.uri().path() == RUNNING_PATH {
        let status = if reporter.is_running(number) { StatusCode::OK } else { StatusCode::NOT_FOUND };
        return status.into_response();
    }
    let told = reporter.begin(number);
    let tenant = text(request.headers(), TENANT);
    let Some(tenant) = shared.tenants.all().find(|known| Some(known.name()) == tenant) else { return unknown() };
    request.extensions_mut().insert(FromParent(tenant.in_worker(told)));
    next.run(request).await
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn unknown() -> Response {
    Problem::new(StatusCode::BAD_REQUEST, "invalid-argument", "not a request from the worker's parent").into_response()
}
