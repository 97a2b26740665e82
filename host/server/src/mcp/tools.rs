//! The MCP tools: names, schemas and descriptions for models. Also implements the tools that manage sessions.

use std::{borrow::Cow, sync::Arc};

use glovebox::{Language, NetworkPolicy, Policy, RuntimeInfo};
use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::{answer, arguments as given, files};
use crate::{ServiceError, SessionPage, SessionSummary, Tenant};

/// An MCP tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    RunCode,
    SessionOpen,
    SessionList,
    SessionFork,
    SessionUndo,
    SessionClose,
    FilesList,
    FilesRead,
    FilesWrite,
}

impl Name {
    /// All tools with their names, in the order of `tools/list`.
    pub(super) const ALL: [(&str, Self); 9] = [
        ("run_code", Self::RunCode),
        ("session_open", Self::SessionOpen),
        ("session_list", Self::SessionList),
        ("session_fork", Self::SessionFork),
        ("session_undo", Self::SessionUndo),
        ("session_close", Self::SessionClose),
        ("files_list", Self::FilesList),
        ("files_read", Self::FilesRead),
        ("files_write", Self::FilesWrite),
    ];

    /// Returns `true` if a fleet supports the tool. Other tools are not listed for a tenant in a fleet. Calls to them
    /// fail with an error that suggests an alternative.
    fn is_in_fleet(self) -> bool {
        !matches!(self, Self::SessionFork | Self::FilesList | Self::FilesRead | Self::FilesWrite)
    }

    /// Describes the tools for a tenant. `listing` describes the host functions that scripts can call.
    pub(super) fn tools(tenant: &Tenant, listing: &str) -> Vec<Tool> {
        let listed = Self::ALL.into_iter().filter(|(_, tool)| !tenant.is_in_fleet() || tool.is_in_fleet());
        listed
            .map(|(name, tool)| {
                let mut tool = tool.describe(tenant, listing);
                tool.name = name.into();
                adapt(Arc::make_mut(&mut tool.input_schema), tenant);
                tool
            })
            .collect()
    }

    fn describe(self, tenant: &Tenant, listing: &str) -> Tool {
        match self {
            Self::RunCode => describe::<given::RunCode, answer::RunAnswer>(
                "Run code",
                run_code(tenant, tenant.policy(), listing),
                // Code can delete a session's data, and host functions can have arbitrary effects.
                destructive().open_world(tenant.has_tools() || tenant.policy().network.is_on()),
            ),
            Self::SessionOpen => describe::<given::OpenSession, OneAnswer>(
                "Open a session",
                "Opens a session: an interpreter that keeps its variables, imports and files between calls to \
                 run_code, with its own working directory. It is saved after every call and outlives this server. \
                 Close it when it is no longer needed.",
                additive(),
            ),
            Self::SessionList => describe::<given::NoArguments, ListAnswer>(
                "List sessions",
                "Lists the sessions with their language and the time of their last use.",
                read_only(),
            ),
            Self::SessionFork => describe::<given::ForkSession, OneAnswer>(
                "Copy a session",
                "Copies a session with its variables and files. The copy and the original are independent: try something in \
                 the copy, and keep the better one.",
                additive(),
            ),
            Self::SessionUndo => describe::<given::OneSession, DoneAnswer>(
                "Undo in a session",
                format!(
                    "Restores a session's variables and files to their state before its last run_code. {}",
                    match tenant.is_in_fleet() {
                        true => "It can be called once after each run_code.",
                        false => "Call it again to go back further, as long as there are checkpoints.",
                    }
                ),
                destructive(),
            ),
            Self::SessionClose => describe::<given::OneSession, DoneAnswer>(
                "Close a session",
                "Ends a session and deletes its variables and files.",
                destructive().idempotent(true),
            ),
            Self::FilesList => describe::<given::ListFiles, files::ListAnswer>(
                "List files",
                "Lists the files in a session's working directory.",
                read_only(),
            ),
            Self::FilesRead => describe::<given::ReadFile, files::ReadAnswer>(
                "Read a file",
                format!(
                    "Reads a file from a session: at most {} bytes of text per call (use offset for the rest), or a \
                     picture. For other files it returns a link to a resource that your client can fetch.",
                    files::MAX_TEXT_BYTES
                ),
                read_only(),
            ),
            Self::FilesWrite => describe::<given::WriteFile, files::WriteAnswer>(
                "Write a file",
                "Writes a file to a session, from text or base64.",
                destructive().idempotent(true),
            ),
        }
    }
}

