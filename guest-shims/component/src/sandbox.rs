//! A sandbox, which is a runtime with a policy: executions in it, and the checks of requested policies.

use std::{collections::BTreeMap, rc::Rc, sync::Arc, time::Duration};

use glovebox_core::{
    Clock, CollectedOutput, Entropy, GuestWorld, LIBRARY_PATH, LibraryMount, Limits, MemoryLimit, PolicyParts, Refusal,
    SCRATCH, SoftStop, WORKSPACE, changes, check_request,
    contract::{
        ContractPolicy, Grant, PolicyRefusal, check_file_path, check_json, not_resumable, quoted, refused_file,
    },
    files::Snapshot,
    guidance::{Facts, guidance},
    hibernate::ResumeError,
    session::SessionPolicy,
    tools::ToolCalls,
};
use glovebox_interpreters::{Diagnostic, DriverError, Script, SourceKind};
use glovebox_vfs::{Access, Vfs};
use glovebox_wasi::{Mount, Wasi};

use crate::{
    CallRunner, ComponentPlatform, ExecutionCtx, FinishedExecution, Guest, Live, Runtime, Toolbox, World,
    bindings::types::{self, InputFile, SandboxError, TooLarge},
    library, machine,
};

/// The script's name in tracebacks if the request contains no name.
const SANDBOX_NAME: &str = "<sandbox>";

/// The global variable that contains a request's context.
const CONTEXT: &str = "context";

/// A runtime with a policy for its executions.
#[derive(Clone, Debug)]
pub struct Sandbox {
    /// The interfaces to the woven module and to the component's host.
    pub world: World,
    /// The runtime that runs the scripts.
    pub runtime: Rc<Runtime>,
    /// The policy for the executions.
    pub policy: ContractPolicy,
    /// The tools that scripts can call.
    pub toolbox: Rc<Toolbox>,
}

/// A request that was checked against its limits.
#[derive(Clone, Debug)]
pub struct Task {
    source: String,
    name: String,
    kind: SourceKind,
    /// The script's standard input.
    pub stdin: Vec<u8>,
    /// The value of the `context` variable, as JSON text.
    context: Option<String>,
    /// The workspace's initial files.
    files: Vec<InputFile>,
    cancel_after: Option<Duration>,
    /// The state that the caller observes, if the execution was started.
    live: Option<Rc<Live>>,
    session_id: Option<String>,
}

impl Task {
    /// Sets the state that the caller observes.
    #[must_use]
    pub fn observed_by(self, live: &Rc<Live>) -> Self {
        Self { live: Some(Rc::clone(live)), ..self }
    }

    /// Sets the session's ID, for tool calls.
    #[must_use]
    pub fn in_session(self, id: String) -> Self {
        Self { session_id: Some(id), ..self }
    }
}

impl Sandbox {
    /// Creates a sandbox for a runtime and a policy.
    ///
    /// # Errors
    /// Fails if the runtime's image does not fit into the memory limit.
    pub fn new(
        world: &World,
        runtime: Rc<Runtime>,
        policy: ContractPolicy,
        toolbox: Rc<Toolbox>,
    ) -> Result<Self, SandboxError> {
        let (limit_bytes, needed_bytes) =
            (policy.limits.memory_bytes, MemoryLimit::image_charge(runtime.memory_bytes()));
        if needed_bytes > limit_bytes {
            return Err(SandboxError::InvalidPolicy(format!(
                "`limits.memory-bytes` is {limit_bytes}, but `{}` alone needs {needed_bytes}; raise the limit",
                runtime.name
            )));
        }
        Ok(Self { world: world.clone(), runtime, policy, toolbox })
    }

    /// Checks a request against the limits, and converts it to a task.
    pub fn task(&self, request: types::Request) -> Result<Task, SandboxError> {
        let types::Request { source, name, kind, stdin, context, files, deadline_ms } = request;
        let name = name.unwrap_or_else(|| SANDBOX_NAME.to_owned());
        let stdin = stdin.unwrap_or_default();
        check_request(&self.policy.limits, &source, &name, &stdin)?;
        if let Some(json) = &context {
            self.check_value(json)?;
            check_json(CONTEXT, json)?;
        }
        let files = files.unwrap_or_default();
        files.iter().try_for_each(|file| check_file_path(&file.path))?;
        Ok(Task {
            source,
            name,
            kind: kind.map_or(SourceKind::default(), Into::into),
            stdin,
            context,
            files,
            cancel_after: deadline_ms.map(Duration::from_millis),
            live: None,
            session_id: None,
        })
    }

