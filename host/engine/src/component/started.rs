//! Implements `resource started`: executions that the component steps through.

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use glovebox_core::{
    contract::{MAX_READ_BYTES, quoted},
    journal::{JOURNAL_BYTES, JournalEntry, MAX_ENTRIES},
};
use serde_json::Value;
use wasmtime::component::Resource;

use super::{
    SandboxCtx,
    convert::{self, SandboxFailure},
    quotas::{OverQuota, QuotaUse, Share},
    sandbox::{Bytes, Snapshot},
    session::{SessionResource, Stepping, fuel_of_a_call},
    wit::{
        sandbox::{HostStarted, OutputStream, Step, ToolAnswer, ToolRequest},
        types::{Request, SandboxError, Tool},
    },
};
use crate::{
    AdvanceError, Execution, Files, Sandbox, Started, SuspendError, ToolError,
    exec::{platform::Budget, stepping, suspend::call_bytes},
    tools::{MAX_UNTRUSTED_PATTERN_BYTES, weight},
};

impl SandboxCtx {
    /// Adds the component's tools to a sandbox. Charge the call first, because compiling schemas takes time.
    pub(super) fn with_tools(&self, sandbox: Sandbox, tools: &[Tool]) -> Result<Sandbox, SandboxFailure> {
        if tools.is_empty() {
            return Ok(sandbox);
        }
        let (tools, bytes) = checked(tools)?;
        let share = self.meter.take(QuotaUse::Bytes(bytes))?;
        let toolbox = sandbox.0.toolbox.with(&tools);
        let toolbox = toolbox.map_err(|error| SandboxError::InvalidArgument(format!("`tools`: {error}")))?;
        Ok(sandbox.with_toolbox(toolbox.keep_alive(share)))
    }

    /// Takes a share of the byte quota for the maximum output of an execution.
    fn output_share(&self, sandbox: &Sandbox) -> Result<Share, OverQuota> {
        let limits = &sandbox.policy().limits;
        let bytes = [limits.stdout_bytes, limits.stderr_bytes, limits.display_bytes];
        self.meter.take(QuotaUse::Bytes(bytes.into_iter().fold(0, u64::saturating_add)))
    }

    /// Implements `start`, `start-suspendable` and `resume-suspended`, with the sandbox for the requested runtime and
    /// policy. `fuel` is the maximum fuel of the execution.
    pub(super) fn start_in_sandbox(
        &mut self,
        sandbox: Sandbox,
        request: crate::Request<'_>,
        fuel: u64,
        tools: &[Tool],
        suspendable: Option<SuspendableRequest>,
    ) -> Result<Resource<Stepped>, SandboxFailure> {
        let (handle, started) = (self.meter.take(QuotaUse::Handle)?, self.meter.take(QuotaUse::Started)?);
        let left = RetainedResults::new(self.output_share(&sandbox)?);
        let (meter, there) = (Arc::clone(&self.meter), Arc::clone(&left));
        let budget = Budget::empty();
        let bill = self.meter.execution(fuel, &budget)?;
        let sandbox = self.with_tools(sandbox, tools)?;
        let asked = request.session_id(&self.id).cancel(&self.cancel).budget(&budget);
        let decoded = suspendable.as_ref().and_then(|suspendable| suspendable.decoded.clone());
        let journal = suspendable.as_ref().map(|_| self.meter.take(QuotaUse::Bytes(JOURNAL_MEMORY_BYTES)));
        let journal = journal.transpose()?;
        let started = sandbox.start_with(asked, move |execution| {
            // The handle may already be dropped.
            let _until_here = (started, bill, decoded, journal);
            execution.session_id = None;
            let files = execution.take_files();
            *there.files() = match meter.take(QuotaUse::Bytes(files.held_bytes())) {
                Ok(share) => RetainedFiles::Held { files, _share: share },
                Err(error) => RetainedFiles::TooLarge(error),
            };
            there.finish(execution);
        })?;
        self.put(handle, Stepped { started, left, stepping: None, suspendable, is_in_session: false, is_done: false })
    }

