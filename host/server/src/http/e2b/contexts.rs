//! Contexts of a sandbox.

use std::collections::BTreeMap;

use axum::{Json, http::StatusCode};
use glovebox::Language;
use glovebox_sessions::SessionId;
use serde::{Deserialize, Serialize};

use super::{
    super::{InPath, Problem, ReadBody, budget::Held},
    caller::Asked,
    code,
    failure::Failure,
    lifecycle::{context_name, stored},
    place::{WORKSPACE, absolute, relative},
    sandboxes::Sandboxes,
};

use crate::SessionSummary;

/// A context, as clients see it.
#[derive(Debug, Serialize)]
pub(super) struct ContextAnswer {
    id: String,
    language: &'static str,
    cwd: String,
}

impl ContextAnswer {
    fn of(record: &SessionSummary) -> Option<Self> {
        let (_, id) = Sandboxes::of_session(&record.id)?;
        Some(Self { id: id.to_owned(), language: record.language.name(), cwd: WORKSPACE.to_owned() })
    }
}

/// Parameters of a new context.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NewContext {
    language: Option<String>,
    cwd: Option<String>,
}

/// Parses a language by the names that E2B's clients use. Fails for languages that Glovebox does not have.
pub(super) fn language(name: &str) -> Result<Language, Failure> {
    match name.to_ascii_lowercase().as_str() {
        "python" | "py" => Ok(Language::Python),
        "javascript" | "js" | "typescript" | "ts" => Ok(Language::JavaScript),
        _ => Err(Failure::unsupported(&format!("the language `{}`", glovebox::escaped(name)))),
    }
}

/// Fails if `name` cannot be the name of a context.
pub(super) fn check_name(name: &str) -> Result<(), Failure> {
    let is_one = (1..=40).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_one.then_some(()).ok_or_else(|| no_context(name))
}

pub(super) fn no_context(name: &str) -> Failure {
    let detail = format!("the sandbox has no context `{}`", glovebox::escaped(name));
    Failure::new(StatusCode::NOT_FOUND, "not-found", detail)
}

/// Opens a context.
pub(super) async fn create(
    Asked(sandbox): Asked,
    read: Result<ReadBody, Problem>,
) -> Result<(StatusCode, Json<ContextAnswer>), Failure> {
    let (new, _held): (NewContext, Held) = read?.json_or_default()?;
    let language = new.language.as_deref().map_or(Ok(Language::Python), language)?;
    let directory = new.cwd.as_deref().map(relative).transpose()?.filter(|path| !path.is_empty());
    if directory.is_some() && language != Language::Python {
        return Err(Failure::unsupported("`cwd` of JavaScript"));
    }
    let mut id = SessionId::random().to_string();
    id.truncate(16);
    let _turn = sandbox.turn.lock().await;
    sandbox.open(&id, language).await?;
    let mut cwd = WORKSPACE.to_owned();
    if let Some(directory) = directory {
        sandbox.bring_files(&id).await?;
        cwd = absolute(&directory);
        if let Some(source) = code::change_directory(&cwd) {
            sandbox.run(&id, source).await?;
        }
    }
    Ok((StatusCode::CREATED, Json(ContextAnswer { id, language: language.name(), cwd })))
}

/// Lists the contexts of a sandbox.
pub(super) async fn list(Asked(sandbox): Asked) -> Result<Json<Vec<ContextAnswer>>, Failure> {
    let mut contexts = BTreeMap::new();
    for session in stored(&sandbox.tenant, &sandbox.id).await? {
        let record = sandbox.tenant.session(&session).await?;
        contexts.insert(session.to_string(), ContextAnswer::of(&record));
    }
    Ok(Json(contexts.into_values().flatten().collect()))
}

/// Removes a context. The sandbox retains its files.
pub(super) async fn remove(
    Asked(sandbox): Asked,
    name: Result<InPath<String>, Problem>,
) -> Result<StatusCode, Failure> {
    let InPath(name) = name?;
    check_name(&name)?;
    let _turn = sandbox.turn.lock().await;
    // Moves the files to the default context first, so that the sandbox retains them.
    let own = context_name(Language::Python);
    if sandbox.last().is_some_and(|last| last == name) && name != own {
        sandbox.context(own, Some(Language::Python)).await?;
        sandbox.bring_files(own).await?;
    }
    if !sandbox.tenant.remove(&sandbox.session(&name)?).await? {
        return Err(no_context(&name));
    }
    sandbox.forget(&name);
    Ok(StatusCode::NO_CONTENT)
}

/// Replaces a context with a new one that has the sandbox's files.
pub(super) async fn restart(
    Asked(sandbox): Asked,
    name: Result<InPath<String>, Problem>,
) -> Result<StatusCode, Failure> {
    let InPath(name) = name?;
    check_name(&name)?;
    let _turn = sandbox.turn.lock().await;
    let id = sandbox.session(&name)?;
    let language = sandbox.context(&name, None).await.map_err(|_| no_context(&name))?.language;
    // If this context holds the sandbox's files, a temporary context takes them meanwhile.
    let mut aside = SessionId::random().to_string();
    aside.truncate(16);
    if sandbox.last().as_ref() == Some(&name) {
        sandbox.open(&aside, language).await?;
        sandbox.bring_files(&aside).await?;
    }
    sandbox.tenant.remove(&id).await?;
    let opened = sandbox.open(&name, language).await;
    if sandbox.last().as_ref() == Some(&aside) {
        if opened.is_ok() {
            sandbox.bring_files(&name).await?;
        }
        sandbox.tenant.remove(&sandbox.session(&aside)?).await?;
    }
    opened?;
    Ok(StatusCode::NO_CONTENT)
}
