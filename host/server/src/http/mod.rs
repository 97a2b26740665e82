//! The contract as HTTP and JSON.
//!
//! | route | |
//! |---|---|
//! | `POST /v1/execute`, `/v1/validate` | a script in a new interpreter |
//! | `GET`, `POST /v1/sessions`; `PUT /v1/sessions/{id}` | lists, opens, resumes from bytes |
//! | `GET`, `DELETE /v1/sessions/{id}` | describes, ends |
//! | `POST /v1/sessions/{id}/execute`, `fork`, `undo`, `checkpoint`, `hibernate` | |
//! | `GET /v1/sessions/{id}/checkpoints`, `state` | what it can be set back to; its bytes |
//! | `GET`, `PUT /v1/sessions/{id}/variables/{name}` | a global variable |
//! | `GET /v1/sessions/{id}/files`; `GET`, `PUT`, `DELETE /v1/sessions/{id}/files/{path}` | its files |
//! | `GET /v1/info`, `/v1/openapi.json`, `/metrics`, `/healthz`, `/readyz` | about the server |
//!
//! An error is a problem document (RFC 9457), typed by the contract's name for it. What a script does is never one.

mod body;
mod execute;
mod guard;
mod idempotency;
mod in_path;
mod openapi;
mod output;
mod problem;
mod serve;
mod sessions;
mod status;
mod tokens;
mod wire;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    http::StatusCode,
    middleware,
    routing::{get, post},
};

use crate::Service;

pub(crate) use body::BodyBudget;
pub(crate) use idempotency::Answered;
pub(crate) use in_path::InPath;
pub use openapi::document;
pub use problem::Problem;
pub use serve::{Bound, serve};
pub(crate) use tokens::Caller;
pub use tokens::{Tenants, TokenHash};

/// Bounds of what clients may do to a server. Make one with `default()` and change what differs.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// Connections at once. Default 12,000. One more waits until another ends.
    pub connections: usize,
    /// Bytes of one request's body. Default 48 MiB.
    pub body_bytes: usize,
    /// Bytes of all requests' bodies that are in memory at once. Default 512 MiB. Then requests are refused (503).
    pub bodies_bytes: usize,
    /// Bytes of a request's line and headers. Default 32 KiB; 8 KiB at least.
    pub header_bytes: usize,
    /// How long a client may take to send a request's headers, and between two requests. Default 60 s.
    pub header_time: Duration,
    /// How long a client may take to send a request's body. Default 30 s.
    pub body_time: Duration,
    /// Names by which the server is called in `Host`, with or without a port. Default: the address it listens on, and `localhost`. Other
    /// names are refused, so that no page of the web can have a browser ask a server that only this machine reaches.
    pub hosts: Vec<String>,
    /// Origins of pages that may ask (`Origin`), such as `https://app.example.com`. Default: the server's own.
    pub origins: Vec<String>,
    /// Answers that are kept for requests of one token with an `Idempotency-Key`. Default 10,000, for ten minutes.
    pub idempotency_keys: usize,
    /// Bytes of these answers, for each token. Default 64 MiB.
    pub idempotency_bytes: usize,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            connections: 12_000,
            body_bytes: 48 << 20,
            bodies_bytes: 512 << 20,
            header_bytes: 32 << 10,
            header_time: Duration::from_secs(60),
            body_time: Duration::from_secs(30),
            hosts: Vec::new(),
            origins: Vec::new(),
            idempotency_keys: 10_000,
            idempotency_bytes: 64 << 20,
        }
    }
}

/// What all requests share.
#[derive(Clone)]
pub(crate) struct Shared(Arc<State>);

pub(crate) struct State {
    pub(crate) service: Service,
    pub(crate) tenants: Tenants,
    pub(crate) bodies: BodyBudget,
    pub(crate) answered: Answered,
    pub(crate) names: guard::Names,
}

impl std::ops::Deref for Shared {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}

/// The routes, for whoever has a server of their own. `bound` is the address that it listens on.
pub fn router(service: &Service, tenants: Tenants, config: &HttpConfig, bound: std::net::SocketAddr) -> Router {
    let shared = Shared(Arc::new(State {
        service: service.clone(),
        tenants,
        bodies: BodyBudget::new(config.body_bytes, config.bodies_bytes, config.body_time),
        answered: Answered::new(config.idempotency_keys, config.idempotency_bytes),
        names: guard::Names::new(config, bound),
    }));
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
        .route("/metrics", get(status::metrics))
        .route("/v1/info", get(status::info))
        .route("/v1/openapi.json", get(openapi::answer))
        .route("/v1/execute", post(execute::fresh))
        .route("/v1/validate", post(execute::validate))
        .route("/v1/sessions", get(sessions::list).post(sessions::open))
        .nest("/v1/sessions/{id}", session)
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(middleware::from_fn_with_state(shared.clone(), guard::guard))
        // Whoever looks whether the server lives calls it by any name.
        .route("/healthz", get(status::health))
        .route("/readyz", get(status::ready))
        .with_state(shared)
}

async fn no_route() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "no-route",
        "there is nothing at this path; `GET /v1/openapi.json` says what there is",
    )
}

async fn no_method() -> Problem {
    let detail = "this path has no such method; `GET /v1/openapi.json` says which it has";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "no-method", detail)
}
