//! A sandbox: a runtime and a policy, ready to execute.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use glovebox_core::{GuestState, GuestWorld, LIBRARY_PATH, MemoryLimit, Watch as _};
use glovebox_interpreters::Diagnostic;
use glovebox_wasi::{Mount as WasiMount, Wasi};

use crate::{
    BuildError, Engine, ExecuteError, Execution, Language, Limits, Policy, PolicyError, Request, RuntimeError, Session,
    SessionOptions, Started, Tool, ToolDefinitionError,
    engine::Inner as EngineInner,
    guest::{self, Guest},
    mount::{self, MountError},
    packages::SharedPackages,
    platform::{EnginePlatform, ExecutionCtx},
    run::{PreparedRequest, SCRIPT_MOUNT},
    runtime::{Drive, Runtime},
    tools::Toolbox,
    translate::translate,
    workspace::{GuestFiles, Roots, Workspace},
};

/// A runtime and a policy. Every [`execute`](Self::execute) is a new interpreter with new files: nothing of one
/// execution is seen by another. Cheap to clone, and any number of threads may execute at once.
#[derive(Clone)]
pub struct Sandbox(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) engine: Engine,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) policy: Policy,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) workspace: Workspace,
    pub(crate) toolbox: Arc<Toolbox>,
    /// What is counted somewhere for as long as somebody has the sandbox.
    keeps: Option<Kept>,
}

/// Something that is only kept.
pub(crate) type Kept = Arc<dyn fmt::Debug + Send + Sync>;

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox")
            .field("runtime", &self.0.runtime.name)
            .field("policy", &self.0.policy)
            .finish_non_exhaustive()
    }
}

/// Chooses runtime and policy of a [`Sandbox`].
#[must_use]
pub struct SandboxBuilder {
    engine: Engine,
    language: Option<Language>,
    runtime: Option<String>,
    runtime_path: Option<PathBuf>,
    prepared: bool,
    policy: Policy,
    files: Vec<(String, Vec<u8>)>,
    tools: Vec<Tool>,
    toolbox: Option<Arc<Toolbox>>,
    keeps: Option<Kept>,
}

