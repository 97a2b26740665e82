//! What is asked of the service.

use std::collections::BTreeMap;

use axum::{
    Extension, Json,
    extract::Query,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use serde::Deserialize;

use super::{
    super::{InPath, Problem, ReadBody, budget::Held},
    caller::{Asked, By},
    failure::Failure,
    form::{DetailAnswer, NewSandbox, SandboxAnswer, Timeout, time},
    lifecycle::stored,
    sandboxes::Sandboxes,
};
use crate::Tenant;

/// A body that was read.
type Body = Result<ReadBody, Problem>;
/// A name from a path.
type Name = Result<InPath<String>, Problem>;

fn name(name: Name) -> Result<String, Failure> {
    Ok(name?.0)
}

/// Makes a sandbox.
pub(super) async fn create(
    By(tenant): By,
    Extension(sandboxes): Extension<Sandboxes>,
    read: Body,
) -> Result<Response, Failure> {
    let (new, _held): (NewSandbox, Held) = read?.json()?;
    let (description, time) = new.parts()?;
    let sandbox = sandboxes.make(&tenant, description, time).await?;
    Ok((StatusCode::CREATED, Json(SandboxAnswer::from(&sandbox))).into_response())
}

/// Has a sandbox run, one that is paused too.
pub(super) async fn connect(
    By(tenant): By,
    Extension(sandboxes): Extension<Sandboxes>,
    id: Name,
    read: Body,
) -> Result<Response, Failure> {
    let id = name(id)?;
    let (asked, _held): (Timeout, Held) = read?.json_or_default()?;
    let resumed = sandboxes.resume(&tenant, &id, time(asked.timeout)?).await?;
    let (sandbox, was_paused) = resumed.ok_or_else(|| Failure::no_sandbox(&id))?;
    let status = if was_paused { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(SandboxAnswer::from(&sandbox))).into_response())
}

/// Writes a sandbox to the store and gives up its memory.
pub(super) async fn pause(
    By(tenant): By,
    Extension(sandboxes): Extension<Sandboxes>,
    id: Name,
) -> Result<StatusCode, Failure> {
    let id = name(id)?;
    match sandboxes.pause(&tenant, &id).await? {
        Some(true) => Ok(StatusCode::NO_CONTENT),
        Some(false) => Err(Failure::new(StatusCode::CONFLICT, "paused", "the sandbox is paused already")),
        None => Err(Failure::no_sandbox(&id)),
    }
}

/// Ends a sandbox.
pub(super) async fn kill(
    By(tenant): By,
    Extension(sandboxes): Extension<Sandboxes>,
    id: Name,
) -> Result<StatusCode, Failure> {
    let id = name(id)?;
    match sandboxes.kill(&tenant, &id).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Failure::no_sandbox(&id)),
    }
}

/// Sets for how long a sandbox runs from now on.
pub(super) async fn set_timeout(
    By(tenant): By,
    Extension(sandboxes): Extension<Sandboxes>,
    id: Name,
    read: Body,
) -> Result<StatusCode, Failure> {
    let id = name(id)?;
    let (asked, _held): (Timeout, Held) = read?.json()?;
    let time = time(asked.timeout)?;
    let sandbox = sandboxes.of(&tenant, &id).filter(|sandbox| !sandbox.is_paused());
    sandbox.ok_or_else(|| Failure::no_sandbox(&id))?.extend(time, true);
    Ok(StatusCode::NO_CONTENT)
}

/// Describes a sandbox.
pub(super) async fn describe(
    By(tenant): By,
    Extension(sandboxes): Extension<Sandboxes>,
    id: Name,
) -> Result<Json<DetailAnswer>, Failure> {
    let id = name(id)?;
    if let Some(sandbox) = sandboxes.of(&tenant, &id) {
        return Ok(Json(DetailAnswer::new(&sandbox)));
    }
    let sessions = stored(&tenant, &id).await?;
    let first = sessions.first().ok_or_else(|| Failure::no_sandbox(&id))?;
    let record = tenant.session(first).await?;
    Ok(Json(DetailAnswer::left(&tenant, &id, record.updated_at.to_string())))
}

/// Which sandboxes are listed.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Wanted {
    state: Option<String>,
    metadata: Option<String>,
}

/// The sandboxes of this token, those that are paused too.
pub(super) async fn list(
    By(tenant): By,
    Extension(sandboxes): Extension<Sandboxes>,
    wanted: Result<Query<Wanted>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<Vec<DetailAnswer>>, Failure> {
    let Query(Wanted { state, metadata }) = wanted.map_err(|error| Failure::invalid(error.body_text()))?;
    let metadata: BTreeMap<String, String> = match &metadata {
        Some(text) => form_entries(text),
        None => BTreeMap::new(),
    };
    let mut all: BTreeMap<String, DetailAnswer> = left(&tenant).await?;
    all.extend(sandboxes.all_of(&tenant).iter().map(|sandbox| (sandbox.id.clone(), DetailAnswer::new(sandbox))));
    let is_wanted = |answer: &DetailAnswer| {
        state.as_ref().is_none_or(|states| states.split(',').any(|state| state == answer.state))
            && metadata.iter().all(|(name, value)| answer.metadata.get(name) == Some(value))
    };
    let mut listed: Vec<DetailAnswer> = all.into_values().filter(is_wanted).collect();
    listed.sort_by(|one, other| other.started_at.cmp(&one.started_at));
    Ok(Json(listed))
}

/// Those that the store has.
async fn left(tenant: &Tenant) -> Result<BTreeMap<String, DetailAnswer>, Failure> {
    let mut all = BTreeMap::new();
    for session in tenant.list().await?.sessions {
        if let Some((sandbox, _)) = Sandboxes::of_session(&session.id) {
            let since = session.updated_at.to_string();
            all.entry(sandbox.to_owned()).or_insert_with(|| DetailAnswer::left(tenant, sandbox, since));
        }
    }
    Ok(all)
}

/// Metadata that is asked for: names and values, each written as in a form twice.
fn form_entries(text: &str) -> BTreeMap<String, String> {
    let decoded =
        |text: &str| percent_encoding::percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    text.split('&')
        .filter_map(|entry| entry.split_once('='))
        .map(|(name, value)| (decoded(&decoded(name)), decoded(&decoded(value))))
        .collect()
}

/// Whether a sandbox runs.
pub(super) async fn health(_: Asked) -> StatusCode {
    StatusCode::NO_CONTENT
}

/// What these clients can ask for, and is not here.
pub(super) async fn unsupported(uri: axum::http::Uri) -> Failure {
    Failure::unsupported(&format!("`{}`", glovebox::escaped(uri.path())))
}
