//! Implements `resource started`: executions that the component steps through.

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use glovebox::{
    AdvanceError, ExecuteError, Execution, Files, Sandbox, Started, Suspended, ToolError, internal::Budget,
};
use glovebox_core::contract::MAX_READ_BYTES;
use wasmtime::component::Resource;

use super::{
    SandboxCtx,
    caller_tools::check_tools,
    convert::{self, SandboxFailure},
    ctx::Caller,
    quotas::{QuotaError, QuotaShare, QuotaUse},
    sandbox::{Bytes, Snapshot, fuel_of_an_execution},
    session::{BusyGuard, SessionResource, fuel_of_a_call},
    suspended::SuspendableRequest,
    wit::{
        sandbox::{HostStarted, OutputStream, Step, ToolAnswer, ToolRequest},
        types::{Request, SandboxError, Tool},
    },
};

/// A request to start an execution outside sessions.
pub(super) struct StartRequest<'a> {
    pub(super) request: glovebox::Request<'a>,
    /// Maximum fuel of the execution.
    pub(super) fuel: u64,
    pub(super) tools: &'a [Tool],
    /// `None` if the execution cannot be suspended.
    pub(super) suspendable: Option<SuspendableRequest>,
    /// The quota share for the request, released when the execution has ended. `None` in version 0.2.0.
    pub(super) request_share: Option<QuotaShare>,
}

impl<'a> StartRequest<'a> {
    pub(super) fn new(sandbox: &Sandbox, request: &'a Request, tools: &'a [Tool], is_suspendable: bool) -> Self {
        Self {
            request: convert::request(request).suspendable(is_suspendable),
            fuel: fuel_of_an_execution(sandbox, request),
            tools,
            suspendable: is_suspendable.then(|| SuspendableRequest::new(request)),
            request_share: None,
        }
    }

    /// Creates a request to resume a suspended execution. Fails if the execution was suspended in a session.
    pub(super) fn resume(
        sandbox: &Sandbox,
        suspended: &'a Suspended,
        suspendable: SuspendableRequest,
        tools: &'a [Tool],
    ) -> Result<Self, ExecuteError> {
        if suspended.is_in_session() {
            return Err(ExecuteError::OtherSession { in_session: true });
        }
        // The request may have a `context`, which can use as much fuel as the script.
        let fuel = sandbox.policy().limits.fuel.saturating_mul(2);
        Ok(Self { request: suspended.request(), fuel, tools, suspendable: Some(suspendable), request_share: None })
    }
}

/// A request to start an execution in a session.
pub(super) struct SessionStartRequest<'a> {
    pub(super) request: glovebox::Request<'a>,
    /// `None` if the execution cannot be suspended.
    pub(super) suspendable: Option<SuspendableRequest>,
}

impl Caller {
    /// Adds the component's tools to a sandbox. The caller must charge the call first, because compiling schemas takes
    /// time.
    pub(super) fn with_tools(&self, sandbox: Sandbox, tools: &[Tool]) -> Result<Sandbox, SandboxFailure> {
        if tools.is_empty() {
            return Ok(sandbox);
        }
        let (tools, bytes) = check_tools(tools)?;
        let share = self.meter.take(QuotaUse::Bytes(bytes))?;
        let sandbox = sandbox.with_tools_until(&tools, share);
        Ok(sandbox.map_err(|error| SandboxError::InvalidArgument(format!("`tools`: {error}")))?)
    }

    /// Takes a share of the byte quota for the maximum output of an execution.
    pub(super) fn output_share(&self, sandbox: &Sandbox) -> Result<QuotaShare, QuotaError> {
        let limits = &sandbox.policy().limits;
        let bytes = [limits.stdout_bytes, limits.stderr_bytes, limits.display_bytes];
        self.meter.take(QuotaUse::Bytes(bytes.into_iter().fold(0, u64::saturating_add)))
    }

    /// Starts an execution in the sandbox for the requested runtime and policy. `started` is the execution's share of
    /// the `started` quota.
    pub(super) fn start(
        &self,
        started: QuotaShare,
        sandbox: Sandbox,
        start: StartRequest<'_>,
    ) -> Result<StartedResource, SandboxFailure> {
        let StartRequest { request, fuel, tools, mut suspendable, request_share } = start;
        let left = RetainedResults::new(self.output_share(&sandbox)?);
        let (meter, there) = (Arc::clone(&self.meter), Arc::clone(&left));
        let budget = Budget::empty();
        let reservation = self.meter.execution(fuel, &budget)?;
        let sandbox = self.with_tools(sandbox, tools)?;
        let request = request.session_id(&self.id).cancel(&self.cancel).budget(&budget);
        let shares = suspendable.as_mut().map(|suspendable| suspendable.charge(&self.meter)).transpose()?;
        let started = sandbox.start_with(request, move |execution| {
            // Holds the quota shares until the result is charged, because the handle may already be dropped.
            let _until_here = (reservation, shares, request_share, started);
            execution.session_id = None;
            let files = execution.take_files();
            *there.files() = match meter.take(QuotaUse::Bytes(files.held_bytes())) {
                Ok(share) => RetainedFiles::Held { files, _share: share },
                Err(error) => RetainedFiles::TooLarge(error),
            };
            there.finish(execution);
        })?;
        Ok(StartedResource::new(started, left, suspendable, false))
    }

