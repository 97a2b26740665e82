//! A sandbox: a runtime and a policy, ready to execute.
//!
//! * [`builder`]: creates sandboxes.
//! * [`execute`]: runs and validates scripts in them.

mod builder;
mod execute;

use std::{fmt, sync::Arc};

use crate::{
    Engine, Language, Policy, Tool, ToolDefinitionError, files::workspace::Workspace, load::runtime::Runtime,
    tools::Toolbox,
};

pub use builder::SandboxBuilder;

/// A runtime and a policy. Every [`execute`](Self::execute) uses a new interpreter with new files: no execution sees
/// the state of another. Cheap to clone, and any number of threads may execute at once.
#[derive(Clone)]
pub struct Sandbox(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) engine: Engine,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) policy: Policy,
    pub(crate) workspace: Workspace,
    pub(crate) toolbox: Arc<Toolbox>,
    /// A share of a quota, released with the sandbox.
    keeps: Option<Held>,
}

/// A value that is held and never read.
pub(crate) type Held = Arc<dyn fmt::Debug + Send + Sync>;

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox")
            .field("runtime", &self.0.runtime.name)
            .field("policy", &self.0.policy)
            .finish_non_exhaustive()
    }
}

impl Sandbox {
    /// Returns a copy of this sandbox with more tools. Does not load or open anything again.
    ///
    /// ```no_run
    /// # use glovebox::{Engine, EngineConfig, Sandbox, Tool};
    /// # let sandbox = Sandbox::builder(&Engine::new(EngineConfig::default())?).build()?;
    /// let asking = sandbox.with_tools(&[Tool::new("ask", "Asks the user.").stepped()])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails if a tool is invalid, or has the name of another.
    pub fn with_tools(&self, tools: &[Tool]) -> Result<Self, ToolDefinitionError> {
        Ok(self.with_toolbox(self.0.toolbox.with(tools)?))
    }

    /// Returns a copy of this sandbox with these tools instead of its own.
    pub(crate) fn with_toolbox(&self, toolbox: Toolbox) -> Self {
        let Inner { engine, runtime, policy, workspace, toolbox: _, keeps } = &*self.0;
        Self(Arc::new(Inner {
            engine: engine.clone(),
            runtime: Arc::clone(runtime),
            policy: policy.clone(),
            workspace: workspace.clone(),
            toolbox: Arc::new(toolbox),
            keeps: keeps.clone(),
        }))
    }

    /// Returns the language of the scripts.
    #[must_use]
    pub fn language(&self) -> Language {
        self.0.runtime.language
    }

    /// Returns the runtime's name in the manifest, or the path of a custom binary.
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

    /// Returns the identity of the prepared image: the SHA-256 of its module, in hexadecimal. `None` for a plain
    /// command.
    #[must_use]
    pub fn image_sha256(&self) -> Option<&str> {
        self.0.runtime.image().map(|image| &*image.identity)
    }

    /// Returns the policy of its executions.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.0.policy
    }
}
