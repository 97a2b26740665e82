//! Sandboxes. A sandbox has a runtime and a policy, and executes and validates scripts.

mod builder;

use std::{fmt, sync::Arc, time::Duration};

use glovebox_core::{GuestState, GuestWorld, Watch as _};
use glovebox_interpreters::Diagnostic;
use glovebox_wasi::{Mount as WasiMount, Wasi};

use crate::{
    Checkpoints, Commit, Engine, ExecuteError, Execution, Language, NetworkPolicy, Policy, Recording, Request,
    RuntimeError, Started, Tool, ToolDefinitionError,
    exec::{
        platform::{EnginePlatform, ExecutionCtx},
        run::{PreparedRequest, SCRIPT_MOUNT},
    },
    files::workspace::{GuestFiles, Roots, Workspace},
    guest::{self, Guest, NewGuest},
    load::{
        runtime::{ExecutionMode, Runtime},
        typescript::translate,
    },
    tools::Toolbox,
};

pub use builder::SandboxBuilder;

/// A runtime and a policy. Every [`execute`](Self::execute) uses a new interpreter with new files, so no execution sees
/// the state of another execution. Clones are cheap. Any number of threads can execute concurrently.
#[derive(Clone)]
pub struct Sandbox(pub(crate) Arc<SandboxInner>);

#[derive(Clone)]
pub(crate) struct SandboxInner {
    pub(crate) engine: Engine,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) policy: Policy,
    pub(crate) workspace: Workspace,
    pub(crate) toolbox: Arc<Toolbox>,
    /// A share of a quota, released when the last copy of the sandbox is dropped.
    _keeps: Option<KeepAlive>,
}

/// A value that is held but never read.
pub(crate) type KeepAlive = Arc<dyn fmt::Debug + Send + Sync>;

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox")
            .field("runtime", &self.0.runtime.name)
            .field("policy", &self.0.policy)
            .finish_non_exhaustive()
    }
}

impl Sandbox {
    /// Returns a copy of this sandbox with additional tools. Does not reload the runtime or reopen directories.
    ///
    /// ```no_run
    /// # use glovebox::{Engine, EngineConfig, Sandbox, Tool};
    /// # let sandbox = Sandbox::builder(&Engine::new(EngineConfig::default())?).build()?;
    /// let asking = sandbox.with_tools(&[Tool::new("ask", "Asks the user.").stepped()])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails if a tool is invalid, or if two tools have the same name.
    pub fn with_tools(&self, tools: &[Tool]) -> Result<Self, ToolDefinitionError> {
        Ok(self.with_toolbox(self.0.toolbox.with(tools)?))
    }

    /// Like [`with_tools`](Self::with_tools). Keeps `guard` until the last copy of the tools is dropped.
    #[doc(hidden)]
    pub fn with_tools_until(
        &self,
        tools: &[Tool],
        guard: impl fmt::Debug + Send + Sync + 'static,
    ) -> Result<Self, ToolDefinitionError> {
        Ok(self.with_toolbox(self.0.toolbox.with(tools)?.keep_alive(guard)))
    }

    /// Returns a copy of this sandbox with these tools instead of its own.
    fn with_toolbox(&self, toolbox: Toolbox) -> Self {
        Self(Arc::new(SandboxInner { toolbox: Arc::new(toolbox), ..SandboxInner::clone(&self.0) }))
    }

    /// Returns a copy of this sandbox for queries in copies of its sessions. The copy has no tools, no network and no
    /// commits to host directories, so that a query has no effect outside the copied session.
    pub(crate) fn for_queries(&self, fuel: u64, timeout_ms: u64) -> Self {
        let mut inner = SandboxInner::clone(&self.0);
        inner.toolbox = Arc::default();
        inner.workspace = inner.workspace.without_commits();
        inner.policy.commit = Commit::Never;
        inner.policy.network = NetworkPolicy::default();
        inner.policy.session.checkpoints = Checkpoints::Never;
        inner.policy.limits.fuel = fuel;
        inner.policy.limits.timeout_ms = timeout_ms;
        Self(Arc::new(inner))
    }

    /// Returns the language of the scripts.
    #[must_use]
    pub fn language(&self) -> Language {
        self.0.runtime.language
    }

    /// Returns the runtime's name in the manifest, the name of a custom image, or the path of a custom binary.
    #[must_use]
    pub fn runtime_name(&self) -> &str {
        &self.0.runtime.name
    }

