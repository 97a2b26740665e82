//! Routes that describe the server.

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
};

use super::{
    Caller, Problem, Shared,
    wire::{InfoAnswer, RuntimeAnswer},
};

use crate::workers::Workers;

/// Version of the contract that the routes implement.
const CONTRACT: &str = "glovebox:sandbox@0.2.0";

/// Reports that the process is alive.
#[utoipa::path(get, path = "/healthz", operation_id = "get_health", tag = "server", responses((status = 200, description = "The process is alive.", body = String)))]
pub(crate) async fn health() -> &'static str {
    "ok\n"
}

/// Reports whether the server accepts executions. It does not during shutdown, or while all workers are being started.
#[utoipa::path(get, path = "/readyz", operation_id = "get_readiness", tag = "server",
    responses((status = 200, description = "The server accepts executions.", body = String), (status = 503, description = "The server does not accept executions.", body = String)))]
pub(crate) async fn ready(State(shared): State<Shared>) -> (StatusCode, &'static str) {
    match (shared.service.is_draining(), shared.service.is_ready()) {
        (true, _) => (StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
        (false, false) => (StatusCode::SERVICE_UNAVAILABLE, "no worker is ready\n"),
        (false, true) => (StatusCode::OK, "ready\n"),
    }
}

/// Returns metrics for Prometheus: of all tokens, or only of this token if it may not see the others.
#[utoipa::path(get, path = "/metrics", operation_id = "get_metrics", tag = "server", security(("token" = [])),
    responses((status = 200, description = "Metrics in the text format of OpenMetrics.", body = String)))]
pub(crate) async fn metrics(Caller(tenant): Caller) -> impl IntoResponse {
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, content_type)], tenant.metrics_text())
}

/// Describes the server: versions, runtimes, tools, and the policy that is granted to this token.
#[utoipa::path(get, path = "/v1/info", operation_id = "get_info", tag = "server", security(("token" = [])),
    responses((status = 200, description = "The runtimes, limits and tools.", body = InfoAnswer), (status = 401, description = "No token, or an unknown one.", body = Problem)))]
pub(crate) async fn info(State(shared): State<Shared>, Caller(tenant): Caller) -> Json<InfoAnswer> {
    let mut policy = tenant.policy().clone();
    // Clients on a network must not see paths of the host.
    (policy.workspace, policy.mounts) = (None, Vec::new());
    Json(InfoAnswer {
        version: env!("CARGO_PKG_VERSION"),
        contract: CONTRACT,
        runtimes: shared.service.runtimes().map(RuntimeAnswer::from).collect(),
        tools: tenant.tools().iter().map(|tool| tool.name().to_owned()).collect(),
        policy: serde_json::to_value(policy).unwrap_or_default(),
        workers: shared.service.workers().map(Workers::state),
    })
}
