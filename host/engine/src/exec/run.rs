//! Runs one execution, in a new guest or in a session's guest.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    CancelToken, Diagnostic, ExecuteError, Execution, Files, Language, Metadata, Metering, Outcome, Output,
    RecordError, Recording, Request, SourceKind,
    exec::{
        events,
        platform::{EnginePlatform, ExecutionCtx, Stopwatch},
        request::{RequestOptions, RequestParts, StdinSource},
        suspend::{StateBefore, check_context},
    },
    files::workspace::{CommitResult, Roots},
    guest::Guest,
    mount::commit::SessionCommits,
    sandbox::Sandbox,
    tools::{ThreadRunner, Toolbox},
};
use glovebox_core::{
    CallResult, CollectedOutput, Displays, GuestMachine as _, GuestState, Refusal, SoftStop, changes, check_request,
    guidance::{Facts, Guidance, guidance},
    journal::Journal,
};
use glovebox_interpreters::Script;
use glovebox_wasi::CapturedStream;

/// The name of the global variable that contains a request's context.
pub(crate) const CONTEXT: &str = "context";

/// The guest directory that contains a plain command's script.
pub(crate) const SCRIPT_MOUNT: &str = "/script";

/// A request that was checked against the limits, with its sandbox and its tools.
pub(crate) struct PreparedRequest<'a> {
    /// The parts of the request, with the caller's original source. Guidance quotes this source.
    pub(crate) parts: RequestParts<'a>,
    pub(crate) options: RequestOptions,
    has_stdin: bool,
    pub(crate) cancel: CancelToken,
    /// The time at which [`Request::cancel_after`] cancels the execution.
    pub(crate) cancel_at: Option<Instant>,
    /// The request as the caller made it, if the execution is recorded.
    recorded: Option<RequestParts<'static>>,
    /// The value of the monotonic clock in the session's state before the execution, in nanoseconds. See
    /// [`Journal::with_origin`].
    origin_ns: u64,
    pub(crate) sandbox: &'a Sandbox,
    pub(crate) toolbox: Arc<Toolbox>,
    /// The attempted translation of the source, if the interpreter needs one.
    translation: Option<Translation>,
}

/// A translation of the source, and the fuel and time that the translation used.
pub(crate) struct Translation {
    /// The translated source, in which all lines and columns are unchanged.
    pub(crate) source: Result<String, Rejection>,
    pub(crate) kind: SourceKind,
    pub(crate) fuel: u64,
    /// The start of the execution. Its time includes the translation.
    pub(crate) begun: Stopwatch,
}

/// The result of a script that cannot be translated and is never passed to the interpreter.
pub(crate) struct Rejection {
    pub(crate) outcome: Outcome,
    pub(crate) diagnostic: Diagnostic,
    /// The state of the guest, which did not run the script.
    pub(crate) after: GuestState,
    /// The fuel to subtract from the budget.
    pub(crate) charge: u64,
}

impl<'a> PreparedRequest<'a> {
    /// Checks a request against the limits. If this fails, nothing has run.
    pub(crate) fn new(sandbox: &'a Sandbox, request: Request<'a>) -> Result<Self, ExecuteError> {
        Self::check(sandbox, &request)?;
        let Request { parts, mut options } = request;
        let toolbox = match options.tools.as_slice() {
            [] => Arc::clone(&sandbox.0.toolbox),
            tools => Arc::new(sandbox.0.toolbox.with(tools)?),
        };
        if let Some(suspended) = &options.replay {
            suspended.check_tools(&toolbox, options.is_approver)?;
        }
        let toolbox = match &options.repeated {
            Some(recording) => Arc::new(recording.toolbox(&toolbox)?),
            None => toolbox,
        };
        if options.replay.is_some() || options.repeated.is_some() {
            // Needed even without `Sandbox::start`: it records the first difference of a resumed or repeated execution.
            options.suspension.get_or_insert_default();
        }
        Ok(Self {
            has_stdin: !parts.stdin.is_empty() || parts.has_stdin_source,
            cancel: options.cancel.take().unwrap_or_default(),
            // An instant that cannot be represented is practically never reached.
            cancel_at: options.cancel_after.and_then(|after| Instant::now().checked_add(after)),
            recorded: options.is_recorded.then(|| parts.clone().into_owned()),
            parts,
            options,
            origin_ns: 0,
            sandbox,
            toolbox,
            translation: None,
        })
    }

