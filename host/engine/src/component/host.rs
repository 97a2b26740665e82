//! The sandbox host: configuration that all stores share.

use std::{fmt, sync::Arc};

use super::{convert::Grant, quotas::Quotas, wit::types};
use crate::{
    Engine, Metering, Policy, PolicyError, Tool, ToolDefinitionError, load::resolve::language, tools::Toolbox,
};

/// The configuration of sandboxes for components: an engine, the granted policy, quotas, and tools for scripts. Cheap
/// to clone; one host serves any number of stores.
#[derive(Clone)]
pub struct SandboxHost(pub(super) Arc<SandboxHostInner>);

pub(super) struct SandboxHostInner {
    pub(super) engine: Engine,
    pub(super) grant: Grant,
    pub(super) default_policy: types::Policy,
    pub(super) info: types::ProviderInfo,
    pub(super) quotas: Quotas,
    pub(super) tools: Vec<Tool>,
    pub(super) toolbox: Arc<Toolbox>,
}

impl fmt::Debug for SandboxHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SandboxHost")
            .field("policy", &self.0.grant.0)
            .field("quotas", &self.0.quotas)
            .finish_non_exhaustive()
    }
}

/// Builder of a [`SandboxHost`].
#[derive(Debug)]
#[must_use]
pub struct SandboxHostBuilder {
    engine: Engine,
    policy: Policy,
    quotas: Quotas,
    tools: Vec<Tool>,
}

/// An invalid configuration of a [`SandboxHost`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The policy is invalid.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The policy has host directories. Scripts of components get none: files are passed through `session.write-file`
    /// and `files`.
    #[error("a component's policy cannot have `{key}`: its scripts get no host directories; leave it out")]
    HostDirectory {
        /// Key of the policy with the host directory.
        key: &'static str,
    },
    /// The policy disables fuel metering, which the quota of fuel needs.
    #[error("a component's policy cannot have `metering = \"none\"`: its quota of fuel would not hold; leave it out")]
    Unmetered,
    /// A tool cannot be registered.
    #[error(transparent)]
    Tool(#[from] ToolDefinitionError),
}

impl SandboxHostBuilder {
    /// Sets the granted policy: the default for components, and the upper bound of their requests. Default:
    /// [`Policy::default`].
    ///
    /// Components can request at most the granted value of each limit, of `session.checkpoints_retained` and of
    /// `session.checkpoint_auto_bytes`. They can always request a fixed clock and seeded entropy, but the host's clock
    /// and entropy only if they are granted. They can freely choose arguments, environment, packages, persistent
    /// globals, when to take checkpoints, and what to do with an unwound session.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the total quotas of one store's component. Default: [`Quotas::default`].
    pub fn quotas(mut self, quotas: Quotas) -> Self {
        self.quotas = quotas;
        self
    }

    /// Adds a host function that the components' scripts can call as `tools.name(…)`.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Checks the policy and the tools, and builds the host.
    pub fn build(self) -> Result<SandboxHost, HostError> {
        let Self { engine, policy, quotas, tools } = self;
        policy.check()?;
        if policy.workspace.is_some() {
            return Err(HostError::HostDirectory { key: "workspace" });
        }
        if !policy.mounts.is_empty() {
            return Err(HostError::HostDirectory { key: "mounts" });
        }
        if policy.metering == Metering::None {
            return Err(HostError::Unmetered);
        }
        let toolbox = Arc::new(Toolbox::new(&tools)?);
        let grant = Grant(policy);
        let (default_policy, info) = (grant.granted().into(), info(&engine));
        Ok(SandboxHost(Arc::new(SandboxHostInner { engine, grant, default_policy, info, quotas, tools, toolbox })))
    }
}

impl SandboxHost {
    /// Returns a builder with the default policy and quotas.
    pub fn builder(engine: &Engine) -> SandboxHostBuilder {
        SandboxHostBuilder {
            engine: engine.clone(),
            policy: Policy::default(),
            quotas: Quotas::default(),
            tools: Vec::new(),
        }
    }

    /// Returns the granted policy: the default for components, and the upper bound of their requests.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.0.grant.0
    }
}

fn info(engine: &Engine) -> types::ProviderInfo {
    let entries = engine.0.runtimes.manifest().runtimes().iter();
    let mut entries: Vec<_> = entries.filter(|entry| engine.0.is_offered(entry)).collect();
    entries.sort_by_key(|entry| !engine.0.is_preferred(entry));
    let runtimes = entries.into_iter().map(|entry| types::RuntimeInfo {
        name: entry.name.clone(),
        language: language(entry.language).into(),
        version: Some(entry.version.clone()),
    });
    types::ProviderInfo {
        name: "glovebox".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        features: types::Features::WALL_CLOCK
            | types::Features::ENTROPY
            | types::Features::TOOLS
            | types::Features::STEPPING,
        runtimes: runtimes.collect(),
    }
}