    /// Starts an execution in a session. `started` is the execution's share of the `started` quota. `until_end` is
    /// dropped when the execution has ended.
    pub(super) fn start_in_session(
        &self,
        resource: SessionResource,
        started: QuotaShare,
        start: SessionStartRequest<'_>,
        until_end: impl Send + 'static,
    ) -> Result<StartedResource, SandboxFailure> {
        let SessionStartRequest { request, mut suspendable } = start;
        let sandbox = resource.session().sandbox();
        let left = RetainedResults::new(self.output_share(sandbox)?);
        let there = Arc::clone(&left);
        let keeper = resource.keeper().clone();
        let reservation = self.meter.execution(fuel_of_a_call(sandbox), &keeper.budget)?;
        let request = request.cancel(&keeper.cancel).budget(&keeper.budget);
        let shares = suspendable.as_mut().map(|suspendable| suspendable.charge(&self.meter)).transpose()?;
        let session = resource.session().clone();
        let started = session.start_with(request, move |execution| {
            // This closure may hold the last reference to the session, because the handle may already be dropped. The
            // quota shares are returned before the session accepts another execution.
            let _until_here = (reservation, shares, started, until_end, resource);
            drop(execution.take_files());
            there.finish(execution);
        })?;
        Ok(StartedResource::new(started, left, suspendable, true))
    }
}

impl SandboxCtx {
    /// Implements `start`, `start-suspendable` and `resume-suspended`.
    pub(super) fn start_outside_sessions(
        &mut self,
        sandbox: Sandbox,
        start: StartRequest<'_>,
    ) -> Result<Resource<StartedResource>, SandboxFailure> {
        let (handle, started) = (self.caller.meter.take(QuotaUse::Handle)?, self.caller.meter.take(QuotaUse::Started)?);
        let stepped = self.caller.start(started, sandbox, start)?;
        self.put(handle, stepped)
    }

    /// Implements `session.start`.
    pub(super) fn start_in_session(
        &mut self,
        session: &Resource<SessionResource>,
        request: Request,
    ) -> Result<Resource<StartedResource>, SandboxFailure> {
        let resource = self.get(session)?.clone();
        let (stepping, running) = resource.step()?;
        let (handle, started) = (self.caller.meter.take(QuotaUse::Handle)?, self.caller.meter.take(QuotaUse::Started)?);
        let start = SessionStartRequest { request: convert::request(&request), suspendable: None };
        let stepped = self.caller.start_in_session(resource, started, start, running)?;
        self.put(handle, StartedResource { stepping: Some(stepping), ..stepped })
    }
}

impl HostStarted for SandboxCtx {
    fn continue_(
        &mut self,
        started: Resource<StartedResource>,
        answers: Vec<ToolAnswer>,
        wait_ms: Option<u64>,
    ) -> Result<Step, SandboxFailure> {
        let stepped = self.get_mut(&started)?;
        let answers = answers.into_iter().map(glovebox::ToolAnswer::from).collect();
        let step = stepped.started.advance(answers, wait_ms.map(Duration::from_millis));
        // A rejected answer does not end the execution.
        let end = matches!(step, Ok(glovebox::Step::Done(_)) | Err(AdvanceError::Execute(_) | AdvanceError::Panicked));
        if end {
            stepped.is_done = true;
            stepped.stepping = None;
            if let Some(error) = stepped.left.over_quota.get() {
                return Err(error.clone().into());
            }
        }
        Ok(match step? {
            glovebox::Step::Done(execution) => Step::Done(Execution::clone(&execution).into()),
            glovebox::Step::NeedsTools(requests) => {
                Step::NeedsTools(requests.into_iter().map(ToolRequest::from).collect())
            }
            glovebox::Step::Running => Step::Running,
        })
    }

    fn read_output(
        &mut self,
        started: Resource<StartedResource>,
        stream: OutputStream,
        offset: u64,
        len: u64,
    ) -> wasmtime::Result<Vec<u8>> {
        Ok(self.get(&started)?.started.read_output(stream.into(), offset, len.min(MAX_READ_BYTES)))
    }

    fn files(&mut self, started: Resource<StartedResource>) -> Result<Resource<Snapshot>, SandboxFailure> {
        let stepped = self.get(&started)?;
        if stepped.is_in_session {
            let text = "the files of an execution in a session belong to the session; use `session.files`";
            return Err(SandboxError::Unsupported(text.into()).into());
        }
        if !stepped.is_done {
            let text = "the execution may still change its files; call `continue` until it returns `done`";
            return Err(SandboxError::SessionBusy(text.into()).into());
        }
        let files = stepped.retained_files()?;
        self.put_files(files)
    }