    /// Returns the interpreter's version, or `None` for a custom binary.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.0.runtime.version.as_deref()
    }

    /// Returns `true` if executions use a prepared image.
    #[must_use]
    pub fn is_prepared(&self) -> bool {
        self.0.runtime.image().is_some()
    }

    /// Returns the identity of the prepared image: the SHA-256 of its module in hexadecimal. Returns `None` for a plain
    /// command.
    #[must_use]
    pub fn image_sha256(&self) -> Option<&str> {
        self.0.runtime.image().map(|image| &*image.identity)
    }

    /// Loads code that is otherwise loaded when a script first needs it, for example scipy's code. Compiles code that
    /// is missing from the cache. Servers call this before they accept requests.
    ///
    /// # Errors
    /// Fails if the code cannot be compiled or loaded.
    pub fn load_all_code(&self) -> Result<(), RuntimeError> {
        self.0.runtime.template.load_all()
    }

    /// Returns the policy of this sandbox's executions.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.0.policy
    }

    /// Runs `source` in a new interpreter.
    ///
    /// # Errors
    /// Fails if Glovebox could not carry out the execution. A guest's failure is reported as an [`Execution`].
    pub fn execute(&self, source: &str) -> Result<Execution, ExecuteError> {
        self.run(Request::new(source))
    }

    /// Runs a request in a new interpreter.
    ///
    /// # Errors
    /// Fails if Glovebox could not carry out the execution. A guest's failure is reported as an [`Execution`].
    pub fn run(&self, request: Request<'_>) -> Result<Execution, ExecuteError> {
        if let Some(suspended) = &request.options.replay {
            suspended.check_place(false)?;
        }
        let mut request = translate(PreparedRequest::new(self, request)?)?;
        self.0.engine.0.on_stack(|| {
            let ctx = request.start();
            let (mut guest, roots) = self.guest(&request, guest::one_shot, self.0.workspace.files()?, ctx)?;
            request.set_context(&mut guest)?;
            let executed = request.execute(&mut guest, &roots, true, None)?;
            self.recycle(guest, executed.after, executed.execution.duration);
            executed.into_result()
        })?
    }

    /// Repeats a recorded execution without calling tools, and compares the results: outcome, fuel, output, value,
    /// displays, tool calls and changed files. Host directories are not changed. To cancel a replay or to receive
    /// its output, [`run`](Self::run) the recording's [`request`](Recording::request).
    ///
    /// # Errors
    /// [`ExecuteError::NotRepeated`] if a result differs, [`ExecuteError::OtherImage`] if the image differs.
    /// Other errors are those of [`run`](Self::run).
    pub fn replay(&self, recording: &Recording) -> Result<Execution, ExecuteError> {
        self.run(recording.request())
    }

    /// Starts [`run`](Self::run) on a new thread, for the caller to step through. See [`Started`].
    ///
    /// # Errors
    /// Fails if the request is invalid or exceeds a limit, or if no thread can be started. [`Started::advance`] returns
    /// the other errors of [`run`](Self::run).
    pub fn start(&self, request: Request<'_>) -> Result<Started, ExecuteError> {
        self.start_with(request, |_| ())
    }

    /// Like `start`. Calls `finish` with the execution before the caller receives it. Drops `finish` if the execution
    /// fails.
    #[doc(hidden)]
    pub fn start_with(
        &self,
        request: Request<'_>,
        finish: impl FnOnce(&mut Execution) + Send + 'static,
    ) -> Result<Started, ExecuteError> {
        PreparedRequest::check(self, &request)?;
        let sandbox = self.clone();
        Started::begin(self, request, finish, move |request, begun| {
            begun();
            sandbox.run(request)
        })
    }

    /// Returns the diagnostics of the language's own parser for `source`. The list is empty if `source` is well-formed.
    /// Does not execute the source.
    ///
    /// # Errors
    /// Fails if the runtime is not prepared, if the source exceeds a limit, or if no instance could be created.
    pub fn validate(&self, source: &str) -> Result<Vec<Diagnostic>, ExecuteError> {
        self.validate_request(Request::new(source))
    }

    /// Like [`validate`](Self::validate), but uses the name and the source kind of the request.
    ///
    /// # Errors
    /// Fails like [`validate`](Self::validate), or if the request is invalid.
    pub fn validate_request(&self, request: Request<'_>) -> Result<Vec<Diagnostic>, ExecuteError> {
        let request = PreparedRequest::new(self, request)?;
        let image = self.0.runtime.prepared()?;
        let mut request = translate(request)?;
        if let Some(diagnostic) = request.rejected_diagnostic() {
            return Ok(vec![diagnostic]);
        }
        self.0.engine.0.on_stack(|| {
            let ctx = request.start();
            let (mut guest, _) = self.guest(&request, guest::one_shot, self.0.workspace.files()?, ctx)?;
            let (diagnostics, after) = guest.validate(image.driver(), &self.0.policy.limits, &request.script(true))?;
            self.recycle(guest, after, Duration::ZERO);
            Ok(diagnostics)
        })?
    }

    /// Creates and drops a guest for an empty script, always from a new instance. Returns the elapsed time. Used only
    /// by benchmarks.
    #[doc(hidden)]
    pub fn instantiate(&self) -> Result<Duration, ExecuteError> {
        let mut request = PreparedRequest::new(self, Request::new(""))?;
        self.0.engine.0.on_stack(|| {
            let ctx = request.start();
            let watch = *ctx.watch();
            self.guest(&request, guest::new_guest, self.0.workspace.files()?, ctx).map(drop)?;
            Ok(watch.elapsed())
        })?
    }

    /// Recycles a guest's instance, if possible and worthwhile.
    fn recycle(&self, guest: Guest, after: GuestState, took: Duration) {
        let Runtime { recycled, .. } = &*self.0.runtime;
        if let (GuestState::Alive, Some(recycled), Some(image)) = (after, recycled, self.0.runtime.image())
            && let Ok(pristine) = image.pristine()
        {
            recycled.recycle(guest.machine, pristine, took);
        }
    }

    /// Compares the idle instances with a new instance. Returns their number, or a description of the first difference.
    /// Used only by tests.
    #[doc(hidden)]
    pub fn compare_recycled(&self) -> Result<usize, String> {
        let message = |error: ExecuteError| error.to_string();
        let (Some(recycled), Some(image)) = (&self.0.runtime.recycled, self.0.runtime.image()) else { return Ok(0) };
        let pristine = image.pristine().map_err(message)?;
        let request = PreparedRequest::new(self, Request::new("")).map_err(message)?;
        let wasi = self.wasi(&request, &self.0.workspace.files().map_err(message)?).map_err(message)?;
        let template = &self.0.runtime.template;
        let mut new =
            guest::instantiate(&self.0.engine.0, template, Box::new(wasi), u64::MAX.into(), EnginePlatform::idle())
                .map_err(message)?;
        recycled.compare(&mut new, pristine.globals())
    }

    /// Creates a guest with these files. `make` creates the instance.
    pub(crate) fn guest(
        &self,
        request: &PreparedRequest<'_>,
        make: impl FnOnce(NewGuest<'_>) -> Result<Guest, ExecuteError>,
        mut files: GuestFiles,
        ctx: ExecutionCtx,
    ) -> Result<(Guest, Roots), ExecuteError> {
        if let ExecutionMode::Command { .. } = self.0.runtime.drive {
            files.add_script(SCRIPT_MOUNT, request.file_name(), request.translated_source().as_bytes())?;
        }
        let wasi = Box::new(self.wasi(request, &files)?);
        let SandboxInner { engine, runtime, policy, .. } = &*self.0;
        let guest = make(NewGuest { inner: &engine.0, runtime, wasi, limits: &policy.limits, ctx })?;
        Ok((guest, files.roots))
    }

    pub(crate) fn wasi(&self, request: &PreparedRequest<'_>, files: &GuestFiles) -> Result<Wasi, ExecuteError> {
        let policy = &self.0.policy;
        // An image's libc read the environment and arguments at boot. The driver passes the script's values.
        let (args, env) = match &self.0.runtime.drive {
            ExecutionMode::Image(_) => Default::default(),
            ExecutionMode::Command { flags } => (request.command_args(flags), policy.env.clone().into_iter().collect()),
        };
        let mut limits = policy.limits.clone();
        if policy.network.is_on() {
            // The limit must allow network messages. Other messages are checked against their own limit when they are read.
            limits.tool_bytes = limits.tool_bytes.max(policy.network.message_bytes());
        }
        let world = GuestWorld {
            args,
            env,
            vfs: files.vfs.clone(),
            mounts: files.roots.0.iter().map(|(guest, root)| WasiMount::new(guest.clone(), *root)).collect(),
            limits: &limits,
            stdin: request.parts.stdin.to_vec(),
            clock: policy.clock,
            entropy: policy.entropy,
        };
        world.wasi().map_err(|error| ExecuteError::Driver(format!("the guest's WASI state cannot be set up: {error}")))
    }
}