    /// Implements `session.start`.
    pub(super) fn start_in_session(
        &mut self,
        session: &Resource<SessionResource>,
        request: Request,
    ) -> Result<Resource<Stepped>, SandboxFailure> {
        let resource = self.get(session)?.clone();
        let (stepping, running) = resource.step()?;
        let (handle, started) = (self.meter.take(QuotaUse::Handle)?, self.meter.take(QuotaUse::Started)?);
        let sandbox = resource.session().sandbox();
        let left = RetainedResults::new(self.output_share(sandbox)?);
        let there = Arc::clone(&left);
        let keeper = resource.keeper().clone();
        let bill = self.meter.execution(fuel_of_a_call(sandbox), &keeper.budget)?;
        let asked = convert::request(&request).cancel(&keeper.cancel).budget(&keeper.budget);
        let session = resource.session().clone();
        let started = session.start_with(asked, move |execution| {
            // The handle may already be dropped, and this may be the last reference to the session.
            let _until_here = (started, bill, running, resource);
            drop(execution.take_files());
            there.finish(execution);
        })?;
        let stepping = Some(stepping);
        self.put(handle, Stepped { started, left, stepping, suspendable: None, is_in_session: true, is_done: false })
    }
}

impl HostStarted for SandboxCtx {
    fn continue_(
        &mut self,
        started: Resource<Stepped>,
        answers: Vec<ToolAnswer>,
        wait_ms: Option<u64>,
    ) -> Result<Step, SandboxFailure> {
        let stepped = self.get_mut(&started)?;
        let answers = answers.into_iter().map(stepping::ToolAnswer::from).collect();
        let step = stepped.started.advance(answers, wait_ms.map(Duration::from_millis));
        // A rejected answer does not end the execution.
        let end = matches!(step, Ok(stepping::Step::Done(_)) | Err(AdvanceError::Execute(_) | AdvanceError::Panicked));
        if end {
            stepped.is_done = true;
            stepped.stepping = None;
            if let Some(error) = stepped.left.over_quota.get() {
                return Err(error.clone().into());
            }
        }
        Ok(match step? {
            stepping::Step::Done(execution) => Step::Done(Execution::clone(&execution).into()),
            stepping::Step::NeedsTools(requests) => {
                Step::NeedsTools(requests.into_iter().map(ToolRequest::from).collect())
            }
            stepping::Step::Running => Step::Running,
        })
    }

    fn read_output(
        &mut self,
        started: Resource<Stepped>,
        stream: OutputStream,
        offset: u64,
        len: u64,
    ) -> wasmtime::Result<Vec<u8>> {
        Ok(self.get(&started)?.started.read_output(stream.into(), offset, len.min(MAX_READ_BYTES)))
    }

    fn files(&mut self, started: Resource<Stepped>) -> Result<Resource<Snapshot>, SandboxFailure> {
        let stepped = self.get(&started)?;
        if stepped.is_in_session {
            let text = "the files of an execution in a session belong to the session; use `session.files`";
            return Err(SandboxError::Unsupported(text.into()).into());
        }
        if !stepped.is_done {
            let text = "the execution may still change its files; call `continue` until it returns `done`";
            return Err(SandboxError::SessionBusy(text.into()).into());
        }
        let files = match &*stepped.left.files() {
            RetainedFiles::Held { files, .. } => files.clone(),
            RetainedFiles::TooLarge(error) => return Err(error.clone().into()),
            RetainedFiles::None => {
                let text = "the execution could not be started and has no files";
                return Err(SandboxError::Unavailable(text.into()).into());
            }
        };
        self.put_files(files)
    }

    fn suspend(&mut self, started: Resource<Stepped>) -> Result<Resource<Bytes>, SandboxFailure> {
        let stepped = self.get(&started)?;
        let Some(suspendable) = &stepped.suspendable else { return Err(SuspendError::NotSuspendable.into()) };
        let calls_bytes = match stepped.started.advance(Vec::new(), Some(Duration::ZERO))? {
            stepping::Step::NeedsTools(calls) => calls.iter().map(|call| call_bytes(&call.name, &call.arguments)).sum(),
            stepping::Step::Running => 0,
            stepping::Step::Done(_) => return Err(SuspendError::Ended.into()),
        };
        let max_bytes = suspendable.bytes.saturating_add(calls_bytes).saturating_add(MAX_JOURNAL_BYTES);
        // A suspended execution without room for its bytes would be lost.
        let (handle, share) = (self.meter.take(QuotaUse::Handle)?, self.meter.take(QuotaUse::Bytes(max_bytes as u64))?);
        let bytes = stepped.started.suspend_within(calls_bytes)?.to_bytes(None);
        self.put(handle, Bytes::with(bytes.into_boxed_slice().into_vec(), share)?)
    }

