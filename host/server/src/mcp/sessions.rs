//! MCP tools that manage sessions.

use schemars::JsonSchema;
use serde::Serialize;

use super::{answer::ToolAnswer, arguments as given};
use crate::{ServiceError, SessionPage, SessionSummary, Tenant};

/// Maximum number of listed sessions. By default, a tenant can have 1,000, which are too many for a model to read.
const MAX_LISTED: usize = 100;

/// A session.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(super) struct OneAnswer {
    /// The name of the session, for the other tools.
    session: String,
    /// `python` or `javascript`.
    language: String,
    runtime: String,
    /// The number of scripts that the session has run.
    executions: u64,
    /// The time when the session was last saved, in RFC 3339.
    updated_at: String,
    /// The number of files and directories in its working directory, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<u64>,
}

/// The structured content of `session_list`.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ListAnswer {
    sessions: Vec<OneAnswer>,
    /// The number of sessions that are not listed.
    more: u64,
}

/// The structured content of `session_undo` and `session_close`.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct DoneAnswer {
    /// The name of the session.
    session: String,
}

impl OneAnswer {
    fn of(session: SessionSummary) -> Self {
        Self {
            session: session.id.to_string(),
            language: session.language.name().to_owned(),
            runtime: session.runtime,
            executions: session.executions,
            updated_at: session.updated_at.to_string(),
            files: session.files,
        }
    }

    fn line(&self) -> String {
        let Self { session, language, executions, updated_at, .. } = self;
        format!("{session}: {language}, {executions} executions, last used {updated_at}")
    }
}

pub(super) async fn open(tenant: &Tenant, given: given::OpenSession) -> Result<ToolAnswer, ServiceError> {
    let id = given.session.as_deref().map(given::session_id).transpose()?;
    let answer =
        OneAnswer::of(tenant.open(id, Some(given.language.language()), None, None, serde_json::Map::new(), ()).await?);
    ToolAnswer::new(format!("Session `{}` is open: {} ({}).", answer.session, answer.language, answer.runtime), &answer)
}

pub(super) async fn list(tenant: &Tenant, given::Nothing {}: given::Nothing) -> Result<ToolAnswer, ServiceError> {
    let SessionPage { sessions: mut all, damaged, .. } = tenant.list().await?;
    let count = all.len() + damaged.len();
    // Most recently updated first.
    all.sort_by_key(|session| std::cmp::Reverse(session.updated_at));
    let sessions: Vec<OneAnswer> = all.into_iter().map(OneAnswer::of).take(MAX_LISTED).collect();
    let more = count - sessions.len();
    let mut lines: Vec<String> = sessions.iter().map(OneAnswer::line).collect();
    match (lines.is_empty(), more) {
        (true, 0) => lines.push("There are no sessions.".to_owned()),
        (_, 0) => {}
        (_, more) => lines.push(format!("and {more} more")),
    }
    ToolAnswer::new(lines.join("\n"), &ListAnswer { sessions, more: u64::try_from(more).unwrap_or(u64::MAX) })
}

pub(super) async fn fork(tenant: &Tenant, given: given::ForkSession) -> Result<ToolAnswer, ServiceError> {
    let fork = given.fork.as_deref().map(given::session_id).transpose()?;
    let answer = OneAnswer::of(tenant.fork(&given::session_id(&given.session)?, fork).await?);
    ToolAnswer::new(format!("Session `{}` is a copy of `{}`.", answer.session, given.session), &answer)
}

pub(super) async fn undo(tenant: &Tenant, given: given::OneSession) -> Result<ToolAnswer, ServiceError> {
    tenant.undo(&given::session_id(&given.session)?, None).await?;
    let answer = DoneAnswer { session: given.session };
    ToolAnswer::new(
        format!("Session `{}` was restored to its state before its last execution.", answer.session),
        &answer,
    )
}

pub(super) async fn close(tenant: &Tenant, given: given::OneSession) -> Result<ToolAnswer, ServiceError> {
    tenant.close(&given::session_id(&given.session)?).await?;
    let answer = DoneAnswer { session: given.session };
    ToolAnswer::new(format!("Session `{}` is closed.", answer.session), &answer)
}
