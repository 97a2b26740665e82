//! How a sandbox is made.

use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc};

use glovebox_core::{LIBRARY_PATH, MemoryLimit};

use super::{Held, Inner, Sandbox};
#[cfg(feature = "network")]
use crate::ToolRecord;
use crate::{
    BuildError, Engine, Language, Limits, Policy, PolicyError, RuntimeError, Tool,
    mount::{self, MountError},
    network,
    run::SCRIPT_MOUNT,
    runtime::{Drive, Runtime},
    tools::Toolbox,
    workspace::Workspace,
};

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
    keeps: Option<Held>,
    #[cfg(feature = "network")]
    replayed: Option<Vec<ToolRecord>>,
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

    /// A user's choice: a language's name (`python`, `javascript`) chooses that language's default runtime, and everything else is
    /// the name or alias of a runtime.
    pub fn named(self, name: &str) -> Self {
        match Language::ALL.iter().find(|language| language.name() == name) {
            Some(language) => self.language(*language),
            None => self.runtime(name),
        }
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

    /// Holds something for as long as the sandbox exists.
    pub(crate) fn keeping(mut self, it: Held) -> Self {
        self.keeps = Some(it);
        self
    }

    /// Answers scripts' requests to the network from what was written down of an earlier execution
    /// ([`Execution::tool_calls`](crate::Execution::tool_calls)), and sends none: each answer once, those to equal requests in their order. A
    /// request that is not there fails. The policy must allow the network, and secrets are not read. For scripts with secrets both
    /// policies have the same seed: else their placeholders are others.
    #[cfg(feature = "network")]
    pub fn replay_network(mut self, records: impl IntoIterator<Item = ToolRecord>) -> Self {
        self.replayed = Some(records.into_iter().collect());
        self
    }

    /// The toolbox with the network, where the policy has one, and what that adds to scripts' environment.
    fn with_network(&self, toolbox: Arc<Toolbox>) -> Result<(Arc<Toolbox>, BTreeMap<String, String>), BuildError> {
        let Policy { network, entropy, .. } = &self.policy;
        if !network.is_on() {
            return Ok((toolbox, BTreeMap::new()));
        }
        #[cfg(feature = "network")]
        if let Some(records) = &self.replayed {
            let (tool, environment) = network::replay(network, *entropy, records)?;
            return Ok((Arc::new(toolbox.with_network(tool)?), environment));
        }
        let (tool, environment) = network::open(network, *entropy)?;
        Ok((Arc::new(toolbox.with_network(tool)?), environment))
    }

    /// Checks the policy and the tools, opens its host directories, and fetches, prepares and loads the runtime unless that was
    /// done before. This takes seconds the first time, and milliseconds afterwards.
    pub fn build(mut self) -> Result<Sandbox, BuildError> {
        self.policy.check()?;
        let toolbox = match self.toolbox.take() {
            Some(toolbox) => toolbox,
            None => Arc::new(Toolbox::new(&self.tools)?),
        };
        let (toolbox, environment) = self.with_network(toolbox)?;
        // Before a runtime is fetched and prepared in vain.
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
                // Both engines have the same.
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
            // They may have been removed since the image was made.
            inner.runtimes.fetch_packages(&*inner.progress).map_err(RuntimeError::from)?;
        }
        let packages = packages.map(|shared| runtime.packages.clone().unwrap_or_else(|| shared.source()));
        let workspace = Workspace::open(&self.policy, &self.files, packages, runtime.library.as_ref())?;
        let Self { mut policy, keeps, .. } = self;
        policy.env.extend(environment);
        Ok(Sandbox(Arc::new(Inner { engine, runtime, policy, workspace, toolbox, keeps })))
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
            #[cfg(feature = "network")]
            replayed: None,
        }
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
