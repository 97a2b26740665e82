//! Routes of the HTTP server and their shared state, the routes that describe the server, and the OpenAPI document.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, LazyLock},
    time::Instant,
};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{FromRequestParts, State},
    http::{StatusCode, header, request::Parts},
    middleware,
    response::IntoResponse,
    routing::{delete, get, post},
};
use utoipa::{
    Modify, OpenApi,
    openapi::security::{Http, HttpAuthScheme, SecurityScheme},
};

use super::{
    BodyBudget, Caller, HttpConfig, IdempotencyStore, Problem, Tenants, budget, e2b, execute,
    guard::{self, Names},
    page, sessions, stored, suspend,
    wire::{InfoAnswer, RuntimeAnswer},
};
use crate::{Service, Tenant, byte_budget::ByteBudget, workers::Workers};

/// `1 / STORED_FRACTION` of `bodies_bytes` is reserved for stored responses.
const STORED_FRACTION: usize = 8;

/// Returns the routes, for [`serve`](super::serve()) or for an embedder's own HTTP server. `bound` is the address on
/// which the server listens.
pub fn router(service: &Service, tenants: Tenants, config: &HttpConfig, bound: SocketAddr) -> Router {
    let page = if config.page { page::routes() } else { Router::new() };
    routes(shared_state(service, tenants, config, Names::new(config, bound)), config, page)
}

/// Returns the routes for a Unix socket of the current user ([`serve_socket`](super::serve_socket)). All requests
/// belong to `tenant`. They need no token and can have any `Host`. The web page is not served.
#[cfg(unix)]
pub fn socket_router(service: &Service, tenant: Tenant, config: &HttpConfig) -> Router {
    let shared = shared_state(service, Tenants::open(tenant), config, Names::of_socket(config));
    routes(shared, config, Router::new())
}

fn routes(shared: Shared, config: &HttpConfig, page: Router<Shared>) -> Router {
    let e2b = if config.e2b { e2b::router() } else { Router::new() };
    let routes = Router::new()
        .merge(page)
        .merge(e2b)
        .route("/metrics", get(metrics))
        .route("/v1/info", get(info))
        .route("/v1/openapi.json", get(answer))
        .merge(execution_routes())
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(middleware::from_fn_with_state(shared.clone(), guard::guard))
        .layer(middleware::from_fn_with_state(shared.clone(), budget::count));
    #[cfg(feature = "otlp")]
    let routes = routes.layer(middleware::from_fn(crate::telemetry::trace));
    routes
        // Health checks can use any `Host`.
        .route("/healthz", get(health).fallback(no_method))
        .route("/readyz", get(ready).fallback(no_method))
        .with_state(shared)
}

fn shared_state(service: &Service, tenants: Tenants, config: &HttpConfig, accepted: Names) -> Shared {
    let names = || tenants.all().map(Tenant::name);
    let stored_bytes = config.bodies_bytes / STORED_FRACTION;
    let stored = ByteBudget::new(stored_bytes, config.body_time, names());
    let bodies = BodyBudget::new(config, config.bodies_bytes - stored_bytes, names());
    service.set_reply_budget(bodies.bytes());
    let state = SharedState {
        service: service.clone(),
        idempotency: IdempotencyStore::new(config.idempotency_keys, stored),
        tenants,
        names: accepted,
        sandboxes: e2b::Sandboxes::default(),
        begun: Instant::now(),
    };
    Shared { state: Arc::new(state), bodies }
}

/// Returns the routes that execute scripts or access sessions.
fn execution_routes() -> Router<Shared> {
    let session = Router::new()
        .route("/", get(sessions::describe).put(sessions::resume).delete(sessions::close))
        .route("/execute", post(execute::in_session))
        .route("/validate", post(execute::validate_in_session))
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
        .route("/v1/executions/{id}", delete(execute::cancel))
        .route("/v1/executions/{id}/continue", post(execute::continue_execution))
        .route("/v1/executions/{id}/suspend", post(suspend::suspend))
        .route("/v1/executions/resume", post(suspend::resume))
        .route("/v1/suspended", get(stored::list))
        .route("/v1/suspended/{id}", get(stored::describe).post(stored::resume).delete(stored::delete))
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

/// The state that all requests share. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Shared {
    state: Arc<SharedState>,
    /// The budget of the request's client if a handler extracts `Shared` itself. In a [`State`], the budget of all
    /// clients.
    pub(crate) bodies: BodyBudget,
}

pub(crate) struct SharedState {
    pub(crate) service: Service,
    pub(crate) tenants: Tenants,
    pub(crate) idempotency: IdempotencyStore,
    pub(crate) names: Names,
    pub(super) sandboxes: e2b::Sandboxes,
    begun: Instant,
}

impl std::ops::Deref for Shared {
    type Target = SharedState;

