//! Routes for clients of E2B's code interpreter (`docs/e2b.md`). A sandbox is a set of the tenant's sessions, one per
//! context. The names of these sessions start with the sandbox's ID.
//!
//! * [`sandboxes`]: the registry of sandboxes, with their timeouts and secrets. [`lifecycle`]: creates, pauses, resumes
//!   and ends sandboxes.
//! * [`api`]: handlers of the sandbox API. [`form`]: its JSON form and errors.
//! * [`contexts`]: contexts, executions and environment variables. [`lines`]: results of executions.
//! * [`files`]: files, through HTTP routes and procedure calls.

mod api;
mod contexts;
mod files;
mod form;
mod lifecycle;
mod lines;
mod sandboxes;

use axum::{
    Router,
    middleware::map_response,
    routing::{any, delete, get, post},
};

pub(super) use sandboxes::Sandboxes;

use super::Shared;

pub(super) fn router() -> Router<Shared> {
    let unsupported = || any(api::unsupported);
    Router::new()
        .route("/v2/sandboxes", get(api::list).post(api::create))
        .route("/v2/sandboxes/{id}/connect", post(api::connect))
        .route("/sandboxes/{id}", get(api::describe).delete(api::kill))
        .route("/sandboxes/{id}/connect", post(api::connect))
        .route("/sandboxes/{id}/pause", post(api::pause))
        .route("/sandboxes/{id}/timeout", post(api::set_timeout))
        .route("/sandboxes/{id}/{what}", unsupported())
        .route("/snapshots", unsupported())
        .route("/templates/{*what}", unsupported())
        .route("/volumes", unsupported())
        .route("/volumes/{*what}", unsupported())
        .route("/volumecontent/{*what}", unsupported())
        .route("/health", get(api::health))
        .route("/execute", post(contexts::execute))
        .route("/contexts", get(contexts::list).post(contexts::create))
        .route("/contexts/{id}", delete(contexts::remove))
        .route("/contexts/{id}/restart", post(contexts::restart))
        .route("/files", get(files::read).post(files::write))
        .route("/filesystem.Filesystem/{method}", post(files::call).layer(map_response(form::describe_call)))
        .route("/process.Process/{method}", unsupported())
        .layer(map_response(form::describe))
}