    fn cancel(&mut self, started: Resource<Stepped>) -> wasmtime::Result<()> {
        self.get(&started)?.started.cancel();
        Ok(())
    }

    fn drop(&mut self, started: Resource<Stepped>) -> wasmtime::Result<()> {
        self.take(started).map(drop)
    }
}

impl From<ToolAnswer> for stepping::ToolAnswer {
    fn from(ToolAnswer { id, answer }: ToolAnswer) -> Self {
        Self { id, answer: answer.map_err(ToolError::from) }
    }
}

impl From<stepping::ToolRequest> for ToolRequest {
    fn from(stepping::ToolRequest { id, name, arguments }: stepping::ToolRequest) -> Self {
        Self { id, name, arguments }
    }
}

/// A started execution.
#[expect(unreachable_pub, reason = "the bindings re-export it, also from a private module")]
#[derive(Debug)]
pub struct Stepped {
    pub(super) started: Started,
    pub(super) left: Arc<RetainedResults>,
    /// In a session, keeps the session busy until the component has received the final result.
    pub(super) stepping: Option<Stepping>,
    /// `None` if the execution cannot be suspended.
    suspendable: Option<SuspendableRequest>,
    is_in_session: bool,
    pub(super) is_done: bool,
}

/// The parts of a suspendable execution that are known at its start, for the size of its bytes.
#[derive(Debug)]
pub(super) struct SuspendableRequest {
    /// The size of the request, or of the bytes from which the execution was resumed.
    pub(super) bytes: usize,
    /// The share of the byte quota for the decoded bytes. The handle and the running execution both hold them.
    pub(super) decoded: Option<Arc<Share>>,
}

impl SuspendableRequest {
    pub(super) fn new(request: &Request) -> Self {
        let Request { source, name, stdin, context, .. } = request;
        let texts = [name, context].into_iter().flatten().map(String::len).sum::<usize>();
        Self { bytes: source.len() + texts + stdin.as_ref().map_or(0, Vec::len), decoded: None }
    }
}

/// Maximum size of a journal in the bytes of a suspended execution. The engine limits its contents to 1 MiB, and
/// encoding adds at most half of that.
pub(super) const MAX_JOURNAL_BYTES: usize = 2 << 20;

/// Maximum memory of the journal of a running execution, in bytes. The capacity of its list doubles when it grows.
pub(super) const JOURNAL_MEMORY_BYTES: u64 = JOURNAL_BYTES + (2 * MAX_ENTRIES * size_of::<JournalEntry>()) as u64;

/// The results of a started execution that the host holds.
#[derive(Debug)]
pub(super) struct RetainedResults {
    /// The share of the byte quota. Covers the maximum output while the script runs, and the whole result after it has
    /// ended.
    share: Mutex<Share>,
    files: Mutex<RetainedFiles>,
    /// Set if the result exceeded the quota and was dropped.
    pub(super) over_quota: OnceLock<OverQuota>,
}

/// Files of an execution outside sessions.
#[derive(Debug)]
pub(super) enum RetainedFiles {
    None,
    Held { files: Files, _share: Share },
    TooLarge(OverQuota),
}

impl RetainedResults {
    pub(super) fn new(share: Share) -> Arc<Self> {
        Arc::new(Self { share: Mutex::new(share), files: Mutex::new(RetainedFiles::None), over_quota: OnceLock::new() })
    }

    pub(super) fn files(&self) -> MutexGuard<'_, RetainedFiles> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Charges the result to the quota. The output was already charged, but the other fields can exceed the quota. If
    /// they do, the result is cleared.
    pub(super) fn finish(&self, execution: &mut Execution) {
        let mut share = self.share.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = share.resize(result_bytes(execution)) {
            empty(execution);
            self.over_quota.get_or_init(|| error);
        }
    }
}