    /// Rejects a variable's JSON text if it exceeds `limits.stdin_bytes`.
    pub(crate) fn check_value(&self, json: &str) -> Result<(), SandboxError> {
        let (bytes, limit) = (json.len() as u64, self.policy.limits.stdin_bytes);
        if bytes > limit {
            return Err(SandboxError::StdinTooLarge(TooLarge { bytes, limit }));
        }
        Ok(())
    }

    /// Starts the clock of an execution, with its tools and its stop conditions.
    #[must_use]
    pub fn start(&self, task: &Task) -> ExecutionCtx {
        let mut ctx = self.one_shot_ctx().cancelled_after(task.cancel_after);
        ctx.platform.live.clone_from(&task.live);
        let (toolbox, account) = (Rc::clone(&self.toolbox), Arc::default());
        let (session_id, watch) = (task.session_id.clone(), ctx.watch().clone());
        let runner = CallRunner::new(toolbox, &self.world, session_id, watch.clone(), Arc::clone(&account));
        ctx.with_tools(ToolCalls::new(runner, account, &self.policy.limits, watch))
    }

    /// Creates a guest from the runtime's image, with this WASI state.
    pub(crate) fn instantiate(&self, wasi: Wasi, ctx: ExecutionCtx) -> Result<Guest, SandboxError> {
        machine::instantiate(&self.runtime, &self.world.guests, &self.policy.limits, wasi, ctx)
    }

    /// Returns the context for calls that run no script: access to variables, and exit handlers.
    #[must_use]
    pub fn one_shot_ctx(&self) -> ExecutionCtx {
        let limits = &self.policy.limits;
        let soft = SoftStop::within(limits, limits.fuel, self.policy.is_repeatable());
        ComponentPlatform::begin(&self.world, limits.timeout()).with_soft_stop(soft)
    }

    /// Returns the driver's input. `last` is `true` if the guest is discarded afterwards. A session's guest keeps its
    /// globals in memory, and reports the value of the script's last expression.
    fn script<'a>(&'a self, task: &'a Task, last: bool) -> Script<'a> {
        Script {
            source: &task.source,
            name: &task.name,
            kind: task.kind,
            args: &self.policy.args,
            env: &self.policy.env,
            has_stdin: !task.stdin.is_empty(),
            last,
            wants_value: !last,
            inject_setup: self.policy.inject_setup,
            persisted_bytes: (self.policy.auto_persist_globals && last).then_some(self.policy.limits.persisted_bytes),
        }
    }

    /// Returns a new guest's WASI state, with `files` in its workspace.
    pub fn wasi(&self, stdin: Vec<u8>, files: &[InputFile]) -> Result<Wasi, SandboxError> {
        let ContractPolicy { limits, clock, entropy, .. } = &self.policy;
        let mut vfs = Vfs::new(limits.vfs());
        let root = vfs.add_root(Access::ReadWrite);
        let wrong =
            |error: String| SandboxError::Unavailable(format!("the guest's WASI state cannot be set up: {error}"));
        let library = vfs.add_mount(library::shared(), Access::ReadOnly).map_err(|error| wrong(error.to_string()))?;
        let mut mounts = vec![Mount::new(WORKSPACE, root), Mount::new(LIBRARY_PATH, library)];
        if let Some(LibraryMount { directory, source }) = &self.runtime.library {
            let root = vfs.add_mount(Arc::clone(source), Access::ReadOnly).map_err(|error| wrong(error.to_string()))?;
            mounts.push(Mount::new(directory, root));
        }
        mounts.push(Mount::new(SCRATCH, vfs.add_root(Access::ReadWrite)));
        for InputFile { path, bytes } in files {
            vfs.write_file(root, path, bytes).map_err(|error| refused_file(path, &error.reason))?;
        }
        vfs.mark();
        let world = GuestWorld {
            args: Vec::new(),
            env: Vec::new(),
            vfs,
            mounts,
            limits,
            stdin,
            clock: *clock,
            entropy: *entropy,
        };
        world.wasi().map_err(|error| wrong(error.to_string()))
    }

    /// Creates a guest with reseeded random number generators, and with `files` in its workspace.
    pub fn guest(&self, stdin: Vec<u8>, files: &[InputFile], ctx: ExecutionCtx) -> Result<Guest, SandboxError> {
        let mut guest = self.instantiate(self.wasi(stdin, files)?, ctx)?;
        guest.reseed(self.runtime.driver())?;
        Ok(guest)
    }

    /// Runs a script in a new guest, which is discarded afterwards.
    pub fn execute(&self, task: &Task) -> Result<FinishedExecution, SandboxError> {
        let mut guest = self.guest(task.stdin.clone(), &task.files, self.start(task))?;
        if let Some(json) = &task.context {
            let (set, _) = guest.set_variable(self.runtime.driver(), &self.policy.limits, CONTEXT, json);
            set.map_err(|refusal| refused_variable(CONTEXT, refusal))?;
        }
        self.execute_in(&mut guest, task, true)
    }

