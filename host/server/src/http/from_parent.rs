//! The requests of a worker: its parent has looked at them.

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

/// The header with the tenant's name.
pub(super) const TENANT: &str = "glovebox-tenant";

/// Who asks, as the parent says. Only [`from_parent`] makes one.
#[derive(Clone)]
pub(crate) struct FromParent(pub(super) Tenant);

/// Takes the parent's word for who asks, and tells it when nothing is done for a request any more.
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
    Problem::new(StatusCode::BAD_REQUEST, "invalid-argument", "this is no request of a worker's parent").into_response()
}
