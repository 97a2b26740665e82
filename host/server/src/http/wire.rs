//! JSON form of requests and responses.

use std::{collections::BTreeMap, ops::RangeInclusive, time::Duration};

use glovebox::{CheckpointInfo, FileEntry, FilePage, JsonText, Language, RuntimeInfo, SourceKind};
use glovebox_core::{at_most, contract::too_costly_patterns, entries_at_most};
use glovebox_sessions::SessionId;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, value::RawValue};
use utoipa::ToSchema;

use super::{
    Problem, ReadBody,
    budget::ChargedBytes,
    tools::{ToolBodies, ToolBody},
};
use crate::{
    FreshScript, Script, ServiceError, SessionTarget, Tenant, Work,
    json::{Bytes, JsonCost, UNIT_BYTES},
    tenant::SuspendedRequest,
    text::quoted,
    workers::WorkersState,
};

/// Maximum size of a request's policy, and of its tools, in bytes of JSON. Parsed values occupy many times the memory
/// of their text.
const MAX_VALUE_BYTES: usize = 256 << 10;

/// Maximum number of files in a request.
pub(super) const MAX_FILES: usize = 10_000;

/// Maximum number of patterns in `return_files`. Every file is compared with every pattern.
pub(super) const MAX_PATTERNS: usize = 16;

/// The default time for which a suspended execution is stored: 7 days.
const DEFAULT_TTL_MS: u64 = 7 * 24 * 60 * 60 * 1_000;
/// The times for which a suspended execution can be stored: 1 s to 30 days. The maximum is longer than most approvals
/// take. A longer time would fill the store with executions that clients have forgotten.
const TTL_MS: RangeInclusive<u64> = 1_000..=30 * 24 * 60 * 60 * 1_000;

/// The error message for a request that sets `suspend`, but has no tool that the client answers.
pub(super) const NO_STEPPED_TOOL: &str =
    "`suspend` requires a tool without a `callback`; add one to `tools`, or remove `suspend`";

/// Returns `ttl_ms` if a suspended execution can be stored for that time.
pub(super) fn checked_ttl(ttl_ms: u64) -> Result<u64, Problem> {
    if TTL_MS.contains(&ttl_ms) {
        return Ok(ttl_ms);
    }
    let (min, max) = TTL_MS.into_inner();
    Err(Problem::invalid(format!("`ttl_ms` is {ttl_ms}; it must be between {min} and {max}")))
}

/// A script with its input, files, tools and limits.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecuteBody {
    /// Source code of the script.
    #[schema(required = true, example = "print(6 * 7)")]
    pub(super) source: Option<String>,
    /// `python` or `javascript`. Default: the language of the runtime, or of the server's first runtime. Not
    /// allowed in a session, which has its own language.
    #[schema(value_type = Option<String>, example = "python")]
    pub(super) language: Option<Language>,
    /// Name of a runtime: `GET /v1/info` lists them. Default: the default runtime of the language. Not allowed in a
    /// session, which has its own runtime.
    pub(super) runtime: Option<String>,
    /// File name that tracebacks show. Default: `<sandbox>`.
    pub(super) name: Option<String>,
    /// Parsing mode of JavaScript: `script`, `module`, or `detect`, which detects a module by its syntax. Default:
    /// `detect`.
    #[schema(value_type = Option<String>)]
    pub(super) kind: Option<SourceKind>,
    /// Standard input. Default: empty.
    pub(super) stdin: Option<Bytes>,
    /// Value of the global variable `context`: any JSON value. Default, as for `null`: no such variable; in a session,
    /// its current value.
    #[schema(value_type = Option<Value>)]
    pub(super) context: Option<Box<RawValue>>,
    /// Returns the value of the last expression. Formatting it as text and JSON consumes fuel. Default: `true`. Not
    /// allowed in a session, which always returns the value.
    pub(super) value: Option<bool>,
    /// Milliseconds after which the execution is cancelled. Default: no deadline. `limits.timeout_ms` of the policy
    /// still applies.
    pub(super) deadline_ms: Option<u64>,
    /// Files in the workspace at the start, by path. Not allowed in a session, which has its own files.
    #[serde(default, deserialize_with = "entries_at_most::<_, Bytes, _, MAX_FILES>")]
    pub(super) files: Option<BTreeMap<String, Bytes>>,
    /// Requested policy, within the policy that is granted to this token. It has the keys of a policy file: `limits`,
    /// `clock`, `entropy`, `args`, `env`, `inject_setup`, `auto_persist_globals`, `session`, `metering`, `network`,
    /// `tools`. Not allowed in a session, which has the token's policy.
    #[schema(value_type = Option<BTreeMap<String, Value>>)]
    pub(super) policy: Option<Box<RawValue>>,
    /// Functions that the script may call in addition to the server's, at most 64. The client itself answers calls of
    /// tools without a `callback`.
    #[schema(value_type = Option<Vec<ToolBody>>)]
    pub(super) tools: Option<Box<RawValue>>,
    /// `true` to allow `POST /v1/executions/{id}/suspend` while the script waits for the client's answers. Requires a
    /// tool without a `callback`. Default: `false`.
    pub(super) suspendable: Option<bool>,
    /// `true` to suspend and store the execution when the script waits for the client's answers. The response has the
    /// `type` `suspended`, and `POST /v1/suspended/{id}` resumes the execution, even after a restart of the server.
    /// Requires a tool without a `callback`. Default: `false`.
    pub(super) suspend: Option<bool>,
    /// Milliseconds for which the server stores the suspended execution, from 1,000 to 2,592,000,000 (30 days). Requires
    /// `suspend`. Default: 604,800,000 (7 days).
    pub(super) ttl_ms: Option<u64>,
    /// `true` to check the types of a Python script, which does not run if it has type errors. Default: `false`.
    pub(super) check_types: Option<bool>,
    /// Patterns of files to return, such as `*.png` or `out/**`. Default: none. The names of changed files are always
    /// returned.
    #[serde(default, deserialize_with = "at_most::<_, String, _, MAX_PATTERNS>")]
    pub(super) return_files: Option<Vec<String>>,
}

