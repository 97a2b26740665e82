//! Creates sandboxes.

use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc};

use glovebox_core::{LIBRARY_PATH, MemoryLimit, SCRATCH};

use super::{KeepAlive, Sandbox, SandboxInner};
use crate::{
    BuildError, Engine, Language, Limits, Network, Policy, PolicyError, RuntimeError, Tool,
    exec::run::SCRIPT_MOUNT,
    files::workspace::Workspace,
    load::runtime::{ExecutionMode, Runtime},
    mount::{self, MountError},
    tools::{ToolRules, Toolbox},
};

/// A builder that configures the runtime and the policy of a [`Sandbox`].
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
    keeps: Option<KeepAlive>,
    network: Option<Arc<dyn Network>>,
}

impl fmt::Debug for SandboxBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SandboxBuilder").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl SandboxBuilder {
    /// Sets the language, which selects the default runtime. Default: the language of the specified runtime, or Python.
    pub fn language(mut self, language: Language) -> Self {
        self.language = Some(language);
        self
    }

    /// Selects a runtime by name or alias, or a custom image by name.
    pub fn runtime(mut self, name: impl Into<String>) -> Self {
        self.runtime = Some(name.into());
        self
    }

    /// Selects a language or a runtime. A language name (`python`, `javascript`) selects the default runtime of that
    /// language. Any other name selects a runtime or a custom image, like [`runtime`](Self::runtime).
    pub fn named(self, name: &str) -> Self {
        match Language::ALL.iter().find(|language| language.name() == name) {
            Some(language) => self.language(*language),
            None => self.runtime(name),
        }
    }

    /// Selects a WASI binary by path. A binary whose digest is in the manifest runs as if selected by name. Any other
    /// binary runs as a plain command: each execution boots it and calls `_start` with the script's path as an
    /// argument.
    pub fn runtime_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.runtime_path = Some(path.into());
        self
    }

    /// Sets whether to use the prepared image. Default: `true`. With `false`, the binary boots as a plain command for
    /// each execution. A plain command is slow and supports neither sessions nor validation, but contains no Glovebox
    /// code. Building a sandbox for a custom image then fails, because a plain command would skip the image's setup.
    pub fn prepared(mut self, prepared: bool) -> Self {
        self.prepared = prepared;
        self
    }

    /// Sets the policy of the executions. Default: [`Policy::default`].
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the policy's limits and leaves its other settings unchanged.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.policy.limits = limits;
        self
    }

    /// Adds a file to the workspace of each execution. `path` is relative to `/app`.
    pub fn file(mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.push((path.into(), bytes.into()));
        self
    }

    /// Adds a host function that scripts call as `tools.name(…)`.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Sets tools that have already been validated, with the policy's restrictions on them. Overrides the tools that
    /// [`tool`](Self::tool) added.
    #[doc(hidden)]
    pub fn toolbox(mut self, toolbox: &Arc<Toolbox>) -> Self {
        self.toolbox = Some(Arc::clone(toolbox));
        self
    }

    /// Keeps `it` alive until the sandbox is dropped.
    #[doc(hidden)]
    pub fn keep_alive(mut self, it: KeepAlive) -> Self {
        self.keeps = Some(it);
        self
    }

    /// Sets the network that performs the requests of scripts, instead of
    /// [`EngineConfig::network`](crate::EngineConfig::network). The policy must allow the requested addresses.
    pub fn network(mut self, network: impl Network + 'static) -> Self {
        self.network = Some(Arc::new(network));
        self
    }

    /// Adds the tool that performs network requests, if the policy allows addresses. Also returns the environment
    /// variables that contain placeholders for secrets.
    fn with_network(&self, toolbox: Arc<Toolbox>) -> Result<(Arc<Toolbox>, BTreeMap<String, String>), BuildError> {
        if !self.policy.network.is_on() {
            return Ok((toolbox, BTreeMap::new()));
        }
        let open = match &self.network {
            Some(network) => network.open(&self.policy)?,
            None => self.engine.open_network(&self.policy)?,
        };
        Ok((Arc::new(toolbox.with_network(open.fetch, &self.policy.network)?), open.environment))
    }

    /// Checks the policy and the tools, and opens the host directories. Fetches, prepares and loads the runtime if
    /// necessary, which takes seconds or minutes the first time and milliseconds later.
    ///
    /// # Errors
    /// Fails if the policy, a tool or a workspace file is invalid, or if a host directory cannot be used. Also fails if
    /// the network cannot be opened, or if the runtime is unavailable or does not fit the policy.
    pub fn build(mut self) -> Result<Sandbox, BuildError> {
        self.policy.check()?;
        let toolbox = match self.toolbox.take() {
            Some(toolbox) => toolbox,
            None => Arc::new(Toolbox::new(&self.tools)?.restricted(ToolRules::new(&self.policy.tools)?)),
        };
        let (toolbox, environment) = self.with_network(toolbox)?;
        // Check the directories first, because fetching and preparing a runtime can take a long time.
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
                // Both metering modes have the same default runtimes.
                let preferred = self.engine.0.preferred(self.language.unwrap_or(Language::Python))?;
                inner.load_named(preferred, self.prepared)?
            }
        };
        if let Some(wanted) = self.language.filter(|wanted| *wanted != runtime.language) {
            return Err(BuildError::Language { name: runtime.name.clone(), has: runtime.language, wanted });
        }
        let needed_bytes = runtime.image().map_or(0, |image| MemoryLimit::image_charge(image.memory_bytes));
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
            if let Some(reason) = reserved_reason(&runtime, &mount.guest) {
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
        Ok(Sandbox(Arc::new(SandboxInner { engine, runtime, policy, workspace, toolbox, _keeps: keeps })))
    }
}

impl Sandbox {
    /// Creates a builder with the default policy.
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

/// Returns the reason why a guest path cannot be a mount point, or `None` if a guest would see a mount there.
fn reserved_reason(runtime: &Runtime, guest: &str) -> Option<&'static str> {
    let below = |root: &str| guest.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    match (&runtime.drive, runtime.language) {
        (ExecutionMode::Command { .. }, _) if below(SCRIPT_MOUNT) => {
            Some("a plain command's script is at `/script`; choose another guest path")
        }
        // CPython 3.12 contains wasi-vfs, which serves all of `/usr` itself, without preopens. CPython 3.15 has its
        // library below `/usr`.
        (_, Language::Python) if below("/usr") => {
            Some("Python's standard library is at `/usr`, inside the interpreter; choose another guest path")
        }
        (ExecutionMode::Image(_), Language::JavaScript) if below(LIBRARY_PATH) => {
            Some("JavaScript's packages are at `/data_js`; choose another guest path")
        }
        // A mount in the scratch directory would be hidden by any entry that the guest creates at its path, and the
        // directory would not list it.
        _ if guest != SCRATCH && below(SCRATCH) => {
            Some("`/tmp` is the scratch directory; mount at `/tmp` itself, or choose another guest path")
        }
        _ => None,
    }
}