/// Clears the fields that can be large, except the output and the files, so that the result fits in the share for the
/// output.
fn empty(execution: &mut Execution) {
    let Execution {
        stdout,
        stderr,
        value,
        displays,
        interrupted,
        files_created,
        files_modified,
        files_deleted,
        tool_calls,
        guidance,
        ..
    } = execution;
    for output in [stdout, stderr] {
        output.bytes.shrink_to_fit();
    }
    (*value, *interrupted) = (None, None);
    for names in [files_created, files_modified, files_deleted] {
        *names = Vec::new();
    }
    (*tool_calls, *displays) = (Vec::new(), Vec::new());
    (guidance.advice, guidance.fuel.likely_causes) = (Vec::new(), Vec::new());
    execution.outcome = crate::Outcome::Completed;
}

/// Returns the approximate size of a result in bytes, excluding its files.
fn result_bytes(execution: &Execution) -> u64 {
    let text = |text: &str| size_of::<String>() + text.len();
    let option = |of: &Option<String>| of.as_deref().map_or(0, text);
    let raised = [execution.interrupted.as_ref(), execution.outcome.raised()].into_iter().flatten();
    let raised = raised.map(|raised| text(&raised.type_name) + text(&raised.message) + text(&raised.traceback));
    let Execution { files_created, files_modified, files_deleted, .. } = execution;
    let names = [files_created, files_modified, files_deleted].into_iter().flatten().map(|name| text(name));
    let calls = execution.tool_calls.iter().map(|call| {
        let answer_bytes = match &call.outcome {
            crate::ToolOutcome::Returned(answer) | crate::ToolOutcome::Failed { message: answer, .. } => option(answer),
            crate::ToolOutcome::Unfinished => 0,
        };
        size_of_val(call) + text(&call.name) + option(&call.arguments) + answer_bytes
    });
    let value = execution.value.as_ref().map_or(0, |value| text(&value.repr) + option(&value.json));
    let displays = execution.displays.iter().map(|display| {
        let forms = display.forms.iter().map(|form| size_of_val(form) + form.media_type.len() + form.data.len());
        size_of_val(display) + forms.sum::<usize>()
    });
    let advice = execution.guidance.advice.iter().map(|advice| {
        let correction = advice.correction.as_ref().map_or(0, |correction| text(&correction.text));
        let steps = advice.steps.iter().map(|step| text(step)).sum::<usize>();
        size_of_val(advice) + text(&advice.summary) + steps + correction
    });
    let causes = execution.guidance.fuel.likely_causes.iter().map(|cause| text(cause));
    let parts = raised.chain(names).chain(calls).chain(displays).chain(advice).chain(causes);
    let rest = parts.fold(size_of::<Execution>() + value, usize::saturating_add);
    (execution.stdout.bytes.capacity() + execution.stderr.bytes.capacity()).saturating_add(rest) as u64
}

// Tools that a component answers itself.
//
// The component chooses their schemas. The host compiles the schemas and checks arguments against them, so the cost of
// both must be bounded. Keywords that can make a small schema expensive are rejected. With references, each schema can
// include the next one twice, so the cost doubles with each schema. `unevaluatedItems` and similar keywords evaluate
// schemas again.

/// Maximum number of tools of one component. The host holds a compiled schema for each tool.
const MAX_TOOLS: usize = 1_024;

/// Maximum total size of all names, descriptions and schemas as text, in bytes.
const MAX_TEXT_BYTES: usize = 1 << 20;
/// Maximum total size of all schemas as parsed values, in bytes.
const MAX_VALUE_BYTES: u64 = 32 << 20;

/// Maximum number of JSON values in one tool's schema. Each value is compared at most once with each value in the
/// arguments, and 1 MiB of arguments contains half a million values. With this limit, a check takes seconds at worst,
/// on a thread that cannot be interrupted.
const MAX_VALUES: usize = 2_000;

/// Maximum number of regular expressions in all tools together. A match can visit many states per byte of text: with
/// the largest expression, 1 MiB of text takes about ten seconds.
const MAX_PATTERNS: usize = 8;

/// Schema keywords that are rejected.
const REFUSED: [&str; 11] = [
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "unevaluatedItems",
    "unevaluatedProperties",
    "dependencies",
    "dependentSchemas",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "discriminator",
];

/// Counts the regular expressions in schemas.
#[derive(Default)]
struct Patterns(usize);

fn wrong(what: impl Into<String>) -> SandboxError {
    SandboxError::InvalidArgument(format!("`tools`: {}", what.into()))
}