impl ExecuteBody {
    /// Parses a request body. Returns the body and the charged memory, which must be held while the body, or a value
    /// converted from it, exists. Charges the policy and the tools as parsed values, although they are parsed later,
    /// and each file as one value. Charges the copy of the script and its input that a suspendable execution holds.
    pub(super) fn read(read: ReadBody) -> Result<(Self, ChargedBytes), Problem> {
        read.json_with(|body: &Self| {
            let values = values_bytes(body.files.as_ref(), body.policy.as_deref(), body.tools.as_deref())?;
            let copied = if body.is_suspendable() { body.script_bytes() } else { 0 };
            Ok(values + copied + if body.suspend == Some(true) { body.stored_bytes() } else { 0 })
        })
    }

    /// Returns `true` if the execution can be turned into bytes.
    fn is_suspendable(&self) -> bool {
        self.suspendable == Some(true) || self.suspend == Some(true)
    }

    /// Returns the size of the parts that [`stored`](Self::stored) copies, in bytes.
    fn stored_bytes(&self) -> usize {
        let files = self.files.iter().flatten().map(|(path, content)| path.len() + content.0.len()).sum::<usize>();
        let values = [&self.policy, &self.tools].into_iter().flatten().map(|value| value.get().len());
        files + values.sum::<usize>()
    }

    /// Returns a copy of the parts of the request that are stored with its suspended execution, if the request sets
    /// `suspend`.
    pub(super) fn stored(&self, session: Option<&SessionId>) -> Result<Option<SuspendedRequest>, Problem> {
        if self.suspend != Some(true) {
            return match self.ttl_ms {
                Some(_) => {
                    Err(Problem::invalid("`ttl_ms` requires `suspend`; set `suspend` to `true`, or remove `ttl_ms`"))
                }
                None => Ok(None),
            };
        }
        let tools = self.tools.clone().ok_or_else(|| Problem::invalid(NO_STEPPED_TOOL))?;
        let files = self.files.iter().flatten().map(|(path, content)| (path.clone(), content.0.clone()));
        Ok(Some(SuspendedRequest {
            tools,
            policy: self.policy.clone(),
            return_files: self.return_files.clone().unwrap_or_default(),
            session: session.cloned(),
            ttl_ms: checked_ttl(self.ttl_ms.unwrap_or(DEFAULT_TTL_MS))?,
            files: files.collect(),
        }))
    }

