//! Handlers of E2B's sandbox API.

use std::collections::BTreeMap;

use axum::{
    Json,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri},
    response::{IntoResponse as _, Response},
};
use serde::Deserialize;

use super::{
    form::{self, DetailAnswer, NewSandbox, SandboxAnswer, Timeout, no_sandbox, time},
    lifecycle::stored_sessions,
    sandboxes::{ApiCaller, RequestedSandbox, Sandboxes},
};
use crate::{
    Tenant,
    http::{InPath, InQuery, Problem, ReadBody, budget::ChargedBytes},
};

pub(super) async fn create(ApiCaller { tenant, sandboxes }: ApiCaller, read: ReadBody) -> Result<Response, Problem> {
    let (new, _held): (NewSandbox, ChargedBytes) = read.json()?;
    let (description, time) = new.parts()?;
    let sandbox = sandboxes.make(&tenant, description, time).await?;
    Ok((StatusCode::CREATED, Json(SandboxAnswer::from(&sandbox))).into_response())
}

/// Extends a sandbox's timeout, and resumes the sandbox if it is paused.
pub(super) async fn connect(
    ApiCaller { tenant, sandboxes }: ApiCaller,
    InPath(id): InPath<String>,
    read: ReadBody,
) -> Result<Response, Problem> {
    let (body, _held): (Timeout, ChargedBytes) = read.json_or_default()?;
    let resumed = sandboxes.resume(&tenant, &id, time(body.timeout)?).await?;
    let (sandbox, was_paused) = resumed.ok_or_else(|| no_sandbox(&id))?;
    let status = if was_paused { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(SandboxAnswer::from(&sandbox))).into_response())
}

/// Pauses a sandbox: saves its sessions and evicts them from memory.
pub(super) async fn pause(
    ApiCaller { tenant, sandboxes }: ApiCaller,
    InPath(id): InPath<String>,
) -> Result<StatusCode, Problem> {
    match sandboxes.pause(&tenant, &id).await? {
        Some(true) => Ok(StatusCode::NO_CONTENT),
        Some(false) => Err(Problem::new(StatusCode::CONFLICT, "paused", "the sandbox is already paused")),
        None => Err(no_sandbox(&id)),
    }
}

/// Ends a sandbox without running exit handlers.
pub(super) async fn kill(
    ApiCaller { tenant, sandboxes }: ApiCaller,
    InPath(id): InPath<String>,
) -> Result<StatusCode, Problem> {
    if sandboxes.kill(&tenant, &id).await? { Ok(StatusCode::NO_CONTENT) } else { Err(no_sandbox(&id)) }
}

/// Sets a running sandbox's timeout.
pub(super) async fn set_timeout(
    ApiCaller { tenant, sandboxes }: ApiCaller,
    InPath(id): InPath<String>,
    read: ReadBody,
) -> Result<StatusCode, Problem> {
    let (body, _held): (Timeout, ChargedBytes) = read.json()?;
    let time = time(body.timeout)?;
    let sandbox = sandboxes.of(&tenant, &id).filter(|sandbox| !sandbox.is_paused());
    sandbox.ok_or_else(|| no_sandbox(&id))?.extend(time, true);
    Ok(StatusCode::NO_CONTENT)
}

/// Describes a sandbox, which may be from an earlier run of the server.
pub(super) async fn describe(
    ApiCaller { tenant, sandboxes }: ApiCaller,
    InPath(id): InPath<String>,
) -> Result<Json<DetailAnswer>, Problem> {
    if let Some(sandbox) = sandboxes.of(&tenant, &id) {
        return Ok(Json(DetailAnswer::new(&sandbox)));
    }
    let sessions = stored_sessions(&tenant, &id).await?;
    let first = sessions.first().ok_or_else(|| no_sandbox(&id))?;
    let record = tenant.session(first).await?;
    Ok(Json(DetailAnswer::paused(&tenant, &id, record.updated_at.to_string())))
}