impl fmt::Debug for SandboxBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SandboxBuilder").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl SandboxBuilder {
    /// The language; it chooses the default runtime. Default: Python, or the named runtime's language.
    pub fn language(mut self, language: Language) -> Self {
        self.language = Some(language);
        self
    }

    /// A runtime by its name or alias in the manifest.
    pub fn runtime(mut self, name: impl Into<String>) -> Self {
        self.runtime = Some(name.into());
        self
    }

    /// Any other WASI binary. One that the manifest knows by its digest runs as it would by name; every other runs as
    /// a plain command, `_start` with the script's path as its argument, and is booted each time.
    pub fn runtime_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.runtime_path = Some(path.into());
        self
    }

    /// Whether to run the prepared image. Default: yes. Without it the binary boots as a plain command each time: slow, and
    /// without sessions and validation, but with nothing of ours in the guest.
    pub fn prepared(mut self, prepared: bool) -> Self {
        self.prepared = prepared;
        self
    }

    /// Everything the executions may do.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The limits alone.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.policy.limits = limits;
        self
    }

    /// A file that is in the workspace when an execution begins, by its path relative to `/app`.
    pub fn file(mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.push((path.into(), bytes.into()));
        self
    }

    /// A function of the host that scripts may call as `tools.name(…)`.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Tools that were checked before, in place of others.
    pub(crate) fn toolbox(mut self, toolbox: &Arc<Toolbox>) -> Self {
        self.toolbox = Some(Arc::clone(toolbox));
        self
    }

    /// Keeps something for as long as somebody has the sandbox.
    pub(crate) fn keeping(mut self, it: Kept) -> Self {
        self.keeps = Some(it);
        self
    }

    /// Checks the policy and the tools, opens its host directories, and fetches, prepares and loads the runtime where that has not been
    /// done before: seconds the first time, milliseconds afterwards.
    pub fn build(self) -> Result<Sandbox, BuildError> {
        self.policy.check()?;
        let toolbox = match self.toolbox {
            Some(toolbox) => toolbox,
            None => Arc::new(Toolbox::new(&self.tools)?),
        };
        // Before a runtime is fetched and prepared for what cannot be.
        for host in self.policy.workspace.iter().chain(self.policy.mounts.iter().map(|mount| &mount.host)) {
            if let Err(error @ MountError::Guarded { .. }) = mount::check_directory(host) {
                return Err(error.into());
            }
        }
        let inner = &self.engine.0;
        let runtime = match (&self.runtime_path, &self.runtime) {
            (Some(path), _) => inner.load_path(path, self.language, self.prepared)?,
            (None, Some(name)) => inner.load_named(name, self.prepared)?,
            (None, None) => inner.load_named(self.language.unwrap_or(Language::Python).name(), self.prepared)?,
        };
        if let Some(wanted) = self.language.filter(|wanted| *wanted != runtime.language) {
            return Err(BuildError::Language { name: runtime.name.clone(), has: runtime.language, wanted });
        }
        let needed_bytes = runtime.image().map_or(0, |image| MemoryLimit::least(image.memory_bytes));
        if needed_bytes > self.policy.limits.memory_bytes {
            return Err(BuildError::Memory {
                name: runtime.name.clone(),
                limit_bytes: self.policy.limits.memory_bytes,
                needed_bytes,
            });
        }
        if self.policy.auto_persist_globals && runtime.image().is_none() {
            return Err(BuildError::NotPersisting { name: runtime.name.clone() });
        }
        for mount in &self.policy.mounts {
            if let Some(reason) = taken(&runtime, &mount.guest) {
                let mount = format!("{}:{}", mount.host.display(), mount.guest);
                return Err(PolicyError::Mount { mount, reason: reason.into() }.into());
            }
        }
        let packages = inner.packages.as_ref().filter(|_| runtime.language == Language::Python);
        if packages.is_some() {
            // They may have been removed since the image was made.
            inner.runtimes.fetch_packages(&*inner.progress).map_err(RuntimeError::from)?;
        }
        let packages = packages.map(SharedPackages::source);
        let workspace = Workspace::open(&self.policy, &self.files, packages)?;
        let env = self.policy.env.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        let Self { engine, policy, keeps, .. } = self;
        Ok(Sandbox(Arc::new(Inner { engine, runtime, policy, env, workspace, toolbox, keeps })))
    }
}

impl Sandbox {
    /// Begins to describe a sandbox.
    pub fn builder(engine: &Engine) -> SandboxBuilder {
        SandboxBuilder {
            engine: engine.clone(),
            language: None,
            runtime: None,
            runtime_path: None,
            prepared: true,
            policy: Policy::default(),
            files: Vec::new(),
            tools: Vec::new(),
            toolbox: None,
            keeps: None,
        }
    }

    /// Runs `source` in a new interpreter.
    pub fn execute(&self, source: &str) -> Result<Execution, ExecuteError> {
        self.run(Request::new(source))
    }

    /// Runs a request in a new interpreter.
    pub fn run(&self, request: Request<'_>) -> Result<Execution, ExecuteError> {
        let mut request = translate(PreparedRequest::new(self, request)?)?;
        self.0.engine.0.on_stack(|| {
            let ctx = request.start();
            let (mut guest, roots) = self.guest(&request, guest::one_shot, self.0.workspace.files()?, ctx)?;
            request.set_context(&mut guest)?;
            let executed = request.execute(&mut guest, &roots, true, None)?;
            self.recycle(guest, executed.after);
            executed.into_result()
        })?
    }

    /// Begins what [`run`](Self::run) does, on a thread of its own, for the caller to step through: see [`Started`].
    ///
    /// # Errors
    /// As [`run`](Self::run), for what is known before there is an instance.
    pub fn start(&self, request: Request<'_>) -> Result<Started, ExecuteError> {
        self.start_with(request, |_| ())
    }

    /// The same; `finish` has the execution before the caller has it, and is dropped where there is none.
    pub(crate) fn start_with(
        &self,
        request: Request<'_>,
        finish: impl FnOnce(&mut Execution) + Send + 'static,
    ) -> Result<Started, ExecuteError> {
        PreparedRequest::check(self, &request)?;
        let sandbox = self.clone();
        Started::begin(request, finish, move |request, begun| {
            begun();
            sandbox.run(request)
        })
    }