    /// Fails if the request exceeds a limit, its name is invalid, or it sets `context` and the runtime is not prepared.
    pub(crate) fn check(sandbox: &Sandbox, request: &Request<'_>) -> Result<(), ExecuteError> {
        let Request { parts: RequestParts { source, name, stdin, context, .. }, options } = request;
        let max = sandbox.0.policy.limits.stdin_bytes;
        let bytes = context.as_ref().map_or(0, |json| json.len() as u64);
        if bytes > max {
            return Err(ExecuteError::ValueTooLarge { name: CONTEXT.into(), bytes, max });
        }
        let has_journal = options.is_suspendable || options.is_recorded || options.repeated.is_some();
        if has_journal || context.is_some() {
            sandbox.0.runtime.prepared()?;
        }
        if has_journal {
            check_context(context.as_deref())
                .map_err(|reason| ExecuteError::Variable { name: CONTEXT.into(), reason })?;
        }
        if let Some(suspended) = &options.replay {
            suspended.check(sandbox)?;
        }
        if let Some(recording) = &options.repeated {
            recording.check(sandbox)?;
        }
        Ok(check_request(&sandbox.0.policy.limits, source, name, stdin)?)
    }

    /// Sets the translation that the interpreter runs instead of the request's source.
    pub(crate) fn translated(mut self, translation: Translation) -> Self {
        self.parts.kind = translation.kind;
        self.translation = Some(translation);
        self
    }

    /// Returns a context for work before the execution, with a new clock and the request's cancellation.
    pub(crate) fn ctx(&self) -> ExecutionCtx {
        self.with_automatic_cancellation(
            EnginePlatform::new(self.cancel.clone()).begin(self.sandbox.0.policy.limits.timeout()),
        )
    }

    /// Applies [`Request::cancel_after`].
    fn with_automatic_cancellation(&self, ctx: ExecutionCtx) -> ExecutionCtx {
        let after = self.cancel_at.map(|at| ctx.watch().at(at));
        ctx.cancelled_after(after)
    }

    /// Starts the execution's clock. If the script was translated, the clock started with the translation.
    pub(crate) fn start(&mut self) -> ExecutionCtx {
        let (inner, limits) = (&self.sandbox.0, &self.sandbox.0.policy.limits);
        let max = usize::try_from(limits.stdin_bytes).unwrap_or(usize::MAX);
        let stdin = self.options.stdin_source.take().map(|source| -> StdinSource {
            Box::new(move || {
                let mut bytes = source();
                bytes.truncate(max);
                bytes
            })
        });
        let platform = EnginePlatform {
            cancel: self.cancel.clone(),
            budget: self.options.budget.clone(),
            used_fuel: self.translation.as_ref().map_or(0, |translation| translation.fuel),
            on_output: self.options.on_output.take(),
            on_display: self.options.on_display.take(),
            stdin,
            suspension: self.options.suspension.clone(),
            progress: None,
        };
        // The clock of a resumed execution continues from its suspension.
        let before = self.options.replay.as_ref().map_or(Duration::ZERO, |suspended| suspended.elapsed());
        let ctx = platform.begin_at(Stopwatch(Instant::now()).started_earlier(before), limits.timeout());
        let ctx = match &self.translation {
            Some(translation) => ctx.begun_at(translation.begun.started_earlier(before)),
            None => ctx,
        };
        // Repeatable executions must not be stopped early by a fuel reserve. Unmetered executions cannot run out of
        // fuel.
        let is_recording = self.recorded.is_some() || self.options.repeated.is_some();
        let keeps_none = inner.policy.is_repeatable() || is_recording || inner.policy.metering == Metering::None;
        let soft = SoftStop::within(limits, self.options.budget.fuel_within_budget(limits.fuel), keeps_none);
        if let Some(pending) = &self.options.pending {
            pending.set_approver(self.options.is_approver);
        }
        let tools = ThreadRunner::calls(
            Arc::clone(&self.toolbox),
            Arc::clone(&inner.engine.0.tool_threads),
            limits,
            self.parts.session_id.as_deref().map(str::to_owned),
            *ctx.watch(),
            self.cancel.clone(),
            self.options.pending.clone(),
        );
        let ctx = ctx.with_soft_stop(soft).with_tools(tools);
        let journal = match (&self.options.replay, &self.options.repeated) {
            (Some(suspended), _) => Some(suspended.journal().with_max_bytes(limits.journal_bytes)),
            (None, Some(recording)) => Some(recording.journal()),
            (None, None) if self.options.is_suspendable || self.recorded.is_some() => {
                Some(Journal::record().with_max_bytes(limits.journal_bytes).with_origin(self.origin_ns))
            }
            (None, None) => None,
        };
        let ctx = match journal {
            Some(journal) => ctx.with_journal(journal),
            None => ctx,
        };
        self.with_automatic_cancellation(ctx)
    }

