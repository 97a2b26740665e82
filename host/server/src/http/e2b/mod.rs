//! The routes that clients of E2B's code interpreter ask (`docs/e2b.md`). A sandbox of theirs is some sessions of the token's, one for each
//! context, whose names begin with the sandbox's.
//!
//! * [`sandboxes`]: which there are, until when, and who may ask them. [`lifecycle`]: making, pausing and ending them.
//! * [`api`]: what is asked of the service. [`form`]: the JSON of that.
//! * [`caller`]: which sandbox is asked.
//! * [`contexts`], [`running`]: contexts, and code in them; [`code`]: what sets them up; [`lines`]: what they answer.
//! * [`files`], [`filesystem`]: files, over HTTP and as calls of procedures; [`place`]: their paths.
//! * [`failure`]: errors, as these clients read them.

mod api;
mod caller;
mod code;
mod contexts;
mod failure;
mod files;
mod filesystem;
mod form;
mod lifecycle;
mod lines;
mod place;
mod running;
mod sandboxes;

use axum::{
    Extension, Router,
    routing::{any, delete, get, post},
};

use super::Shared;

/// The routes.
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
        .route("/health", get(api::health))
        .route("/execute", post(running::execute))
        .route("/contexts", get(contexts::list).post(contexts::create))
        .route("/contexts/{id}", delete(contexts::remove))
        .route("/contexts/{id}/restart", post(contexts::restart))
        .route("/files", get(files::read).post(files::write))
        .route("/filesystem.Filesystem/{method}", post(filesystem::call))
        .route("/process.Process/{method}", unsupported())
        .layer(Extension(sandboxes::Sandboxes::default()))
}