    /// The same sandbox with more tools: nothing is loaded or opened again.
    ///
    /// ```no_run
    /// # use glovebox::{Engine, EngineConfig, Sandbox, Tool};
    /// # let sandbox = Sandbox::builder(&Engine::new(EngineConfig::default())?).build()?;
    /// let asking = sandbox.with_tools(&[Tool::new("ask", "Asks the user.").stepped()])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When one of them cannot be a tool, or has the name of another.
    pub fn with_tools(&self, tools: &[Tool]) -> Result<Self, ToolDefinitionError> {
        Ok(self.with_toolbox(self.0.toolbox.with(tools)?))
    }

    /// The same sandbox with these tools and no others.
    pub(crate) fn with_toolbox(&self, toolbox: Toolbox) -> Self {
        let Inner { engine, runtime, policy, env, workspace, toolbox: _, keeps } = &*self.0;
        Self(Arc::new(Inner {
            engine: engine.clone(),
            runtime: Arc::clone(runtime),
            policy: policy.clone(),
            env: env.clone(),
            workspace: workspace.clone(),
            toolbox: Arc::new(toolbox),
            keeps: keeps.clone(),
        }))
    }

    /// What the language's own parser says about `source`: nothing when it is well-formed. Nothing of it is executed.
    pub fn validate(&self, source: &str) -> Result<Vec<Diagnostic>, ExecuteError> {
        self.validate_request(Request::new(source))
    }

    /// As [`validate`](Self::validate), with a name and a kind.
    pub fn validate_request(&self, request: Request<'_>) -> Result<Vec<Diagnostic>, ExecuteError> {
        let request = PreparedRequest::new(self, request)?;
        let Some(image) = self.0.runtime.image() else {
            return Err(ExecuteError::NotPrepared { name: self.0.runtime.name.clone() });
        };
        let mut request = translate(request)?;
        if let Some(diagnostic) = request.rejected_diagnostic() {
            return Ok(vec![diagnostic]);
        }
        self.0.engine.0.on_stack(|| {
            let ctx = request.start();
            let (mut guest, _) = self.guest(&request, guest::one_shot, self.0.workspace.files()?, ctx)?;
            let (diagnostics, after) = guest.validate(image.driver(), &self.0.policy.limits, &request.script(true))?;
            self.recycle(guest, after);
            Ok(diagnostics)
        })?
    }

    /// Opens a session: an interpreter that is kept between executions.
    pub fn session(&self) -> Result<Session, ExecuteError> {
        self.open_session(SessionOptions::default())
    }

    /// As [`session`](Self::session), with an id or a context of its own.
    pub fn open_session(&self, options: SessionOptions) -> Result<Session, ExecuteError> {
        Session::open(self, options)
    }

    /// Makes an instance as [`run`](Self::run) does, runs nothing in it, drops it, and says how long that took. For benchmarks.
    #[doc(hidden)]
    pub fn instantiate(&self) -> Result<Duration, ExecuteError> {
        let mut request = PreparedRequest::new(self, Request::new(""))?;
        self.0.engine.0.on_stack(|| {
            let ctx = request.start();
            let watch = *ctx.watch();
            self.guest(&request, guest::fresh, self.0.workspace.files()?, ctx).map(drop)?;
            Ok(watch.elapsed())
        })?
    }

    /// The language of the scripts.
    #[must_use]
    pub fn language(&self) -> Language {
        self.0.runtime.language
    }

    /// The runtime's name in the manifest, or the path of a custom binary.
    #[must_use]
    pub fn runtime_name(&self) -> &str {
        &self.0.runtime.name
    }