/// The query parameters that filter and paginate the sandbox list.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct SandboxQuery {
    state: Option<String>,
    metadata: Option<String>,
    limit: Option<usize>,
    #[serde(rename = "nextToken")]
    next_token: Option<String>,
}

/// Maximum number of sandboxes per page. E2B clients do not request more.
const MAX_LISTED: usize = 100;

/// Lists the tenant's sandboxes in pages, including paused sandboxes. The newest sandbox is first.
pub(super) async fn list(
    ApiCaller { tenant, sandboxes }: ApiCaller,
    InQuery(SandboxQuery { state, metadata, limit, next_token }): InQuery<SandboxQuery>,
) -> Result<Response, Problem> {
    let metadata = metadata.as_deref().map(form_entries).unwrap_or_default();
    let wants = |is_in: &str, own: &BTreeMap<String, String>| {
        state.as_ref().is_none_or(|states| states.split(',').any(|state| state == is_in))
            && metadata.iter().all(|(name, value)| own.get(name) == Some(value))
    };
    let mut left = paused_sandboxes(&tenant).await?;
    // Keyed by page token. The description of a registered sandbox is built only if the sandbox is on the page.
    let mut listed: BTreeMap<String, Box<dyn FnOnce() -> DetailAnswer>> = BTreeMap::new();
    for sandbox in sandboxes.all_of(&tenant) {
        left.remove(&sandbox.id);
        if wants(sandbox.state_name(), &sandbox.description.metadata) {
            let token = format!("{}_{}", sandbox.started_at, sandbox.id);
            listed.insert(token, Box::new(move || DetailAnswer::new(&sandbox)));
        }
    }
    for (id, answer) in left {
        if wants(answer.state, &answer.metadata) {
            listed.insert(format!("{}_{id}", answer.started_at), Box::new(move || answer));
        }
    }
    let is_on_earlier_page = |token: &String| next_token.as_ref().is_some_and(|after| token >= after);
    let mut rest = listed.into_iter().rev().skip_while(|(token, _)| is_on_earlier_page(token));
    let page: Vec<_> = rest.by_ref().take(limit.unwrap_or(MAX_LISTED).clamp(1, MAX_LISTED)).collect();
    let last = page.last().map(|(token, _)| token.clone()).filter(|_| rest.next().is_some());
    let answers: Vec<DetailAnswer> = page.into_iter().map(|(_, describe)| describe()).collect();
    let next = last.and_then(|token| HeaderValue::from_str(&token).ok());
    Ok((HeaderMap::from_iter(next.map(|token| (NEXT_TOKEN, token))), Json(answers)).into_response())
}

/// The response header that contains the token for the next page.
const NEXT_TOKEN: HeaderName = HeaderName::from_static("x-next-token");

/// Returns the sandboxes that have stored sessions, keyed by ID.
async fn paused_sandboxes(tenant: &Tenant) -> Result<BTreeMap<String, DetailAnswer>, Problem> {
    let mut all = BTreeMap::new();
    for session in tenant.list().await?.sessions {
        if let Some((sandbox, _)) = Sandboxes::of_session(&session.id) {
            let since = session.updated_at.to_string();
            all.entry(sandbox.to_owned()).or_insert_with(|| DetailAnswer::paused(tenant, sandbox, since));
        }
    }
    Ok(all)
}

/// Parses the metadata filter. Names and values are form-encoded twice.
fn form_entries(text: &str) -> BTreeMap<String, String> {
    let decoded =
        |text: &str| percent_encoding::percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    text.split('&')
        .filter_map(|entry| entry.split_once('='))
        .map(|(name, value)| (decoded(&decoded(name)), decoded(&decoded(value))))
        .collect()
}

/// Reports that a sandbox is running. The extractor has already rejected requests to sandboxes that are not running.
pub(super) async fn health(_: RequestedSandbox) -> StatusCode {
    StatusCode::NO_CONTENT
}

/// Rejects E2B requests that Glovebox does not support.
pub(super) async fn unsupported(uri: Uri) -> Problem {
    form::unsupported(&format!("`{}`", glovebox::escaped(uri.path())))
}