/// Returns a tool with arguments of type `I` and structured content of type `O`, without a name.
fn describe<I: JsonSchema, O: JsonSchema>(
    title: &str,
    description: impl Into<Cow<'static, str>>,
    hints: ToolAnnotations,
) -> Tool {
    Tool::new("", description, given::input::<I>())
        .with_title(title)
        .with_raw_output_schema(given::output::<O>())
        .with_annotations(hints)
}

/// Sets the languages and the maximum timeout in a schema of arguments. Removes `check_types` without a type checker.
fn adapt(input: &mut JsonObject, tenant: &Tenant) {
    let Some(properties) = input.get_mut("properties").and_then(Value::as_object_mut) else { return };
    if let Some(language) = properties.get_mut("language") {
        language["enum"] = Value::from(languages(tenant));
    }
    if let Some(timeout) = properties.get_mut("timeout_ms") {
        timeout["maximum"] = json!(tenant.policy().limits.timeout_ms);
    }
    if tenant.service().type_checker().is_none() {
        properties.remove("check_types");
    }
}

fn read_only() -> ToolAnnotations {
    ToolAnnotations::new().read_only(true).destructive(false).idempotent(true).open_world(false)
}

fn additive() -> ToolAnnotations {
    ToolAnnotations::new().read_only(false).destructive(false).idempotent(false).open_world(false)
}

fn destructive() -> ToolAnnotations {
    ToolAnnotations::new().read_only(false).destructive(true).idempotent(false).open_world(false)
}

/// Returns the served languages by their names in `run_code`.
fn languages(tenant: &Tenant) -> Vec<&'static str> {
    let has = |language| tenant.service().runtimes().any(|runtime| runtime.language == language);
    let python = has(Language::Python).then_some("python");
    let javascript = has(Language::JavaScript).then_some(["javascript", "typescript"]);
    python.into_iter().chain(javascript.into_iter().flatten()).collect()
}

/// Returns the description of `run_code` for a tenant.
fn run_code(tenant: &Tenant, policy: &Policy, listing: &str) -> String {
    let mut text = "Runs code in a sandbox and returns its output, the value of its last expression, and the pictures \
                    it displays.\n"
        .to_owned();
    for language in [Language::Python, Language::JavaScript] {
        // The first runtime of a language is its default.
        if let Some(runtime) = tenant.service().runtimes().find(|runtime| runtime.language == language) {
            text.push_str(&about(runtime));
        }
    }
    let limits = &policy.limits;
    text.push_str(&format!(
        "Only sessions have state: without `session`, each call starts from scratch and leaves nothing behind. The working \
         directory is /app; pass files in `files`{}.\n\
         {} Subprocesses and package installation are not available. Limits: {} s, {} MiB of memory, {} MiB of files, \
         {} kB of output. Long output is shortened to its head and tail; print only what matters.\n",
        if tenant.is_in_fleet() { ", but only without `session`" } else { ", or write them to a session with files_write" },
        network(&policy.network),
        limits.timeout_ms as f64 / 1e3,
        limits.memory_bytes >> 20,
        limits.workspace_bytes >> 20,
        limits.stdout_bytes / 1000,
    ));
    if policy.workspace.is_some() || !policy.mounts.is_empty() {
        text.push_str("These directories belong to the host:");
        let workspace = policy.workspace.iter().map(|_| "/app".to_owned());
        let mounts = policy.mounts.iter().map(|mount| mount.guest.to_string());
        text.push_str(&format!(" {}.\n", workspace.chain(mounts).collect::<Vec<_>>().join(", ")));
    }
    text.push_str(listing);
    text
}

/// Describes for a model which URLs scripts can reach.
fn network(policy: &NetworkPolicy) -> String {
    const SHOWN: usize = 10;
    if policy.allow.is_empty() {
        return "There is no network.".to_owned();
    }
    let more = if policy.allow.len() > SHOWN { " and others" } else { "" };
    let shown = policy.allow.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    format!("fetch, urllib.request and requests can reach only {shown}{more}.")
}