    /// The interpreter's version; none for a custom binary.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.0.runtime.version.as_deref()
    }

    /// Whether a prepared image runs.
    #[must_use]
    pub fn is_prepared(&self) -> bool {
        self.0.runtime.image().is_some()
    }

    /// The identity of the prepared image that runs: the SHA-256 of its module, in hexadecimal. None for a plain command.
    #[must_use]
    pub fn image_sha256(&self) -> Option<&str> {
        self.0.runtime.image().map(|image| &*image.identity)
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.0.policy
    }

    /// Uses the instance of a guest for other scripts, where that is possible.
    fn recycle(&self, guest: Guest, after: GuestState) {
        let Runtime { recycled, .. } = &*self.0.runtime;
        if let (GuestState::Alive, Some(recycled), Some(image)) = (after, recycled, self.0.runtime.image())
            && let Ok(pristine) = image.pristine()
        {
            recycled.give(guest.machine, pristine);
        }
    }

    /// How an instance that waits for its next script differs from a new one; how many wait where none does. For tests.
    #[doc(hidden)]
    pub fn compare_recycled(&self) -> Result<usize, String> {
        let said = |error: ExecuteError| error.to_string();
        let (Some(recycled), Some(image)) = (&self.0.runtime.recycled, self.0.runtime.image()) else { return Ok(0) };
        let pristine = image.pristine().map_err(said)?;
        let request = PreparedRequest::new(self, Request::new("")).map_err(said)?;
        let wasi = self.wasi(&request, &self.0.workspace.files().map_err(said)?).map_err(said)?;
        let template = &self.0.runtime.template;
        let mut new =
            guest::instantiate(&self.0.engine.0, template, Box::new(wasi), u64::MAX.into(), EnginePlatform::over())
                .map_err(said)?;
        recycled.compare(&mut new, pristine.globals())
    }

    /// A guest with its files, awake, as `make` makes it.
    pub(crate) fn guest(
        &self,
        request: &PreparedRequest<'_>,
        make: impl FnOnce(&EngineInner, &Runtime, Box<Wasi>, &Limits, ExecutionCtx) -> Result<Guest, ExecuteError>,
        mut files: GuestFiles,
        ctx: ExecutionCtx,
    ) -> Result<(Guest, Roots), ExecuteError> {
        if let Drive::Command { .. } = self.0.runtime.drive {
            files.add_script(SCRIPT_MOUNT, request.file_name(), request.translated_source().as_bytes())?;
        }
        let wasi = self.wasi(request, &files)?;
        let Inner { engine, runtime, policy, .. } = &*self.0;
        let guest = make(&engine.0, runtime, Box::new(wasi), &policy.limits, ctx)?;
        Ok((guest, files.roots))
    }

    pub(crate) fn wasi(&self, request: &PreparedRequest<'_>, files: &GuestFiles) -> Result<Wasi, ExecuteError> {
        let policy = &self.0.policy;
        // An image's own libc holds environment and arguments since its boot; scripts get theirs from the driver.
        let (args, env) = match &self.0.runtime.drive {
            Drive::Image(_) => Default::default(),
            Drive::Command { flags } => (request.command_args(flags), self.0.env.clone()),
        };
        let world = GuestWorld {
            args,
            env,
            vfs: files.vfs.clone(),
            mounts: files.roots.0.iter().map(|(guest, root)| WasiMount::new(guest.clone(), *root)).collect(),
            limits: &policy.limits,
            stdin: request.stdin.to_vec(),
            clock: policy.clock,
            entropy: policy.entropy,
        };
        world.wasi().map_err(|error| ExecuteError::Driver(format!("the guest's WASI state cannot be set up: {error}")))
    }
}

/// Why a guest path cannot be a mount's with this runtime: the guest would not see it.
fn taken(runtime: &Runtime, guest: &str) -> Option<&'static str> {
    let below = |root: &str| guest.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    match (&runtime.drive, runtime.language) {
        (Drive::Command { .. }, _) if below(SCRIPT_MOUNT) => {
            Some("a plain command's script is at `/script`; choose another guest path")
        }
        // wasi-vfs, linked into the binary, answers for all of it and asks no preopen.
        (_, Language::Python) if below("/usr") => {
            Some("Python's standard library is at `/usr`, inside the interpreter; choose another guest path")
        }
        (Drive::Image(_), Language::JavaScript) if below(LIBRARY_PATH) => {
            Some("JavaScript's packages are at `/data_js`; choose another guest path")
        }
        _ => None,
    }
}