    /// Returns `true` if the execution needs the state of its session before it starts.
    pub(crate) fn needs_state_before(&self) -> bool {
        self.options.suspension.is_some() && self.options.replay.is_none()
    }

    /// Sets the session's state before the execution. `base_ns` is the value of the guest's monotonic clock when the
    /// instance started.
    pub(crate) fn set_state_before(&mut self, before: StateBefore, base_ns: u64) {
        self.origin_ns = before.state.wasi.monotonic_base_ns().saturating_sub(base_ns);
        if let Some(suspension) = &self.options.suspension {
            suspension.set_before(before);
        }
    }

    /// Fails if a resumed execution differed from the suspended execution, or a repeated execution from its recording.
    fn check_repeated(&self) -> Result<(), ExecuteError> {
        match self.options.suspension.as_ref().and_then(|suspension| suspension.difference()) {
            Some(difference) if self.options.repeated.is_some() => Err(ExecuteError::NotRepeated { difference }),
            Some(difference) => Err(ExecuteError::Diverged { difference }),
            None => Ok(()),
        }
    }

    /// Returns the driver's input. `last` is `true` if the guest runs no further script. If `last` is `false`, as in a
    /// session, the guest keeps its globals without the driver's help, and the driver always returns the value of the
    /// last expression.
    pub(crate) fn script(&self, last: bool) -> Script<'_> {
        let inner = &self.sandbox.0;
        let policy = &inner.policy;
        Script {
            source: self.translated_source(),
            name: &self.parts.name,
            kind: self.parts.kind,
            args: &policy.args,
            env: &policy.env,
            has_stdin: self.has_stdin,
            last,
            wants_value: self.parts.wants_value || !last,
            inject_setup: inner.policy.inject_setup,
            persisted_bytes: (policy.auto_persist_globals && last).then_some(policy.limits.persisted_bytes),
        }
    }

    /// Sets the global variable `context` in a new guest.
    pub(crate) fn set_context(&self, guest: &mut Guest) -> Result<(), ExecuteError> {
        let inner = &self.sandbox.0;
        match (&self.parts.context, inner.runtime.image()) {
            (Some(json), Some(image)) => {
                let (set, _) = guest.set_variable(image.driver(), &inner.policy.limits, CONTEXT, json);
                set.map_err(|refusal| match refusal {
                    Refusal::Guest(reason) => ExecuteError::Variable { name: CONTEXT.into(), reason },
                    Refusal::Driver(error) => error.into(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Returns the file name of a plain command's script: the last component of the script's name. Returns a default
    /// name if that component cannot be a file name.
    pub(crate) fn file_name(&self) -> &str {
        let plain = |name: &&str| !name.is_empty() && !matches!(*name, "." | "..") && !name.starts_with('<');
        self.parts.name.rsplit('/').next().filter(plain).unwrap_or(match self.sandbox.language() {
            Language::Python => "script.py",
            Language::JavaScript => "script.js",
        })
    }

    /// Returns a plain command's arguments: the program, its flags, the script's path and the policy's arguments.
    pub(crate) fn command_args(&self, flags: &[&str]) -> Vec<String> {
        let mut args = vec![self.sandbox.language().name().to_owned()];
        args.extend(flags.iter().map(|flag| (*flag).to_owned()));
        args.push(format!("{SCRIPT_MOUNT}/{}", self.file_name()));
        args.extend(self.sandbox.0.policy.args.iter().cloned());
        args
    }

    /// Returns the source that the interpreter runs.
    pub(crate) fn translated_source(&self) -> &str {
        match &self.translation {
            Some(Translation { source: Ok(source), .. }) => source,
            _ => &self.parts.source,
        }
    }

    fn rejection(&self) -> Option<(&Rejection, u64)> {
        let Translation { source, fuel, .. } = self.translation.as_ref()?;
        Some((source.as_ref().err()?, *fuel))
    }

    /// Returns the diagnostic of a script that could not be translated, and charges the translation's fuel.
    pub(crate) fn rejected_diagnostic(&self) -> Option<Diagnostic> {
        let (Rejection { diagnostic, charge, .. }, _) = self.rejection()?;
        self.options.budget.spend(*charge);
        Some(diagnostic.clone())
    }

    /// Returns the result of a script that could not be translated, and charges the translation's fuel.
    fn rejection_result(&self, guest: &Guest) -> Option<CallResult> {
        let (Rejection { outcome, after, charge, .. }, fuel) = self.rejection()?;
        self.options.budget.spend(*charge);
        Some(CallResult {
            outcome: outcome.clone(),
            interrupted: None,
            value: None,
            fuel_consumed: fuel,
            memory_used_bytes: guest.machine.host().limiter.used_bytes(),
            memory_refused_bytes: None,
            after: *after,
        })
    }

    /// Runs the script in `guest` and collects the result. `last` is `true` if the guest runs no further script. `own`
    /// records the session's commits.
    pub(crate) fn execute(
        &self,
        guest: &mut Guest,
        roots: &Roots,
        last: bool,
        own: Option<&mut SessionCommits>,
    ) -> Result<FinishedRun, ExecuteError> {
        let inner = &self.sandbox.0;
        let (runtime, limits) = (&*inner.runtime, &inner.policy.limits);
        events::start(runtime.language, self.parts.session_id.as_deref(), limits);
        let script = self.script(last);
        let rejected = self.rejection_result(guest);
        // The interpreter never runs a rejected script, so print the error in the interpreter's format for syntax
        // errors.
        let printed = rejected.as_ref().and_then(|ran| ran.outcome.raised()).map(|raised| {
            let text = format!("{}\n", raised.traceback);
            let (max, total_bytes) = (usize::try_from(limits.stderr_bytes).unwrap_or(usize::MAX), text.len() as u64);
            let mut bytes = text.into_bytes();
            bytes.truncate(max);
            CapturedStream { truncated: total_bytes > bytes.len() as u64, bytes, total_bytes }
        });
        let ran = match rejected {
            Some(ran) => ran,
            None => guest.run(runtime.image().map(|image| image.driver()), limits, &script)?,
        };
        self.check_repeated()?;
        let (ended, has_unreceived) = {
            let ctx = guest.ctx_mut();
            (ctx.end_journal(ran.fuel_consumed), ctx.has_unreceived())
        };
        let CollectedOutput { output, tool_calls, duration } = guest.take_output(&ran.outcome, limits, printed);
        let wasi = guest.wasi_mut();
        events::security(self.parts.session_id.as_deref(), &ran, &wasi.take_events());
        let persists = script.persisted_bytes.is_some();
        let changes = changes(wasi.vfs(), roots.workspace(), runtime.language, persists);
        // A suspended execution commits nothing: it starts again when it is resumed, and must then find the same files
        // in host directories. The same applies to a resumed execution that was stopped before it continued. A repeated
        // execution commits nothing either, because its first run committed the files.
        let is_resumed = self.options.replay.is_some();
        let can_be_resumed = self
            .options
            .suspension
            .as_ref()
            .is_some_and(|suspension| suspension.is_suspended() || (is_resumed && !suspension.has_continued()));
        let committed = if can_be_resumed || self.options.repeated.is_some() {
            CommitResult::default()
        } else {
            inner.workspace.commit(wasi.vfs_mut(), roots, ran.outcome.is_success(), own)
        };
        let files = Files::of(wasi.vfs().clone(), roots.workspace());
        let mut execution = self.not_begun(ran.outcome);
        execution.interrupted = ran.interrupted;
        execution.value = ran.value;
        execution.tool_calls = tool_calls;
        execution.metadata.stdout_total_bytes = output.stdout.total_bytes;
        execution.metadata.stderr_total_bytes = output.stderr.total_bytes;
        let displays = Displays::from(output.displays);
        (execution.displays, execution.displays_dropped) = (displays.retained, displays.dropped);
        execution.stdout = output.stdout.into();
        execution.stderr = output.stderr.into();
        execution.fuel_consumed = ran.fuel_consumed;
        execution.memory_used_bytes = ran.memory_used_bytes;
        execution.duration = duration;
        execution.files_created = changes.created;
        execution.files_modified = changes.modified;
        execution.files_deleted = changes.deleted;
        execution.files = files;
        execution.guidance = self.guidance(
            &execution.outcome,
            execution.fuel_consumed,
            [execution.stdout.total_bytes, execution.stderr.total_bytes],
        );
        events::complete(&execution);
        if let Some(recording) = &self.options.repeated {
            recording.compare(&execution, has_unreceived)?;
        }
        if let (Some(request), Some(ended)) = (&self.recorded, ended) {
            let recording = Recording::new(self.sandbox, &self.toolbox, request, ended, &execution);
            execution.recording = recording.map(Arc::new);
        }
        Ok(FinishedRun { execution, after: ran.after, committed })
    }

    /// Returns the result of an execution that ended with `outcome` before the script started.
    pub(crate) fn not_begun(&self, outcome: Outcome) -> Execution {
        let inner = &self.sandbox.0;
        let runtime = &*inner.runtime;
        let guidance = self.guidance(&outcome, 0, [0; 2]);
        Execution {
            outcome,
            interrupted: None,
            value: None,
            displays: Vec::new(),
            displays_dropped: 0,
            tool_calls: Vec::new(),
            stdout: Output::default(),
            stderr: Output::default(),
            fuel_consumed: 0,
            memory_used_bytes: 0,
            duration: Duration::ZERO,
            files_created: Vec::new(),
            files_modified: Vec::new(),
            files_deleted: Vec::new(),
            workspace_path: inner.workspace.path.clone(),
            session_id: self.parts.session_id.as_deref().map(str::to_owned),
            rolled_back_to: None,
            guidance,
            metadata: Metadata {
                runtime: runtime.language,
                runtime_name: runtime.name.clone(),
                version: runtime.version.clone(),
                prepared: runtime.image().is_some(),
                image_sha256: runtime.image().map(|image| image.identity.clone()),
                metering: inner.policy.metering,
                stdout_total_bytes: 0,
                stderr_total_bytes: 0,
            },
            files: Files::none(),
            recording: Err(RecordError::NotRecorded),
        }
    }

    fn guidance(&self, outcome: &Outcome, fuel_consumed: u64, [stdout_bytes, stderr_bytes]: [u64; 2]) -> Guidance {
        let inner = &self.sandbox.0;
        guidance(&Facts {
            language: inner.runtime.language,
            source: &self.parts.source,
            outcome,
            limits: &inner.policy.limits,
            has_data_packages: inner.runtime.library.is_some(),
            fuel_consumed,
            stdout_bytes,
            stderr_bytes,
        })
    }
}

/// An execution, the state of its guest, and the result of committing its files.
pub(crate) struct FinishedRun {
    pub(crate) execution: Execution,
    pub(crate) after: GuestState,
    pub(crate) committed: CommitResult,
}

impl FinishedRun {
    /// Returns the result for the caller: an error if files could not be committed to the host.
    pub(crate) fn into_result(self) -> Result<Execution, ExecuteError> {
        match self.committed.failed {
            None => Ok(self.execution),
            Some((host, source)) => Err(ExecuteError::Commit { host, execution: Box::new(self.execution), source }),
        }
    }
}