/// Checks and converts the component's tools. Also returns the approximate memory that the host holds for them, in
/// bytes.
pub(super) fn checked(tools: &[Tool]) -> Result<(Vec<crate::Tool>, u64), SandboxError> {
    if tools.len() > MAX_TOOLS {
        return Err(wrong(format!("there are {} tools; the maximum is {MAX_TOOLS}", tools.len())));
    }
    let text =
        |tool: &Tool| tool.name.len() + tool.description.len() + tool.arguments_schema.as_ref().map_or(0, String::len);
    let text_bytes: usize = tools.iter().map(text).sum();
    let schemas = tools.iter().filter_map(|tool| tool.arguments_schema.as_ref());
    let value_bytes: u64 = schemas.map(|schema| weight(schema.as_bytes())).sum();
    if text_bytes > MAX_TEXT_BYTES {
        let what = "the names, descriptions and schemas are";
        return Err(wrong(format!("{what} {text_bytes} bytes in total; the maximum is {MAX_TEXT_BYTES}")));
    }
    if value_bytes > MAX_VALUE_BYTES {
        return Err(wrong("the schemas contain too many values; offer fewer tools or simpler schemas"));
    }
    let mut patterns = Patterns::default();
    let mut checked = Vec::with_capacity(tools.len());
    for tool in tools {
        let mut made = crate::Tool::new(&*tool.name, &*tool.description).stepped().untrusted_schema();
        if let Some(text) = &tool.arguments_schema {
            let of = |reason: String| wrong(format!("the schema of `{}`: {reason}", quoted(&tool.name)));
            let schema: Value = serde_json::from_str(text).map_err(|error| of(format!("it is not JSON: {error}")))?;
            let count = values(&schema);
            if count > MAX_VALUES {
                return Err(of(format!("it has {count} JSON values; the maximum is {MAX_VALUES}; simplify it")));
            }
            patterns.see(&schema).map_err(of)?;
            made = made.schema(schema);
        }
        checked.push(made);
    }
    // Each regular expression is charged for its compiled form and its matching cache.
    let compiled = (2 * MAX_UNTRUSTED_PATTERN_BYTES as u64).saturating_mul(patterns.0 as u64);
    Ok((checked, (text_bytes as u64).saturating_add(value_bytes).saturating_add(compiled)))
}

/// Counts the JSON values in a value, including the value itself. The parser's nesting limit bounds the recursion.
fn values(value: &Value) -> usize {
    1 + match value {
        Value::Array(values) => values.iter().map(self::values).sum(),
        Value::Object(values) => values.values().map(self::values).sum(),
        _ => 0,
    }
}

impl Patterns {
    /// Checks the keywords of a schema and counts its regular expressions.
    fn see(&mut self, schema: &Value) -> Result<(), String> {
        let Value::Object(keywords) = schema else { return Ok(()) };
        for (keyword, value) in keywords {
            match keyword.as_str() {
                refused if REFUSED.contains(&refused) => {
                    return Err(format!("`{refused}` is not supported in the schema of a component's tool; remove it"));
                }
                "additionalItems"
                | "additionalProperties"
                | "allOf"
                | "anyOf"
                | "contains"
                | "else"
                | "if"
                | "items"
                | "not"
                | "oneOf"
                | "prefixItems"
                | "propertyNames"
                | "then" => self.one_or_several(value)?,
                "properties" => self.named(value)?,
                "patternProperties" => {
                    self.more(value.as_object().map_or(0, serde_json::Map::len))?;
                    self.named(value)?;
                }
                "pattern" => self.more(1)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn one_or_several(&mut self, value: &Value) -> Result<(), String> {
        match value {
            Value::Array(schemas) => schemas.iter().try_for_each(|schema| self.see(schema)),
            schema => self.see(schema),
        }
    }

    fn named(&mut self, value: &Value) -> Result<(), String> {
        value.as_object().into_iter().flat_map(serde_json::Map::values).try_for_each(|schema| self.see(schema))
    }

    fn more(&mut self, more: usize) -> Result<(), String> {
        self.0 = self.0.saturating_add(more);
        if self.0 > MAX_PATTERNS {
            return Err(format!("all tools together have more than {MAX_PATTERNS} regular expressions; remove some"));
        }
        Ok(())
    }
}
