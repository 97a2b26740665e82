//! What goes over the wire: requests and answers as JSON.

use std::{collections::BTreeMap, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use glovebox::{
    CheckpointInfo, Execution, FileEntry, FilePage, JsonText, Language, RuntimeInfo, SessionId, SessionInfo, SourceKind,
};
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};
use utoipa::ToSchema;

use super::{
    Problem,
    tools::{ToolBodies, ToolBody},
};
use crate::{
    Fresh, Script, ServiceError, SessionPage, SessionSummary,
    json_bytes::{Bytes, at_most, entries_at_most},
    json_cost::json_len,
    quoted::quoted,
    workers::WorkersState,
};

/// How much of a request may be a policy, or tools: as JSON values they take many times the memory of their text.
const MAX_VALUE_BYTES: usize = 256 << 10;

/// How many files a request may bring along.
const MAX_FILES: usize = 10_000;

/// How many patterns of files to give back a request may have; their bytes together; and the `*` in one. Every file is matched with each.
const MAX_PATTERNS: usize = 16;
const MAX_PATTERN_BYTES: usize = 1_024;
const MAX_STARS: usize = 8;

/// How much of an answer may be files.
pub(crate) const MAX_RETURNED_BYTES: u64 = 32 << 20;

/// How JavaScript is parsed.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// By looking at it.
    #[default]
    Detect,
    /// As a script.
    Script,
    /// As a module.
    Module,
}

impl From<Kind> for SourceKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Detect => Self::Detect,
            Kind::Script => Self::Script,
            Kind::Module => Self::Module,
        }
    }
}

/// A script, and what goes with it.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecuteBody {
    /// The source.
    #[schema(required = true, example = "print(6 * 7)")]
    source: Option<String>,
    /// `python` or `javascript`. Default: the runtime's, or that of the first runtime that is served. Not in a session, which has one.
    #[schema(value_type = Option<String>, example = "python")]
    language: Option<Language>,
    /// A runtime by name: `GET /v1/info` lists them. Default: the default of the language. Not in a session, which has one.
    runtime: Option<String>,
    /// The file name that tracebacks show. Default: `<sandbox>`.
    name: Option<String>,
    /// How JavaScript is parsed. Default: `detect`.
    kind: Option<Kind>,
    /// Standard input. Default: nothing.
    stdin: Option<Bytes>,
    /// What the script finds in the global variable `context`: any JSON. Default: no such variable.
    #[schema(value_type = Option<Value>)]
    context: Option<Box<RawValue>>,
    /// Whether a new interpreter returns the value of the last expression; making its text and JSON takes fuel. Default: yes. Not in a session,
    /// which always returns it.
    value: Option<bool>,
    /// Milliseconds after which it is cancelled. Default: never; `limits.timeout_ms` of the policy holds all the same.
    deadline_ms: Option<u64>,
    /// The files in the workspace when it begins, by path. Not in a session, which has files of its own.
    #[serde(default, deserialize_with = "files")]
    files: Option<BTreeMap<String, Bytes>>,
    /// What it asks for of the policy that this token is granted, by the names of a policy file: `limits`, `clock`, `entropy`, `args`,
    /// `env`, `inject_setup`, `auto_persist_globals`, `session`, `metering`, `network`. Not in a session, which has the token's own.
    #[schema(value_type = Option<BTreeMap<String, Value>>)]
    policy: Option<Box<RawValue>>,
    /// Functions that the script may call besides the server's: at most 64. Those without a `callback` are answered by whoever asked.
    #[schema(value_type = Option<Vec<ToolBody>>)]
    tools: Option<Box<RawValue>>,
    /// Patterns of files to give back, such as `*.png` or `out/**`. Default: none. The names of those that changed are in the answer in any
    /// case.
    #[serde(default, deserialize_with = "patterns")]
    return_files: Option<Vec<String>>,
}

fn files<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<BTreeMap<String, Bytes>>, D::Error> {
    entries_at_most::<D, Bytes, MAX_FILES>(deserializer).map(Some)
}

fn patterns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    at_most::<D, String, MAX_PATTERNS>(deserializer).map(Some)
}

impl ExecuteBody {
    /// Which files to give back.
    pub(crate) fn returned(&mut self) -> Result<Vec<String>, Problem> {
        let patterns = self.return_files.take().unwrap_or_default();
        let bytes: usize = patterns.iter().map(String::len).sum();
        let stars = patterns.iter().map(|pattern| pattern.matches('*').count()).max().unwrap_or_default();
        if bytes > MAX_PATTERN_BYTES || stars > MAX_STARS {
            return Err(Problem::invalid(format!(
                "the patterns of `return_files` take {bytes} bytes, with {stars} `*` in one; at most {MAX_PATTERN_BYTES} and {MAX_STARS} are taken"
            )));
        }
        // A pattern that is none is to be known before anything is run.
        patterns.iter().try_for_each(|pattern| glovebox::check_pattern(pattern)).map_err(ServiceError::from)?;
        Ok(patterns)
    }

