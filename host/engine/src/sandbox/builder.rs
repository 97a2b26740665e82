//! Creates sandboxes.

use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc};

use glovebox_core::{LIBRARY_PATH, MemoryLimit};

use super::{KeptAlive, Sandbox, SandboxInner};
use crate::{
    BuildError, Engine, Language, Limits, Network, Policy, PolicyError, RuntimeError, Tool,
    exec::run::SCRIPT_MOUNT,
    files::workspace::Workspace,
    load::runtime::{ExecutionMode, Runtime},
    mount::{self, MountError},
    tools::Toolbox,
};

/// Configures the runtime and the policy of a [`Sandbox`].
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
    keeps: Option<KeptAlive>,
    network: Option<Arc<dyn Network>>,
}

impl fmt::Debug for SandboxBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SandboxBuilder").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl SandboxBuilder {
    /// Sets the language, which selects the default runtime. Default: Python, or the named runtime's language.
    pub fn language(mut self, language: Language) -> Self {
        self.language = Some(language);
        self
    }

    /// Selects a runtime by name or alias. Images of the user's own are named in the same way.
    pub fn runtime(mut self, name: impl Into<String>) -> Self {
        self.runtime = Some(name.into());
        self
    }

    /// Selects a language or a runtime by name. A language's name (`python`, `javascript`) selects its default runtime.
    /// Any other name is the name or alias of a runtime.
    pub fn named(self, name: &str) -> Self {
        match Language::ALL.iter().find(|language| language.name() == name) {
            Some(language) => self.language(*language),
            None => self.runtime(name),
        }
    }

    /// Selects any other WASI binary. A binary whose digest is in the manifest runs as if it were named. Any other
    /// binary runs as a plain command, `_start` with the script's path as its argument, and is booted for each
    /// execution.
    pub fn runtime_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.runtime_path = Some(path.into());
        self
    }

    /// Uses the prepared image. Default: `true`. Otherwise the binary boots as a plain command for each execution. This
    /// is slow and supports neither sessions nor validation, but adds no code of ours to the guest.
    pub fn prepared(mut self, prepared: bool) -> Self {
        self.prepared = prepared;
        self
    }

    /// Sets the policy of the executions.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets only the limits of the policy.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.policy.limits = limits;
        self
    }

    /// Adds a file that exists in the workspace at the start of each execution, by its path relative to `/app`.
    pub fn file(mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.push((path.into(), bytes.into()));
        self
    }

    /// Adds a host function that scripts may call as `tools.name(…)`.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Sets tools that were validated already, instead of other tools.
    pub(crate) fn toolbox(mut self, toolbox: &Arc<Toolbox>) -> Self {
        self.toolbox = Some(Arc::clone(toolbox));
        self
    }

    /// Keeps a value alive as long as the sandbox exists.
    pub(crate) fn keeping(mut self, it: KeptAlive) -> Self {
        self.keeps = Some(it);
        self
    }

    /// Sets what performs the requests of scripts, instead of
    /// [`EngineConfig::network`](crate::EngineConfig::network). The policy must allow the addresses.
    pub fn network(mut self, network: impl Network + 'static) -> Self {
        self.network = Some(Arc::new(network));
        self
    }

    /// Adds the tool that performs the requests of scripts, if the policy allows addresses. Also returns the variables
    /// with placeholders for secrets.
    fn with_network(&self, toolbox: Arc<Toolbox>) -> Result<(Arc<Toolbox>, BTreeMap<String, String>), BuildError> {
        if !self.policy.network.is_on() {
            return Ok((toolbox, BTreeMap::new()));
        }
        let open = match &self.network {
            Some(network) => network.open(&self.policy)?,
            None => self.engine.open_network(&self.policy)?,
        };
        let (tool, environment) = open.into_tool(&self.policy.network);
        Ok((Arc::new(toolbox.with_network(tool)?), environment))
    }

    /// Checks the policy and the tools, and opens the host directories. Fetches, prepares and loads the runtime if
    /// necessary, which takes seconds the first time and milliseconds afterwards.
    ///
    /// # Errors
    /// Fails if the policy, a tool or a workspace file is invalid, if a host directory cannot be used, or if the
    /// runtime is unavailable or does not fit the policy.
    pub fn build(mut self) -> Result<Sandbox, BuildError> {
        self.policy.check()?;
        let toolbox = match self.toolbox.take() {
            Some(toolbox) => toolbox,
            None => Arc::new(Toolbox::new(&self.tools)?),
        };
        let (toolbox, environment) = self.with_network(toolbox)?;
        // Check first, to avoid fetching and preparing a runtime in vain.
        for host in self.policy.workspace.iter().chain(self.policy.mounts.iter().map(|mount| &mount.host)) {
            if let Err(error @ MountError::Guarded { .. }) = mount::check_directory(host) {
                return Err(error.into());
            }
        }
        let engine = self.engine.with_metering(self.policy.metering)?;
        let inner = &engine.0;
        let runtime = match (&self.runtime_path, &self.runtime) {
            (Some(path), _) => inner.load_path(path, self.language, self.prepared)?,
            (None, Some(name)) => inner.load_named(name, self.prepared)?,
            (None, None) => {
                // The metered and the unmetered engine have the same default runtimes.
                let preferred = self.engine.0.preferred(self.language.unwrap_or(Language::Python))?;
                inner.load_named(preferred, self.prepared)?
            }
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
            // The packages may have been removed since the image was prepared.
            inner.runtimes.fetch_packages(&*inner.progress).map_err(RuntimeError::from)?;
        }
        let packages = packages.map(|shared| runtime.packages.clone().unwrap_or_else(|| shared.source()));
        let workspace = Workspace::open(&self.policy, &self.files, packages, runtime.library.as_ref())?;
        let Self { mut policy, keeps, .. } = self;
        policy.env.extend(environment);
        Ok(Sandbox(Arc::new(SandboxInner { engine, runtime, policy, workspace, toolbox, keeps })))
    }
}

impl Sandbox {
    /// Starts to configure a sandbox.
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
            network: None,
        }
    }
}

/// Returns the reason why this runtime cannot have a mount at a guest path: the guest would not see it.
fn taken(runtime: &Runtime, guest: &str) -> Option<&'static str> {
    let below = |root: &str| guest.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    match (&runtime.drive, runtime.language) {
        (ExecutionMode::Command { .. }, _) if below(SCRIPT_MOUNT) => {
            Some("a plain command's script is at `/script`; choose another guest path")
        }
        // wasi-vfs, which is linked into the binary, handles all of `/usr` without asking a preopen.
        (_, Language::Python) if below("/usr") => {
            Some("Python's standard library is at `/usr`, inside the interpreter; choose another guest path")
        }
        (ExecutionMode::Image(_), Language::JavaScript) if below(LIBRARY_PATH) => {
            Some("JavaScript's packages are at `/data_js`; choose another guest path")
        }
        _ => None,
    }
}