/// Describes a runtime for a model.
fn about(runtime: &RuntimeInfo) -> String {
    let version = &runtime.version;
    match runtime.language {
        Language::Python if runtime.has_library => format!(
            "* python: CPython {version} with numpy, pandas, scipy, scikit-learn, statsmodels, matplotlib, seaborn, sympy, Pillow, lxml, \
             openpyxl and PyYAML in addition to the standard library. display(x), plt.show() and, in a session, a figure or table as the last \
             expression show pictures and tables.\n"
        ),
        Language::Python => format!(
            "* python: CPython {version} with its standard library, and openpyxl, xlsxwriter, PyPDF2, jinja2, markdown, tabulate and \
             dateutil; no numpy, no pandas. display(x) shows values that are not text.\n"
        ),
        Language::JavaScript => format!(
            "* javascript, typescript: QuickJS {version} with ECMAScript 2025, console, import and export, top-level await, and parts of \
             Node's modules; no DOM. TypeScript types are removed and not checked.\n"
        ),
    }
}

/// Maximum number of listed sessions. By default, a tenant can have 1,000, which are too many for a model to read.
const MAX_LISTED: usize = 100;

/// A session.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct OneAnswer {
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
struct ListAnswer {
    sessions: Vec<OneAnswer>,
    /// The number of sessions that are not listed.
    more: u64,
}

/// The structured content of `session_undo` and `session_close`.
#[derive(Debug, Serialize, JsonSchema)]
struct DoneAnswer {
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
        format!("{session}: {language}, executions: {executions}, last used {updated_at}")
    }
}

pub(super) async fn open_session(tenant: &Tenant, given: given::OpenSession) -> Result<CallToolResult, ServiceError> {
    let id = given.session.as_deref().map(given::session_id).transpose()?;
    let opened = tenant.open(id, Some(given.language.language()), None, None, serde_json::Map::new(), ()).await?;
    let answer = OneAnswer::of(opened);
    let text = format!("Session `{}` is open: {} ({}).", answer.session, answer.language, answer.runtime);
    Ok(answer::text(text, &answer))
}

pub(super) async fn list_sessions(
    tenant: &Tenant,
    given::NoArguments {}: given::NoArguments,
) -> Result<CallToolResult, ServiceError> {
    let SessionPage { sessions: mut all, damaged, .. } = tenant.list().await?;
    let count = all.len() + damaged.len();
    // Sort by the time of the last save, latest first.
    all.sort_by_key(|session| std::cmp::Reverse(session.updated_at));
    let sessions: Vec<OneAnswer> = all.into_iter().map(OneAnswer::of).take(MAX_LISTED).collect();
    let more = count - sessions.len();
    let mut lines: Vec<String> = sessions.iter().map(OneAnswer::line).collect();
    match (lines.is_empty(), more) {
        (true, 0) => lines.push("There are no sessions.".to_owned()),
        (_, 0) => {}
        (_, more) => lines.push(format!("and {more} more")),
    }
    let more = u64::try_from(more).unwrap_or(u64::MAX);
    Ok(answer::text(lines.join("\n"), &ListAnswer { sessions, more }))
}

pub(super) async fn fork_session(tenant: &Tenant, given: given::ForkSession) -> Result<CallToolResult, ServiceError> {
    let fork = given.fork.as_deref().map(given::session_id).transpose()?;
    let answer = OneAnswer::of(tenant.fork(&given::session_id(&given.session)?, fork).await?);
    Ok(answer::text(format!("Session `{}` is a copy of `{}`.", answer.session, given.session), &answer))
}

pub(super) async fn undo_session(tenant: &Tenant, given: given::OneSession) -> Result<CallToolResult, ServiceError> {
    tenant.undo(&given::session_id(&given.session)?, None).await?;
    let text = format!("Session `{}` was restored to its state before its last execution.", given.session);
    Ok(answer::text(text, &DoneAnswer { session: given.session }))
}

pub(super) async fn close_session(tenant: &Tenant, given: given::OneSession) -> Result<CallToolResult, ServiceError> {
    tenant.close(&given::session_id(&given.session)?).await?;
    Ok(answer::text(format!("Session `{}` is closed.", given.session), &DoneAnswer { session: given.session }))
}