    /// The functions that it brings along.
    pub(super) fn tools(&mut self) -> Result<ToolBodies, Problem> {
        self.tools.take().map(|tools| small("tools", &tools)).transpose().map(Option::unwrap_or_default)
    }

    fn script(self) -> Result<Script, Problem> {
        let source = self.source.ok_or_else(|| Problem::invalid("the request's body has no `source`"))?;
        Ok(Script {
            source,
            name: self.name,
            kind: self.kind.unwrap_or_default().into(),
            stdin: self.stdin.map(|stdin| stdin.0).unwrap_or_default(),
            context: self.context.map(json_text).transpose()?,
            cancel_after: self.deadline_ms.map(Duration::from_millis),
            without_value: self.value == Some(false),
            ..Script::default()
        })
    }

    /// For a new interpreter.
    pub(crate) fn fresh(mut self) -> Result<Fresh, Problem> {
        let files = self.files.take().unwrap_or_default();
        if files.len() > MAX_FILES {
            return Err(Problem::invalid(format!(
                "`files` has {} entries; at most {MAX_FILES} are taken",
                files.len()
            )));
        }
        let files = files.into_iter().map(|(path, bytes)| (path, bytes.0)).collect();
        let (language, runtime) = (self.language, self.runtime.take());
        let policy = self.policy.take().map(|policy| small("policy", &policy)).transpose()?.unwrap_or_default();
        Ok(Fresh { script: self.script()?, language, runtime, files, policy })
    }

    /// For a session.
    pub(crate) fn in_session(self) -> Result<Script, Problem> {
        let given = [
            ("language", self.language.is_some()),
            ("runtime", self.runtime.is_some()),
            ("value", self.value.is_some()),
            ("files", self.files.is_some()),
            ("policy", self.policy.is_some()),
        ];
        match given.into_iter().find(|(_, given)| *given) {
            Some((name, _)) => Err(Problem::invalid(format!(
                "`{name}` cannot be given in a session, which has its own; leave it out, or execute outside of a session"
            ))),
            None => self.script(),
        }
    }
}

/// JSON that a script is to see.
pub(crate) fn json_text(raw: Box<RawValue>) -> Result<JsonText, Problem> {
    JsonText::new(Box::<str>::from(raw)).map_err(|error| Problem::invalid(format!("`context`: {}", quoted(error))))
}

/// Something small, as values.
fn small<T: DeserializeOwned>(name: &str, raw: &RawValue) -> Result<T, Problem> {
    let bytes = raw.get().len();
    if bytes > MAX_VALUE_BYTES {
        return Err(Problem::invalid(format!(
            "`{name}` is {bytes} bytes of JSON; at most {MAX_VALUE_BYTES} are taken"
        )));
    }
    serde_json::from_str(raw.get()).map_err(|error| Problem::invalid(format!("`{name}`: {}", quoted(error))))
}

/// What a new session is.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenBody {
    /// Its name: 1 to 64 letters, digits, `.`, `_`, `-`, and no `.` in front. Default: 128 random bits in hexadecimal.
    pub(crate) id: Option<String>,
    /// `python` or `javascript`. Default: the runtime's, or that of the first runtime that is served.
    #[schema(value_type = Option<String>)]
    pub(crate) language: Option<Language>,
    /// A runtime by name. Default: the default of the language.
    pub(crate) runtime: Option<String>,
    /// What its scripts find in the global variable `context`: any JSON. Default: no such variable.
    #[schema(value_type = Option<Value>)]
    pub(crate) context: Option<Box<RawValue>>,
}

/// What a fork is.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkBody {
    /// Its name. Default: 128 random bits in hexadecimal.
    pub(crate) id: Option<String>,
}

/// Where to go back to.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UndoBody {
    /// A checkpoint. Default: the last one that differs from what the session is now.
    pub(crate) checkpoint: Option<u64>,
}

/// A checkpoint's name.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CheckpointAnswer {
    /// Its name within the session.
    pub(crate) checkpoint: u64,
}

/// The states that a session can be set back to.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CheckpointsAnswer {
    /// Oldest first. Each has `id`, `automatic`, `executions` and `private_bytes`.
    #[schema(value_type = Vec<Value>)]
    pub(crate) checkpoints: Vec<CheckpointInfo>,
}

/// Whether a session was in memory.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HibernateAnswer {
    /// Whether it was.
    pub(crate) was_live: bool,
}