    /// Returns the size of the script and its input, in bytes.
    fn script_bytes(&self) -> usize {
        let source = self.source.as_ref().map_or(0, String::len);
        let stdin = self.stdin.as_ref().map_or(0, |stdin| stdin.0.len());
        source + stdin + self.context.as_ref().map_or(0, |context| context.get().len())
    }

    /// Returns the patterns of the files to return. Fails if a pattern is invalid or a limit is exceeded.
    fn take_returned_patterns(&mut self) -> Result<Vec<String>, Problem> {
        let patterns = self.return_files.take().unwrap_or_default();
        if let Some(message) = too_costly_patterns(&patterns) {
            return Err(Problem::invalid(message));
        }
        // Reject invalid patterns before any code runs.
        patterns.iter().try_for_each(|pattern| glovebox::check_pattern(pattern)).map_err(ServiceError::from)?;
        Ok(patterns)
    }

    /// Returns the memory that the tools occupy when parsed, in bytes.
    pub(super) fn tools_bytes(&self) -> Result<usize, Problem> {
        let text = self.tools.as_deref().map_or(0, |tools| tools.get().len());
        Ok(text + parsed_bytes("tools", self.tools.as_deref())?)
    }

    /// Converts the body to a script with the request's tools, and the patterns of the files to return.
    fn script(mut self, tenant: &Tenant) -> Result<(Script, Vec<String>), Problem> {
        let patterns = self.take_returned_patterns()?;
        let tools: ToolBodies = parsed("tools", self.tools.take())?;
        let suspendable = self.is_suspendable();
        let source =
            self.source.ok_or_else(|| Problem::invalid("`source` is missing; set it to the script's source"))?;
        let mut script = Script {
            source,
            name: self.name,
            kind: self.kind.unwrap_or_default(),
            stdin: self.stdin.map(|stdin| stdin.0).unwrap_or_default(),
            context: self.context.map(json_text).transpose()?,
            cancel_after: self.deadline_ms.map(Duration::from_millis),
            without_value: self.value == Some(false),
            suspendable,
            check_types: self.check_types == Some(true),
            wants_files: !patterns.is_empty(),
            ..Script::default()
        };
        tools.add_to(&mut script, tenant)?;
        Ok((script, patterns))
    }

    /// Converts the body to a request for a session, or for a new interpreter if `session` is `None`. Also returns the
    /// patterns of the files to return.
    pub(super) fn work(self, session: Option<SessionTarget>, tenant: &Tenant) -> Result<(Work, Vec<String>), Problem> {
        let Some(target) = session else {
            let (fresh, patterns) = self.fresh(tenant)?;
            return Ok((Work::Fresh(Box::new(fresh)), patterns));
        };
        let (script, patterns) = self.in_session(tenant)?;
        Ok((Work::InSession(target, Box::new(script)), patterns))
    }

    /// Converts the body to a request for a new interpreter.
    pub(super) fn fresh(mut self, tenant: &Tenant) -> Result<(FreshScript, Vec<String>), Problem> {
        let files = self.files.take().unwrap_or_default();
        let files = files.into_iter().map(|(path, bytes)| (path, bytes.0)).collect();
        let (language, runtime) = (self.language, self.runtime.take());
        let policy = parsed("policy", self.policy.take())?;
        let (script, patterns) = self.script(tenant)?;
        Ok((FreshScript { script, language, runtime, files, policy }, patterns))
    }

    /// Converts the body to a script for a session. Fails if it sets fields that sessions do not allow.
    pub(super) fn in_session(self, tenant: &Tenant) -> Result<(Script, Vec<String>), Problem> {
        let given = [
            ("language", self.language.is_some()),
            ("runtime", self.runtime.is_some()),
            ("value", self.value.is_some()),
            ("files", self.files.is_some()),
            ("policy", self.policy.is_some()),
        ];
        match given.into_iter().find(|(_, given)| *given) {
            Some((name, _)) => Err(Problem::invalid(format!(
                "`{name}` is not supported in a session; remove it, or execute outside a session"
            ))),
            None => self.script(tenant),
        }
    }
}

/// Converts `context` to JSON text for a script.
pub(crate) fn json_text(raw: Box<RawValue>) -> Result<JsonText, Problem> {
    JsonText::new(Box::<str>::from(raw)).map_err(|error| Problem::invalid(format!("`context`: {}", quoted(error))))
}

