//! Routes of the HTTP server.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    http::StatusCode,
    middleware,
    routing::{delete, get, post},
};

use super::{
    Answered, BodyBudget, HttpConfig, Problem, Tenants, counted, e2b, execute, forward, from_parent, guard,
    names::Names,
    openapi, page, sessions,
    shared::{Shared, State},
    status, stepping,
};
use crate::{Service, Tenant};

/// Returns the routes, for embedders with their own HTTP server. `bound` is the address that the server listens on.
pub fn router(service: &Service, tenants: Tenants, config: &HttpConfig, bound: SocketAddr) -> Router {
    let shared = shared(service, tenants, config, bound);
    let page = if config.page { page::routes() } else { Router::new() };
    let e2b = if config.e2b { e2b::router() } else { Router::new() };
    let routes = Router::new()
        .merge(page)
        .merge(e2b)
        .route("/metrics", get(status::metrics))
        .route("/v1/info", get(status::info))
        .route("/v1/openapi.json", get(openapi::answer))
        .merge(executing())
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(middleware::from_fn_with_state(shared.clone(), forward::forward))
        .layer(middleware::from_fn_with_state(shared.clone(), guard::guard))
        .layer(middleware::from_fn_with_state(shared.clone(), counted::count));
    #[cfg(feature = "otlp")]
    let routes = routes.layer(middleware::from_fn(crate::telemetry::trace));
    routes
        // Health checks may use any `Host`.
        .route("/healthz", get(status::health).fallback(no_method))
        .route("/readyz", get(status::ready).fallback(no_method))
        .with_state(shared)
}

/// Returns the routes of a worker process, for requests that its parent forwards.
pub(crate) fn worker_router(service: &Service, tenants: Tenants, config: &HttpConfig) -> Router {
    // Needs no names: only the parent can connect.
    let shared = shared(service, tenants, config, SocketAddr::from(([127, 0, 0, 1], 0)));
    executing()
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(middleware::from_fn_with_state(shared.clone(), from_parent::from_parent))
        .layer(middleware::from_fn_with_state(shared.clone(), counted::count))
        .with_state(shared)
}

fn shared(service: &Service, tenants: Tenants, config: &HttpConfig, bound: SocketAddr) -> Shared {
    Shared(Arc::new(State {
        service: service.clone(),
        bodies: BodyBudget::new(config, tenants.all().map(Tenant::name)),
        tenants,
        answered: Answered::new(config.idempotency_keys, config.idempotency_bytes),
        names: Names::new(config, bound),
    }))
}

/// Returns the routes that involve scripts. Workers serve them, if the service has workers.
fn executing() -> Router<Shared> {
    let session = Router::new()
        .route("/", get(sessions::describe).put(sessions::resume).delete(sessions::close))
        .route("/execute", post(execute::in_session))
        .route("/fork", post(sessions::fork))
        .route("/undo", post(sessions::undo))
        .route("/checkpoint", post(sessions::checkpoint))
        .route("/checkpoints", get(sessions::checkpoints))
        .route("/hibernate", post(sessions::hibernate))
        .route("/state", get(sessions::state))
        .route("/variables/{name}", get(sessions::get_variable).put(sessions::set_variable))
        .route("/files", get(sessions::list_files))
        .route("/files/{*path}", get(sessions::read_file).put(sessions::write_file).delete(sessions::delete_file));
    Router::new()
        .route("/v1/execute", post(execute::fresh))
        .route("/v1/validate", post(execute::validate))
        .route("/v1/executions/{id}", delete(stepping::cancel))
        .route("/v1/executions/{id}/continue", post(stepping::go_on))
        .route("/v1/sessions", get(sessions::list).post(sessions::open))
        .nest("/v1/sessions/{id}", session)
}

async fn no_route() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "no-route", "unknown path; `GET /v1/openapi.json` lists all paths")
}

async fn no_method() -> Problem {
    let detail = "unsupported method; `GET /v1/openapi.json` lists the methods of each path";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "no-method", detail)
}