/// A session.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionAnswer {
    /// Its name.
    id: String,
    /// Its language.
    language: &'static str,
    /// Its runtime.
    runtime: String,
    /// The interpreter's version, if known.
    version: Option<String>,
    /// When it was opened, imported or forked (RFC 3339).
    created_at: String,
    /// When it was last written (RFC 3339).
    updated_at: String,
    /// Executions so far.
    executions: u64,
    /// Which state it is: what `ETag` has, and `If-Match` may ask for.
    pub(crate) generation: String,
    /// The size of its state in the store.
    bytes: u64,
    /// What it holds in memory; `null` where it is not.
    #[schema(value_type = Option<Value>)]
    live: Option<SessionInfo>,
}

impl From<SessionSummary> for SessionAnswer {
    fn from(session: SessionSummary) -> Self {
        Self {
            id: session.id.to_string(),
            language: session.language.name(),
            runtime: session.runtime,
            version: session.version,
            created_at: session.created_at.to_string(),
            updated_at: session.updated_at.to_string(),
            executions: session.executions,
            generation: session.generation,
            bytes: session.bytes,
            live: session.live,
        }
    }
}

/// Sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionsAnswer {
    /// In the order of their names.
    sessions: Vec<SessionAnswer>,
    /// The names of those that are damaged and can only be removed.
    damaged: Vec<String>,
    /// Give it as `after` to list what follows; null where nothing follows.
    next: Option<String>,
}

impl From<SessionPage> for SessionsAnswer {
    fn from(SessionPage { sessions, damaged, next }: SessionPage) -> Self {
        let sessions = sessions.into_iter().map(SessionAnswer::from).collect();
        let damaged = damaged.iter().map(SessionId::to_string).collect();
        Self { sessions, damaged, next: next.map(|id| id.to_string()) }
    }
}

/// A file of a workspace.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FilesAnswer {
    /// In the order of their paths. Each has `path`, `kind`, `size_bytes` and more.
    #[schema(value_type = Vec<Value>)]
    pub(crate) files: Vec<FileEntry>,
    /// The `cursor` with which the next ones are asked for. None after the last.
    pub(crate) next: Option<String>,
}

/// How many files are listed at once.
pub(crate) const MAX_LISTED: usize = 10_000;
/// Maximum bytes of the paths on one page. A workspace of ordinary names fits into one.
pub(crate) const MAX_LISTED_BYTES: usize = 1 << 20;

impl FilesAnswer {
    pub(crate) fn new(page: FilePage) -> Self {
        let last = page.entries.last().filter(|_| page.more > 0);
        Self { next: last.map(|last| last.path.clone()), files: page.entries }
    }
}

/// What the parser says.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ValidateAnswer {
    /// Nothing where the source is well-formed. Each has `line`, `column` and `message`.
    #[schema(value_type = Vec<Value>)]
    pub(crate) diagnostics: Vec<glovebox::Diagnostic>,
}

/// A variable's value.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct VariableAnswer {
    /// As the language shows it.
    pub(crate) repr: String,
    /// As JSON; absent where it has no such form.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub(crate) value: Option<Box<RawValue>>,
}

/// What is served.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct InfoAnswer {
    /// The version of Glovebox.
    pub(crate) version: &'static str,
    /// The version of the contract.
    pub(crate) contract: &'static str,
    /// The runtimes, the default of each language first.
    pub(crate) runtimes: Vec<RuntimeAnswer>,
    /// The names of the tools that scripts may call here.
    pub(crate) tools: Vec<String>,
    /// The policy that this token is granted: what executions have where they ask for nothing, and the most that they may ask for.
    #[schema(value_type = BTreeMap<String, Value>)]
    pub(crate) policy: Value,
    /// The processes in which everything is executed; `null` where it is done in the server's own.
    pub(crate) workers: Option<WorkersState>,
}

/// A runtime.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RuntimeAnswer {
    /// Its name.
    name: String,
    /// Its language.
    language: &'static str,
    /// The interpreter's version.
    version: String,
}

impl From<&RuntimeInfo> for RuntimeAnswer {
    fn from(info: &RuntimeInfo) -> Self {
        Self { name: info.name.clone(), language: info.language.name(), version: info.version.clone() }
    }
}

