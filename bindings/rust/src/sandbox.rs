//! A language and a policy.

use crate::{
    Blob, Diagnostic, Error, Execution, Policy, ProviderInfo, Request, Runtime, Session, SessionOptions, Started, Tool,
    bindings::glovebox::sandbox::sandbox as raw,
};

/// What the provider is, and what it can do. Always the same.
#[must_use]
pub fn info() -> ProviderInfo {
    raw::info()
}

/// The policy of an execution that asks for none, everything spelled out.
#[must_use]
pub fn default_policy() -> Policy {
    raw::default_policy()
}

/// What runs scripts, and what they may do.
///
/// It is only a description: nothing is held for it, and making one costs nothing.
///
/// ```no_run
/// use glovebox_guest::{Limits, Policy, Request, Sandbox};
///
/// # fn main() -> Result<(), glovebox_guest::Error> {
/// let sandbox = Sandbox::javascript().policy(Policy::default().limits(Limits::default().fuel(50_000_000)));
/// let run = sandbox.execute(Request::new("console.log(std.in.readAsString())").stdin("hello"))?;
/// println!("{}: {}", run.outcome, run.stdout.text());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    runtime: Runtime,
    policy: Policy,
}

impl Sandbox {
    /// Scripts of this runtime, under the default policy.
    #[must_use]
    pub fn new(runtime: Runtime) -> Self {
        Self { runtime, policy: Policy::default() }
    }

    /// Python, by the provider's default runtime.
    #[must_use]
    pub fn python() -> Self {
        Self::new(Runtime::Python)
    }

    /// JavaScript, by the provider's default runtime.
    #[must_use]
    pub fn javascript() -> Self {
        Self::new(Runtime::Javascript)
    }

    /// The runtime of this name, one that [`info`] lists.
    #[must_use]
    pub fn named(runtime: impl Into<String>) -> Self {
        Self::new(Runtime::Named(runtime.into()))
    }

    /// What scripts may do. Default: [`default_policy`].
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Runs a script in a new interpreter with new files, and drops both.
    ///
    /// # Errors
    /// [`Error::UnknownRuntime`], [`Error::InvalidPolicy`], [`Error::InvalidArgument`], [`Error::SourceTooLarge`],
    /// [`Error::StdinTooLarge`]; [`Error::Unsupported`] for a clock or entropy that the provider has not.
    pub fn execute(&self, request: impl Into<Request>) -> Result<Execution, Error> {
        Ok(raw::execute(&self.runtime, &request.into(), &self.policy)?)
    }

    /// What the language's own parser says about a source; nothing when it is well-formed. Executes nothing of it.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub fn validate(&self, request: impl Into<Request>) -> Result<Vec<Diagnostic>, Error> {
        Ok(raw::validate(&self.runtime, &request.into(), &self.policy)?)
    }

    /// Begins what [`execute`](Self::execute) does, to be stepped through. The tools, which may be none, are there for the script
    /// beside the provider's own.
    ///
    /// # Errors
    /// As [`execute`](Self::execute); [`Error::Unsupported`] for tools where the provider cannot suspend a script;
    /// [`Error::InvalidArgument`] for a tool that cannot be, or that has the name of another.
    pub fn start(&self, request: impl Into<Request>, tools: &[Tool]) -> Result<Started, Error> {
        Ok(Started { raw: raw::start(&self.runtime, &request.into(), &self.policy, tools)? })
    }

    /// Opens a session: an interpreter that is kept.
    ///
    /// # Errors
    /// [`Error::UnknownRuntime`], [`Error::InvalidPolicy`], [`Error::TooManySessions`]; [`Error::Unsupported`] for a clock or entropy that
    /// the provider has not.
    pub fn session(&self) -> Result<Session, Error> {
        self.open_session(&SessionOptions::default())
    }

    /// Opens a session with a context or with tools.
    ///
    /// # Errors
    /// As [`session`](Self::session); [`Error::InvalidArgument`] for a context that is no JSON and for a tool that cannot be,
    /// [`Error::StdinTooLarge`] for a context over `limits.stdin-bytes`, [`Error::Variable`] for one that the guest cannot take;
    /// [`Error::Unsupported`] for tools where the provider cannot suspend a script.
    pub fn open_session(&self, options: &SessionOptions) -> Result<Session, Error> {
        Ok(Session { raw: raw::Session::open(&self.runtime, &self.policy, options)? })
    }

    /// Makes a session of what [`Session::hibernate`] gave. The bytes set no limit and give no right.
    ///
    /// # Errors
    /// As [`open_session`](Self::open_session); [`Error::NotResumable`].
    pub fn resume(&self, state: &Blob, options: &SessionOptions) -> Result<Session, Error> {
        Ok(Session { raw: raw::Session::resume(&self.runtime, &state.raw, &self.policy, options)? })
    }
}