/// Returns the memory that the files, the policy and the tools of a request occupy when parsed, in bytes, in addition
/// to their text.
pub(super) fn values_bytes(
    files: Option<&BTreeMap<String, Bytes>>,
    policy: Option<&RawValue>,
    tools: Option<&RawValue>,
) -> Result<usize, Problem> {
    let files = files.map_or(0, BTreeMap::len) * UNIT_BYTES;
    Ok(files + parsed_bytes("policy", policy)? + parsed_bytes("tools", tools)?)
}

/// Returns the memory that the field `name` occupies when parsed, in bytes. Excludes the contents of strings. Fails if
/// the field exceeds `MAX_VALUE_BYTES` of JSON, has too many values, or is nested too deeply.
fn parsed_bytes(name: &str, raw: Option<&RawValue>) -> Result<usize, Problem> {
    let text = raw.map_or("", RawValue::get);
    let bytes = text.len();
    if bytes > MAX_VALUE_BYTES {
        return Err(Problem::invalid(format!(
            "`{name}` is {bytes} bytes of JSON; the maximum is {MAX_VALUE_BYTES}; send less"
        )));
    }
    JsonCost::of(text.as_bytes()).map_err(|error| Problem::invalid(format!("`{name}`: {error}")))
}

/// Parses the field `name`. Returns the default if the field is missing.
fn parsed<T: DeserializeOwned + Default>(name: &str, raw: Option<Box<RawValue>>) -> Result<T, Problem> {
    let Some(raw) = raw else { return Ok(T::default()) };
    serde_json::from_str(raw.get()).map_err(|error| Problem::invalid(format!("`{name}`: {}", quoted(error))))
}

/// Parameters of a new session.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenBody {
    /// Name of the session: 1 to 64 letters, digits, `.`, `_`, `-`, not starting with `.`. Default: 128 random bits in
    /// hexadecimal.
    #[schema(value_type = Option<String>)]
    pub(crate) id: Option<SessionId>,
    /// `python` or `javascript`. Default: the language of the runtime, or of the server's first runtime.
    #[schema(value_type = Option<String>)]
    pub(crate) language: Option<Language>,
    /// Name of a runtime. Default: the default runtime of the language.
    pub(crate) runtime: Option<String>,
    /// Value of the global variable `context` for scripts: any JSON value. Default, as for `null`: no such variable.
    #[schema(value_type = Option<Value>)]
    pub(crate) context: Option<Box<RawValue>>,
    /// Requested policy, as in `POST /v1/execute`. Only for servers that keep sessions in memory, such as `glovebox
    /// daemon`. Default: the token's policy.
    #[schema(value_type = Option<BTreeMap<String, Value>>)]
    policy: Option<Box<RawValue>>,
    /// Files to write to the workspace, by path.
    #[serde(default, deserialize_with = "entries_at_most::<_, Bytes, _, MAX_FILES>")]
    files: Option<BTreeMap<String, Bytes>>,
    /// Bytes from `GET /v1/sessions/{id}/state`, from which the session is resumed. Not allowed with `language`,
    /// `runtime`, `context` or `files`.
    state: Option<Bytes>,
}

impl OpenBody {
    /// Parses a request body, like [`ExecuteBody::read`]. An empty body is allowed.
    pub(super) fn read(read: ReadBody) -> Result<(Self, ChargedBytes), Problem> {
        if read.bytes.is_empty() {
            return read.json_or_default();
        }
        read.json_with(|body: &Self| {
            let files = body.files.as_ref().map_or(0, BTreeMap::len) * UNIT_BYTES;
            Ok(files + parsed_bytes("policy", body.policy.as_deref())?)
        })
    }

    pub(super) fn policy(&mut self) -> Result<Map<String, Value>, Problem> {
        parsed("policy", self.policy.take())
    }

    pub(super) fn files(&mut self) -> Vec<(String, Vec<u8>)> {
        self.files.take().unwrap_or_default().into_iter().map(|(path, bytes)| (path, bytes.0)).collect()
    }