    fn deref(&self) -> &SharedState {
        &self.state
    }
}

impl FromRequestParts<Self> for Shared {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, shared: &Self) -> Result<Self, Infallible> {
        let bodies = parts.extensions.get::<BodyBudget>().unwrap_or(&shared.bodies).clone();
        Ok(Self { state: Arc::clone(&shared.state), bodies })
    }
}

#[derive(OpenApi)]
#[openapi(
    info(title = "Glovebox", description = "Runs untrusted Python and JavaScript. The contract `glovebox:sandbox` over HTTP, as JSON."),
    paths(
        execute::fresh, execute::validate, execute::in_session, execute::validate_in_session, execute::continue_execution, execute::cancel, suspend::suspend, suspend::resume,
        stored::list, stored::describe, stored::resume, stored::delete, sessions::list, sessions::open, sessions::describe, sessions::resume,
        sessions::close, sessions::state, sessions::fork, sessions::undo, sessions::checkpoint, sessions::checkpoints, sessions::hibernate,
        sessions::get_variable, sessions::set_variable, sessions::list_files, sessions::read_file, sessions::write_file,
        sessions::delete_file, info, health, ready, metrics, answer
    ),
    modifiers(&Token)
)]
struct Document;

struct Token;

impl Modify for Token {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    }
}

/// Returns the OpenAPI document of the HTTP API.
pub fn document() -> serde_json::Value {
    serde_json::to_value(Document::openapi()).unwrap_or_default()
}

/// Returns the OpenAPI document.
#[utoipa::path(get, path = "/v1/openapi.json", operation_id = "get_openapi", tag = "server",
    responses((status = 200, description = "The document.", body = serde_json::Value), (status = "4XX", description = "The request was refused.", body = Problem)))]
pub(crate) async fn answer() -> impl IntoResponse {
    // Built only once, because building costs more than most requests.
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| document().to_string().into());
    ([(header::CONTENT_TYPE, "application/json")], TEXT.clone())
}

/// The version of the contract that the routes implement.
const CONTRACT: &str = "glovebox:sandbox@0.2.0";

/// The version of the API, which increases with incompatible changes. Version 1 was the daemon's JSON-RPC.
const PROTOCOL: u32 = 2;

/// Reports that the process is alive.
#[utoipa::path(get, path = "/healthz", operation_id = "get_health", tag = "server", responses((status = 200, description = "The process is alive.", body = String)))]
pub(crate) async fn health() -> &'static str {
    "ok\n"
}

/// Reports whether the server accepts executions. It accepts none during shutdown, or while no worker is ready.
#[utoipa::path(get, path = "/readyz", operation_id = "get_readiness", tag = "server",
    responses((status = 200, description = "The server accepts executions.", body = String), (status = 503, description = "The server does not accept executions.", body = String)))]
pub(crate) async fn ready(State(shared): State<Shared>) -> (StatusCode, &'static str) {
    match (shared.service.is_draining(), shared.service.is_ready()) {
        (true, _) => (StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
        (false, false) => (StatusCode::SERVICE_UNAVAILABLE, "no worker is ready\n"),
        (false, true) => (StatusCode::OK, "ready\n"),
    }
}

/// Returns Prometheus metrics: for all tokens, or only for this token if it is not allowed to see the others.
#[utoipa::path(get, path = "/metrics", operation_id = "get_metrics", tag = "server", security(("token" = [])),
    responses((status = 200, description = "Metrics in the text format of OpenMetrics.", body = String)))]
pub(crate) async fn metrics(Caller(tenant): Caller) -> impl IntoResponse {
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, content_type)], tenant.metrics_text())
}

/// Describes the server: versions, runtimes, tools, and the policy that is granted to this token.
#[utoipa::path(get, path = "/v1/info", operation_id = "get_info", tag = "server", security(("token" = [])),
    responses((status = 200, description = "The runtimes, limits and tools.", body = InfoAnswer), (status = 401, description = "The token is missing or unknown.", body = Problem)))]
pub(crate) async fn info(State(shared): State<Shared>, Caller(tenant): Caller) -> Json<InfoAnswer> {
    let mut policy = tenant.policy().clone();
    // Network clients must not see host paths.
    (policy.workspace, policy.mounts) = (None, Vec::new());
    Json(InfoAnswer {
        version: env!("CARGO_PKG_VERSION"),
        protocol: PROTOCOL,
        pid: shared.names.is_socket().then(std::process::id),
        uptime_ms: u64::try_from(shared.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        sessions: tenant.open_sessions(),
        contract: CONTRACT,
        runtimes: shared.service.runtimes().map(RuntimeAnswer::from).collect(),
        tools: tenant.tools().iter().map(|tool| tool.name().to_owned()).collect(),
        policy: serde_json::to_value(policy).unwrap_or_default(),
        workers: shared.service.workers().map(Workers::state),
    })
}
