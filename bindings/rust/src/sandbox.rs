//! Sandboxes: a language and a policy.

use crate::{
    Blob, Diagnostic, Error, Execution, Policy, ProviderInfo, Request, Runtime, Session, SessionOptions, Started, Tool,
    bindings::glovebox::sandbox::sandbox as raw,
};

/// Describes the provider and its capabilities. The result never changes.
#[must_use]
pub fn info() -> ProviderInfo {
    raw::info()
}

/// Returns the default policy, with a value in every field.
#[must_use]
pub fn default_policy() -> Policy {
    raw::default_policy()
}

/// A runtime and a policy for scripts.
///
/// A sandbox is only a description: it holds no resources, and creating one costs nothing.
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
    /// Creates a sandbox for a runtime, under the default policy.
    #[must_use]
    pub fn new(runtime: Runtime) -> Self {
        Self { runtime, policy: Policy::default() }
    }

    /// Creates a sandbox for Python, on the provider's default runtime.
    #[must_use]
    pub fn python() -> Self {
        Self::new(Runtime::Python)
    }

    /// Creates a sandbox for JavaScript, on the provider's default runtime.
    #[must_use]
    pub fn javascript() -> Self {
        Self::new(Runtime::Javascript)
    }

    /// Creates a sandbox for a runtime by its name, as listed by [`info`].
    #[must_use]
    pub fn named(runtime: impl Into<String>) -> Self {
        Self::new(Runtime::Named(runtime.into()))
    }

    /// Sets the policy of scripts. Default: [`default_policy`].
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Runs a script in a new interpreter with new files, and drops both.
    ///
    /// # Errors
    /// [`Error::UnknownRuntime`], [`Error::InvalidPolicy`], [`Error::InvalidArgument`], [`Error::SourceTooLarge`],
    /// [`Error::StdinTooLarge`]; [`Error::Unsupported`] if the provider cannot supply the requested clock or entropy
    /// source.
    pub fn execute(&self, request: impl Into<Request>) -> Result<Execution, Error> {
        Ok(raw::execute(&self.runtime, &request.into(), &self.policy)?)
    }

    /// Parses a source with the language's own parser and returns its messages: an empty list if the source is valid.
    /// Executes nothing.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub fn validate(&self, request: impl Into<Request>) -> Result<Vec<Diagnostic>, Error> {
        Ok(raw::validate(&self.runtime, &request.into(), &self.policy)?)
    }

    /// Starts an execution like [`execute`](Self::execute), to be stepped through. The script can call the given tools,
    /// if any, in addition to the provider's own.
    ///
    /// # Errors
    /// As [`execute`](Self::execute); [`Error::Unsupported`] for tools if the provider cannot suspend a script;
    /// [`Error::InvalidArgument`] for an invalid tool or a duplicate name.
    pub fn start(&self, request: impl Into<Request>, tools: &[Tool]) -> Result<Started, Error> {
        Ok(Started { raw: raw::start(&self.runtime, &request.into(), &self.policy, tools)? })
    }

    /// Opens a session: an interpreter that persists between executions.
    ///
    /// # Errors
    /// [`Error::UnknownRuntime`], [`Error::InvalidPolicy`], [`Error::TooManySessions`]; [`Error::Unsupported`] if the
    /// provider cannot supply the requested clock or entropy source.
    pub fn session(&self) -> Result<Session, Error> {
        self.open_session(&SessionOptions::default())
    }

    /// Opens a session with a context or with tools.
    ///
    /// # Errors
    /// As [`session`](Self::session); [`Error::InvalidArgument`] for a context that is not JSON and for an invalid
    /// tool; [`Error::StdinTooLarge`] for a context over `limits.stdin-bytes`; [`Error::Variable`] for a context that
    /// the guest cannot hold; [`Error::Unsupported`] for tools if the provider cannot suspend a script.
    pub fn open_session(&self, options: &SessionOptions) -> Result<Session, Error> {
        Ok(Session { raw: raw::Session::open(&self.runtime, &self.policy, options)? })
    }

    /// Creates a session from the result of [`Session::hibernate`]. The bytes set no limit and grant nothing.
    ///
    /// # Errors
    /// As [`open_session`](Self::open_session); [`Error::NotResumable`].
    pub fn resume(&self, state: &Blob, options: &SessionOptions) -> Result<Session, Error> {
        Ok(Session { raw: raw::Session::resume(&self.runtime, &state.raw, &self.policy, options)? })
    }
}