    /// Runs a script in `guest` and collects the results. `last` is `true` if the guest is discarded afterwards.
    pub fn execute_in(&self, guest: &mut Guest, task: &Task, last: bool) -> Result<FinishedExecution, SandboxError> {
        let script = self.script(task, last);
        let ran = guest.run(Some(self.runtime.driver()), &self.policy.limits, &script)?;
        let CollectedOutput { output, tool_calls, duration } =
            guest.take_output(&ran.outcome, &self.policy.limits, None);
        let wasi = guest.wasi();
        let root = wasi.mount_root(WORKSPACE);
        let changes = changes(wasi.vfs(), root, self.runtime.language, script.persisted_bytes.is_some());
        let files = Snapshot::new(wasi.vfs().clone(), root);
        let guidance = guidance(&Facts {
            language: self.runtime.language,
            source: &task.source,
            outcome: &ran.outcome,
            limits: &self.policy.limits,
            has_data_packages: self.runtime.library.is_some(),
            fuel_consumed: ran.fuel_consumed,
            stdout_bytes: output.stdout.total_bytes,
            stderr_bytes: output.stderr.total_bytes,
        });
        Ok(FinishedExecution {
            ran,
            output,
            tool_calls,
            changes,
            duration,
            files,
            runtime: Rc::clone(&self.runtime),
            session_id: None,
            rolled_back_to: None,
            guidance,
        })
    }

    /// Parses a script in a new guest, and returns the diagnostics.
    pub fn validate(&self, task: &Task) -> Result<Vec<Diagnostic>, SandboxError> {
        let mut guest = self.guest(task.stdin.clone(), &[], self.start(task))?;
        let (diagnostics, _) = guest.validate(self.runtime.driver(), &self.policy.limits, &self.script(task, true))?;
        Ok(diagnostics)
    }
}

glovebox_core::contract_conversions!(crate::bindings::types);

/// Maximum total size of all sessions, in bytes, regardless of the request. Sessions are stored in the shim's own
/// memory, which is limited to 4 GiB. When this memory is full, the instance ends.
const MAX_SESSION_TOTAL_BYTES: u64 = 2 << 30;

/// Caps the limits at a provider's maxima.
fn capped(limits: Limits) -> Limits {
    let mut capped = limits;
    capped.session_total_bytes = capped.session_total_bytes.min(MAX_SESSION_TOTAL_BYTES);
    capped
}

/// A provider has no separate operator, so there is no grant: callers can request every valid policy.
impl World {
    /// Returns the policy for a request without settings: the host's clock if there is one, and seeded random numbers.
    #[must_use]
    pub fn default_policy(&self) -> ContractPolicy {
        ContractPolicy {
            limits: capped(Limits::default()),
            clock: if self.clocks.is_some() { Clock::Host } else { Clock::Fixed(0) },
            entropy: Entropy::Seeded(0),
            args: Vec::new(),
            env: BTreeMap::new(),
            inject_setup: true,
            auto_persist_globals: false,
            session: SessionPolicy::default(),
        }
    }

    /// Returns the requested policy. Fails if the policy is invalid or unsupported.
    pub fn policy(&self, requested: types::Policy) -> Result<ContractPolicy, SandboxError> {
        let no_clock = || PolicyRefusal::Unsupported("`clock`: this provider has no clock; request `fixed`".into());
        let no_entropy = "`entropy`: this provider has no entropy source; request `seeded`";
        let mut policy = requested.from_wit(&Grant {
            defaults: self.default_policy(),
            is_ceiling: false,
            host_clock_refusal: self.clocks.is_none().then(no_clock),
            host_entropy_refusal: Some(PolicyRefusal::Unsupported(no_entropy.into())),
        })?;
        policy.limits = capped(policy.limits);
        let ContractPolicy { limits, session, args, env, .. } = &policy;
        PolicyParts { limits, session, args, env }.check()?;
        Ok(policy)
    }
}

/// Returns the error for a variable that could not be read or set.
pub(crate) fn refused_variable(name: &str, refusal: Refusal) -> SandboxError {
    match refusal {
        Refusal::Guest(reason) => SandboxError::Variable(format!("`{}`: {reason}", quoted(name))),
        Refusal::Driver(error) => error.into(),
    }
}

impl From<ResumeError> for SandboxError {
    fn from(error: ResumeError) -> Self {
        Self::NotResumable(not_resumable(&error))
    }
}

impl From<DriverError> for SandboxError {
    /// Converts a driver's error. The error means that the driver does not match its image: the component was woven
    /// incorrectly.
    fn from(error: DriverError) -> Self {
        Self::Unavailable(format!("the provider does not match its interpreter: {error}; weave the provider again"))
    }
}