/// What one execution did and used: as `glovebox run --json` prints it, without the host's path, and with files.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExecutionAnswer {
    /// `success`, `outcome`, `exit_code`, `interrupted`, `value`, `stdout`, `stderr`, `stdout_truncated`, `stderr_truncated`, `displays`,
    /// `displays_dropped`, `fuel_consumed`, `memory_used_bytes`, `duration_ms`, `files_created`, `files_modified`, `files_deleted`,
    /// `tool_calls`, `session_id`, `rolled_back_to`, `guidance`, `metadata`.
    #[serde(flatten)]
    #[schema(value_type = ExecutionForm)]
    execution: ExecutionFields,
    /// The sizes of files whose contents are still to be read.
    #[serde(skip)]
    sizes: BTreeMap<String, u64>,
    /// The files that `return_files` asked for, in base64, by path.
    files: BTreeMap<String, String>,
    /// How many of them are left out, since the answer has 32 MiB of files already.
    files_left_out: usize,
}

/// An execution without the host's path.
#[derive(Debug)]
struct ExecutionFields(Box<Execution>);

impl Serialize for ExecutionFields {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl ExecutionAnswer {
    /// With the names of the files that match one of the patterns.
    pub(crate) fn new(mut execution: Execution, patterns: &[String]) -> Result<Self, glovebox::FilesError> {
        // Whoever asks over a network must not see the host's path.
        execution.workspace_path = None;
        let (mut sizes, mut left_out, mut bytes) = (BTreeMap::new(), 0, 0_u64);
        for pattern in patterns {
            for entry in execution.files().list(pattern)? {
                if entry.kind != glovebox::FileKind::File || sizes.contains_key(&entry.path) {
                    continue;
                }
                bytes = bytes.saturating_add(entry.size_bytes);
                if bytes > MAX_RETURNED_BYTES {
                    left_out += 1;
                    continue;
                }
                sizes.insert(entry.path, entry.size_bytes);
            }
        }
        let execution = ExecutionFields(Box::new(execution));
        Ok(Self { execution, sizes, files: BTreeMap::new(), files_left_out: left_out })
    }

    /// How many bytes of JSON the files will be that [`read_files`](Self::read_files) adds.
    pub(crate) fn files_len(&self) -> usize {
        let file = |(path, size): (&String, &u64)| {
            let content = usize::try_from(size.div_ceil(3).saturating_mul(4)).unwrap_or(usize::MAX);
            // As `"path":"content",`.
            json_len(path).unwrap_or_default().saturating_add(content).saturating_add(4)
        };
        self.sizes.iter().map(file).fold(0, usize::saturating_add)
    }

    /// Adds the contents of the files. Called on a thread that may block: files of host directories are read.
    pub(crate) fn read_files(&mut self) -> Result<(), glovebox::FilesError> {
        for path in std::mem::take(&mut self.sizes).into_keys() {
            let content = BASE64_STANDARD.encode(self.execution.0.files().read(&path)?);
            self.files.insert(path, content);
        }
        Ok(())
    }
}

/// The form of [`ExecutionFields`], for the document. A test holds it to what is sent.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes")]
pub(crate) struct ExecutionForm {
    /// Whether the script succeeded.
    success: bool,
    /// What the guest did: `kind` is `completed`, `exited`, `raised`, `exhausted`, `cancelled` or `trapped`.
    #[schema(value_type = Value)]
    outcome: Value,
    /// The exit code that a process would have had.
    exit_code: i32,
    /// The exception by which the script ended when it was asked to stop.
    #[schema(value_type = Option<Value>)]
    interrupted: Value,
    /// The value of the last expression: `repr`, and `json` as text.
    #[schema(value_type = Option<Value>)]
    value: Value,
    /// What it wrote to standard output; bytes that are not UTF-8 are replaced.
    stdout: String,
    /// What it wrote to standard error.
    stderr: String,
    /// Whether it wrote more than `limits.stdout_bytes`.
    stdout_truncated: bool,
    /// Whether it wrote more than `limits.stderr_bytes`.
    stderr_truncated: bool,
    /// What it showed: MIME bundles, each with `is_result` and `data`, by media type, texts as they are and others in base64.
    displays: Vec<Value>,
    /// How many displays were dropped.
    displays_dropped: u64,
    /// Fuel used.
    fuel_consumed: u64,
    /// The most memory in use.
    memory_used_bytes: u64,
    /// Milliseconds from the start of the guest to its end.
    duration_ms: f64,
    /// Files that were not there before.
    files_created: Vec<String>,
    /// Files that were written to.
    files_modified: Vec<String>,
    /// Files that are gone.
    files_deleted: Vec<String>,
    /// The tools it called.
    tool_calls: Vec<Value>,
    /// Always `null`: it is a path of the server's.
    #[schema(value_type = Option<String>)]
    workspace_path: Option<String>,
    /// The session.
    session_id: Option<String>,
    /// The checkpoint that the session was rolled back to.
    #[schema(value_type = Option<Value>)]
    rolled_back_to: Value,
    /// How the fuel was used, and advice on a failure.
    guidance: Value,
    /// How it was carried out.
    metadata: Value,
}