    fn suspend(&mut self, started: Resource<StartedResource>) -> Result<Resource<Bytes>, SandboxFailure> {
        let stepped = self.get(&started)?;
        // Reserves the handle first. If no handle were left for its bytes, the suspended execution would be lost.
        let handle = self.caller.meter.take(QuotaUse::Handle)?;
        let bytes = stepped.suspend(&self.caller.meter)?;
        self.put(handle, bytes)
    }

    fn cancel(&mut self, started: Resource<StartedResource>) -> wasmtime::Result<()> {
        self.get(&started)?.started.cancel();
        Ok(())
    }

    fn drop(&mut self, started: Resource<StartedResource>) -> wasmtime::Result<()> {
        self.take(started).map(drop)
    }
}

impl From<ToolAnswer> for glovebox::ToolAnswer {
    fn from(ToolAnswer { id, answer }: ToolAnswer) -> Self {
        Self { id, answer: answer.map_err(ToolError::from) }
    }
}

impl From<glovebox::ToolRequest> for ToolRequest {
    fn from(glovebox::ToolRequest { id, name, arguments, .. }: glovebox::ToolRequest) -> Self {
        Self { id, name, arguments }
    }
}

/// A started execution.
#[expect(unreachable_pub, reason = "the bindings re-export it, some of them from a private module")]
#[derive(Debug)]
pub struct StartedResource {
    pub(super) started: Started,
    pub(super) left: Arc<RetainedResults>,
    /// The guard that keeps the session busy until the component has received the final result. `None` outside
    /// sessions.
    pub(super) stepping: Option<BusyGuard>,
    /// `None` if the execution cannot be suspended.
    pub(super) suspendable: Option<SuspendableRequest>,
    /// The serialized state of the session before the execution, from a failed attempt to suspend the execution. `None`
    /// outside sessions.
    pub(super) state_before: Mutex<Option<Bytes>>,
    pub(super) is_in_session: bool,
    pub(super) is_done: bool,
}

impl StartedResource {
    fn new(
        started: Started,
        left: Arc<RetainedResults>,
        suspendable: Option<SuspendableRequest>,
        is_in_session: bool,
    ) -> Self {
        Self {
            started,
            left,
            stepping: None,
            suspendable,
            state_before: Mutex::default(),
            is_in_session,
            is_done: false,
        }
    }

    /// Returns the files at the end of an execution outside sessions.
    pub(super) fn retained_files(&self) -> Result<Files, SandboxFailure> {
        match &*self.left.files() {
            RetainedFiles::Held { files, .. } => Ok(files.clone()),
            RetainedFiles::TooLarge(error) => Err(error.clone().into()),
            RetainedFiles::None => {
                let text = "the execution ended with an error, so it has no files";
                Err(SandboxError::Unavailable(text.into()).into())
            }
        }
    }
}

/// Returns the size of a request without its files.
pub(super) fn request_bytes(request: &Request) -> usize {
    let Request { source, name, stdin, context, .. } = request;
    let texts = [name, context].into_iter().flatten().map(String::len).sum::<usize>();
    source.len() + texts + stdin.as_ref().map_or(0, Vec::len)
}

/// The results of a started execution that the host holds.
#[derive(Debug)]
pub(super) struct RetainedResults {
    /// The share of the byte quota. Covers the maximum output while the script runs, and the whole result after it has
    /// ended.
    share: Mutex<QuotaShare>,
    files: Mutex<RetainedFiles>,
    /// Set if the result exceeded the quota and was cleared.
    pub(super) over_quota: OnceLock<QuotaError>,
}

/// Files of an execution outside sessions.
#[derive(Debug)]
pub(super) enum RetainedFiles {
    None,
    Held { files: Files, _share: QuotaShare },
    TooLarge(QuotaError),
}

impl RetainedResults {
    pub(super) fn new(share: QuotaShare) -> Arc<Self> {
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

/// Clears all fields that can be large, except the output and the files. The result then fits in the share for the
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
    execution.outcome = glovebox::Outcome::Completed;
}

/// Changes the share for the output of an execution to the size of its result, so that results that the component has
/// not received yet hold only their size. Fails if the result would exceed the quota.
pub(super) fn result_share(mut share: QuotaShare, execution: &Execution) -> Result<QuotaShare, QuotaError> {
    share.resize(result_bytes(execution))?;
    Ok(share)
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
            glovebox::ToolOutcome::Returned(answer) | glovebox::ToolOutcome::Failed { message: answer, .. } => {
                option(answer)
            }
            glovebox::ToolOutcome::Unfinished => 0,
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
