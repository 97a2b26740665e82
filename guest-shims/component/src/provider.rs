//! The implementation of the component's exports.

use std::{cell::OnceCell, rc::Rc};

use glovebox_core::Language;

use crate::{
    Description, Runtime, Sandbox, Session, Sessions, Started, Toolbox, World,
    bindings::{
        SessionOptions,
        types::{self, SandboxError},
    },
    platform::host_toolbox,
    started::no_tools,
};

/// The provider: its runtimes, sessions and tools.
#[derive(Debug)]
pub struct Provider {
    world: World,
    runtimes: Vec<Rc<Runtime>>,
    sessions: Rc<Sessions>,
    /// The host's tools, cached on first use: the host's list never changes.
    toolbox: OnceCell<Result<Rc<Toolbox>, String>>,
    /// The reason why the weaver's description is invalid; `None` if it is valid. An invalid description provides no
    /// runtimes.
    broken: Option<String>,
}

impl Provider {
    /// Reads the weaver's description of the guests. If the description is invalid, every call that needs a runtime
    /// fails.
    #[must_use]
    pub fn new(world: World) -> Self {
        match runtimes(&world) {
            Ok(runtimes) => Self::of(world, runtimes, None),
            Err(reason) => Self::of(world, Vec::new(), Some(reason)),
        }
    }

    fn of(world: World, runtimes: Vec<Rc<Runtime>>, broken: Option<String>) -> Self {
        Self { world, runtimes, sessions: Rc::default(), toolbox: OnceCell::new(), broken }
    }

    /// Returns the interfaces to the woven module and to the component's host.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Returns the provider's description.
    #[must_use]
    pub fn info(&self) -> types::ProviderInfo {
        let World { clocks, tools, .. } = &self.world;
        let feature = |is_there, feature| if is_there { feature } else { types::Features::empty() };
        let features =
            feature(clocks.is_some(), types::Features::WALL_CLOCK) | feature(tools.is_some(), types::Features::TOOLS);
        let runtimes = self.runtimes.iter().map(|runtime| types::RuntimeInfo {
            name: runtime.name.clone(),
            language: runtime.language.into(),
            version: Some(runtime.version.clone()),
        });
        types::ProviderInfo {
            name: "glovebox".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            features,
            runtimes: runtimes.collect(),
        }
    }

    /// Returns the policy for a request without settings.
    #[must_use]
    pub fn default_policy(&self) -> types::Policy {
        self.world.default_policy().into()
    }

    /// Returns the requested runtime. Fails if the provider does not have this runtime.
    fn runtime(&self, requested: &types::Runtime) -> Result<&Rc<Runtime>, SandboxError> {
        if let Some(reason) = &self.broken {
            return Err(SandboxError::Unavailable(reason.clone()));
        }
        let of = |language| self.runtimes.iter().find(|runtime| runtime.language == language);
        let none = |language| SandboxError::UnknownRuntime(format!("this provider has no runtime for `{language}`"));
        match requested {
            types::Runtime::Python => of(Language::Python).ok_or_else(|| none("python")),
            types::Runtime::Javascript => of(Language::JavaScript).ok_or_else(|| none("javascript")),
            types::Runtime::Named(name) => {
                self.runtimes.iter().find(|runtime| runtime.is_called(name)).ok_or_else(|| {
                    SandboxError::UnknownRuntime("unknown runtime name; `info` lists the available names".into())
                })
            }
        }
    }

    /// Returns a sandbox for the requested runtime and policy.
    pub fn sandbox(&self, runtime: &types::Runtime, policy: types::Policy) -> Result<Sandbox, SandboxError> {
        let runtime = self.runtime(runtime)?;
        let policy = self.world.policy(policy)?;
        Sandbox::new(&self.world, Rc::clone(runtime), policy, self.toolbox()?)
    }

    /// Returns the host's tools, listed and checked on first use.
    fn toolbox(&self) -> Result<Rc<Toolbox>, SandboxError> {
        let toolbox = self.toolbox.get_or_init(|| host_toolbox(&self.world).map(Rc::new));
        let wrong = |reason: &String| SandboxError::Unavailable(format!("the host's tools are unavailable: {reason}"));
        toolbox.as_ref().map(Rc::clone).map_err(wrong)
    }

    /// Runs a script in a new interpreter with new files, and discards both.
    pub fn execute(
        &self,
        runtime: &types::Runtime,
        request: types::Request,
        policy: types::Policy,
    ) -> Result<types::Execution, SandboxError> {
        let sandbox = self.sandbox(runtime, policy)?;
        let task = sandbox.task(request)?;
        Ok(sandbox.execute(&task)?.to_wit())
    }

    /// Parses a source with the language's own parser, and returns the diagnostics.
    pub fn validate(
        &self,
        runtime: &types::Runtime,
        request: types::Request,
        policy: types::Policy,
    ) -> Result<Vec<types::Diagnostic>, SandboxError> {
        let sandbox = self.sandbox(runtime, policy)?;
        let task = sandbox.task(request.for_validation())?;
        Ok(sandbox.validate(&task)?.into_iter().map(Into::into).collect())
    }

    /// Starts an execution, like [`execute`](Self::execute), that the caller observes.
    pub fn start(
        &self,
        runtime: &types::Runtime,
        request: types::Request,
        policy: types::Policy,
        tools: &[types::Tool],
    ) -> Result<Started, SandboxError> {
        let sandbox = self.sandbox(runtime, policy)?;
        let task = sandbox.task(request)?;
        no_tools(tools)?;
        Ok(Started::new(Box::new(move |live| sandbox.execute(&task.observed_by(live)))))
    }
}

impl Provider {
    /// Opens a session.
    pub fn open(
        &self,
        runtime: &types::Runtime,
        policy: types::Policy,
        options: &SessionOptions,
    ) -> Result<Session, SandboxError> {
        Session::open(&self.sessions, self.sandbox(runtime, policy)?, options)
    }

    /// Creates a session from the bytes that `hibernate` returned.
    pub fn resume(
        &self,
        runtime: &types::Runtime,
        state: &[u8],
        policy: types::Policy,
        options: &SessionOptions,
    ) -> Result<Session, SandboxError> {
        Session::resume(&self.sessions, self.sandbox(runtime, policy)?, state, options)
    }
}

fn runtimes(world: &World) -> Result<Vec<Rc<Runtime>>, String> {
    let text = world.guests.describe();
    let wrong = |error| format!("cannot read the weaver's description: {error}");
    let description: Description = serde_json::from_slice(&text).map_err(wrong)?;
    let runtime = |(number, guest)| Runtime::new(number, guest, &world.libraries).map(Rc::new);
    (0..).zip(description.guests).map(runtime).collect()
}