    /// Returns the state to resume. Fails if the body also sets fields that the state determines.
    pub(super) fn state(&mut self) -> Result<Option<Vec<u8>>, Problem> {
        let Some(state) = self.state.take() else { return Ok(None) };
        let given = [
            ("language", self.language.is_some()),
            ("runtime", self.runtime.is_some()),
            ("context", self.context.is_some()),
            ("files", self.files.is_some()),
        ];
        match given.into_iter().find(|(_, given)| *given) {
            Some((name, _)) => Err(Problem::invalid(format!("`{name}` is part of `state`; remove `{name}`"))),
            None => Ok(Some(state.0)),
        }
    }
}

/// Parameters of a fork.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkBody {
    /// Name of the new session. Default: 128 random bits in hexadecimal.
    #[schema(value_type = Option<String>)]
    pub(crate) id: Option<SessionId>,
}

/// Parameters of a rollback.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UndoBody {
    /// Checkpoint to roll back to. Default: the last one that differs from the current state.
    pub(crate) checkpoint: Option<u64>,
}

/// A checkpoint.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CheckpointAnswer {
    /// Number of the checkpoint within its session.
    pub(crate) checkpoint: u64,
}

/// Checkpoints of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CheckpointsAnswer {
    /// Checkpoints, oldest first. Each has `id`, `automatic`, `executions` and `private_bytes`.
    #[schema(value_type = Vec<Value>)]
    pub(crate) checkpoints: Vec<CheckpointInfo>,
}

/// Result of hibernating a session.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HibernateAnswer {
    /// `true` if the session was in memory.
    pub(crate) was_live: bool,
}

/// A page of files.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FilesAnswer {
    /// Files, ordered by path. Each has `path`, `kind`, `size_bytes` and more.
    #[schema(value_type = Vec<Value>)]
    pub(crate) files: Vec<FileEntry>,
    /// Value of `cursor` that requests the next page; `null` on the last page.
    pub(crate) next: Option<String>,
}

/// Maximum number of files on a page.
pub(crate) const MAX_LISTED: usize = 10_000;
/// Maximum total length of the paths on a page, in bytes. A page has room for `MAX_LISTED` paths of 104 bytes each.
pub(crate) const MAX_LISTED_BYTES: usize = 1 << 20;

impl FilesAnswer {
    pub(crate) fn new(page: FilePage) -> Self {
        let last = page.entries.last().filter(|_| page.more > 0);
        Self { next: last.map(|last| last.path.clone()), files: page.entries }
    }
}

/// Result of checking a script.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ValidateAnswer {
    /// Diagnostics; empty if there are no syntax errors and no type errors. Each has `line`, `column` and `message`.
    #[schema(value_type = Vec<Value>)]
    pub(crate) diagnostics: Vec<glovebox::Diagnostic>,
}

/// Value of a variable.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct VariableAnswer {
    /// Representation of the value in its language.
    pub(crate) repr: String,
    /// The value as JSON; absent if it has no JSON form.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub(crate) value: Option<Box<RawValue>>,
}

/// Description of the server.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct InfoAnswer {
    /// Version of Glovebox.
    pub(crate) version: &'static str,
    /// Version of this API.
    pub(crate) protocol: u32,
    /// Process ID of the server; `null` unless the request arrives over a Unix socket.
    pub(crate) pid: Option<u32>,
    /// Milliseconds since the start of the server.
    pub(crate) uptime_ms: u64,
    /// Number of open sessions; `null` if the server keeps sessions in a store.
    pub(crate) sessions: Option<usize>,
    /// Version of the contract.
    pub(crate) contract: &'static str,
    /// Runtimes, with the default of each language first.
    pub(crate) runtimes: Vec<RuntimeAnswer>,
    /// Names of the server's tools that scripts may call.
    pub(crate) tools: Vec<String>,
    /// Policy that is granted to this token: the default of its executions, and the maximum that they may request.
    #[schema(value_type = BTreeMap<String, Value>)]
    pub(crate) policy: Value,
    /// Processes that execute scripts; `null` if the server executes them in its own process.
    pub(crate) workers: Option<WorkersState>,
}

/// A runtime, as the API lists it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RuntimeAnswer {
    /// Name of the runtime.
    name: String,
    /// Language of the runtime.
    language: &'static str,
    /// Version of the interpreter.
    version: String,
}

impl From<&RuntimeInfo> for RuntimeAnswer {
    fn from(info: &RuntimeInfo) -> Self {
        Self { name: info.name.clone(), language: info.language.name(), version: info.version.clone() }
    }
}
