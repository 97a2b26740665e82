//! Sandboxes and sessions. A sandbox is a runtime and a policy.

use crate::{
    Blob, CheckpointInfo, Diagnostic, Error, Execution, Files, GuestValue, IfExists, InputFile, Policy, ProviderInfo,
    Request, Runtime, SessionInfo, SessionOptions, Started, Tool, bindings::glovebox::sandbox::sandbox as raw,
};

/// Describes the provider and its capabilities. Every call returns the same description.
#[must_use]
pub fn info() -> ProviderInfo {
    raw::info()
}

/// Returns the default policy, with a value in every field.
#[must_use]
pub fn default_policy() -> Policy {
    raw::default_policy()
}

/// A runtime and the policy with which scripts run.
///
/// A sandbox holds no resources, and can be created at no cost.
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
    pub(crate) runtime: Runtime,
    pub(crate) policy: Policy,
}

impl Sandbox {
    /// Creates a sandbox for a runtime, with the default policy.
    #[must_use]
    pub fn new(runtime: Runtime) -> Self {
        Self { runtime, policy: Policy::default() }
    }

    /// Creates a sandbox for Python with the provider's default runtime.
    #[must_use]
    pub fn python() -> Self {
        Self::new(Runtime::Python)
    }

    /// Creates a sandbox for JavaScript with the provider's default runtime.
    #[must_use]
    pub fn javascript() -> Self {
        Self::new(Runtime::Javascript)
    }

    /// Creates a sandbox for the runtime with this name. [`info`] lists all names.
    #[must_use]
    pub fn named(runtime: impl Into<String>) -> Self {
        Self::new(Runtime::Named(runtime.into()))
    }

    /// Sets the policy with which scripts run. Default: [`default_policy`].
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Runs a script in a new interpreter with new files, and discards both.
    ///
    /// # Errors
    /// [`Error::UnknownRuntime`], [`Error::InvalidPolicy`], [`Error::InvalidArgument`], [`Error::SourceTooLarge`],
    /// [`Error::StdinTooLarge`]. [`Error::Variable`] if the guest cannot store the context. [`Error::Unsupported`] if
    /// the provider cannot supply the requested clock or entropy source.
    pub fn execute(&self, request: impl Into<Request>) -> Result<Execution, Error> {
        Ok(raw::execute(&self.runtime, &request.into(), &self.policy)?)
    }

    /// Parses a source with the language's own parser, without executing it. Returns the diagnostics, or an empty list
    /// if the source is valid.
    ///
    /// # Errors
    /// Same as [`execute`](Self::execute).
    pub fn validate(&self, request: impl Into<Request>) -> Result<Vec<Diagnostic>, Error> {
        Ok(raw::validate(&self.runtime, &request.into(), &self.policy)?)
    }

    /// Starts an execution that the caller steps through. The script can call `tools` in addition to the provider's own
    /// tools.
    ///
    /// # Errors
    /// Same as [`execute`](Self::execute). Also [`Error::Unsupported`] if there are tools and the provider cannot
    /// suspend a script, and [`Error::InvalidArgument`] for an invalid tool or a duplicate name.
    pub fn start(&self, request: impl Into<Request>, tools: &[Tool]) -> Result<Started, Error> {
        Ok(Started { raw: raw::start(&self.runtime, &request.into(), &self.policy, tools)? })
    }

    /// Starts an execution like [`start`](Self::start). [`Started::suspend`] can serialize the execution.
    ///
    /// # Errors
    /// Same as [`start`](Self::start). Also [`Error::Unsupported`] if the provider cannot suspend a script, even without
    /// tools.
    pub fn start_suspendable(&self, request: impl Into<Request>, tools: &[Tool]) -> Result<Started, Error> {
        Ok(Started { raw: raw::start_suspendable(&self.runtime, &request.into(), &self.policy, tools)? })
    }

    /// Continues an execution from the result of [`Started::suspend`]. The script repeats its earlier steps without
    /// calling tools, and then waits for the answers that were missing. Pass the same `files` as in the first request.
    /// The bytes do not set limits or grant permissions. A deadline in the first request does not apply.
    ///
    /// # Errors
    /// Same as [`start_suspendable`](Self::start_suspendable). Also [`Error::NotResumable`] if the bytes are damaged or
    /// belong to another runtime. [`Started::step`] returns this error if the script behaves differently than in the
    /// first run.
    pub fn resume_suspended(&self, suspended: &Blob, files: &[InputFile], tools: &[Tool]) -> Result<Started, Error> {
        Ok(Started { raw: raw::resume_suspended(&self.runtime, &suspended.raw, files, &self.policy, tools)? })
    }

    /// Opens a session: an interpreter that persists between executions.
    ///
    /// # Errors
    /// [`Error::UnknownRuntime`], [`Error::InvalidPolicy`], [`Error::TooManySessions`]. [`Error::Unsupported`] if the
    /// provider cannot supply the requested clock or entropy source.
    pub fn session(&self) -> Result<Session, Error> {
        self.open_session(&SessionOptions::default())
    }

    /// Opens a session with a context or with tools.
    ///
    /// # Errors
    /// Same as [`session`](Self::session). Also [`Error::InvalidArgument`] if the context is not JSON or a tool is
    /// invalid. [`Error::StdinTooLarge`] if the context exceeds `limits.stdin-bytes`. [`Error::Variable`] if the guest
    /// cannot store the context. [`Error::Unsupported`] if there are tools and the provider cannot suspend a script.
    pub fn open_session(&self, options: &SessionOptions) -> Result<Session, Error> {
        Ok(Session { raw: raw::Session::open(&self.runtime, &self.policy, options)? })
    }

    /// Restores a session from the result of [`Session::hibernate`]. The bytes do not change limits or grant
    /// permissions.
    ///
    /// # Errors
    /// Same as [`open_session`](Self::open_session). Also [`Error::NotResumable`] if the bytes are not a session that
    /// this provider, runtime and policy can resume.
    pub fn resume(&self, state: &Blob, options: &SessionOptions) -> Result<Session, Error> {
        Ok(Session { raw: raw::Session::resume(&self.runtime, &state.raw, &self.policy, options)? })
    }
}

/// An interpreter that persists between executions, with its variables, functions, imports and files.
///
/// The effects of a script that raises remain, as in a notebook. If a limit or a trap unwinds a script, the session is
/// rolled back to its last checkpoint, and [`Execution::rolled_back_to`] reports the rollback. Dropping the session
/// drops the interpreter without running its exit handlers. [`close`](Self::close) runs the handlers.
///
/// After the session has ended, every method except [`id`](Self::id), [`info`](Self::info) and [`close`](Self::close)
/// returns [`Error::SessionEnded`]. While an execution from [`start`](Self::start) has not ended, every method except
/// `id` and `info` returns [`Error::SessionBusy`].
///
/// ```no_run
/// use glovebox_guest::Sandbox;
///
/// # fn main() -> Result<(), glovebox_guest::Error> {
/// let session = Sandbox::python().session()?;
/// session.execute("total = 40")?;
/// let other = session.fork()?;
/// session.execute("total += 2")?;
/// assert_eq!(session.get_variable("total")?.map(|value| value.repr).as_deref(), Some("42"));
/// assert_eq!(other.get_variable("total")?.map(|value| value.repr).as_deref(), Some("40"));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Session {
    pub(crate) raw: raw::Session,
}

impl Session {
    /// Returns the session's ID, which the provider chooses. The ID is not a secret.
    #[must_use]
    pub fn id(&self) -> String {
        self.raw.id()
    }

    /// Describes the session's state and usage.
    #[must_use]
    pub fn info(&self) -> SessionInfo {
        self.raw.info()
    }

    /// Runs a script in the session's interpreter.
    ///
    /// # Errors
    /// [`Error::SessionEnded`], [`Error::SessionBusy`], [`Error::InvalidArgument`], [`Error::SourceTooLarge`],
    /// [`Error::StdinTooLarge`].
    pub fn execute(&self, request: impl Into<Request>) -> Result<Execution, Error> {
        Ok(self.raw.execute(&request.into())?)
    }

    /// Starts an execution in the session that the caller steps through.
    ///
    /// # Errors
    /// Same as [`execute`](Self::execute).
    pub fn start(&self, request: impl Into<Request>) -> Result<Started, Error> {
        Ok(Started { raw: self.raw.start(&request.into())? })
    }

    /// Reads a global variable. Returns `None` if the variable does not exist.
    ///
    /// # Errors
    /// [`Error::Variable`], [`Error::SessionEnded`], [`Error::SessionBusy`].
    pub fn get_variable(&self, name: &str) -> Result<Option<GuestValue>, Error> {
        Ok(self.raw.get_variable(name)?)
    }

    /// Sets a global variable from JSON text.
    ///
    /// # Errors
    /// Same as [`get_variable`](Self::get_variable). Also [`Error::InvalidArgument`] if the name is invalid or the text
    /// is not JSON, and [`Error::StdinTooLarge`] if the text exceeds `limits.stdin-bytes`.
    pub fn set_variable(&self, name: &str, json: &str) -> Result<(), Error> {
        Ok(self.raw.set_variable(name, json)?)
    }

    /// Returns a snapshot of the current files.
    ///
    /// # Errors
    /// [`Error::SessionEnded`], [`Error::SessionBusy`].
    pub fn files(&self) -> Result<Files, Error> {
        Ok(Files { raw: self.raw.files()? })
    }

    /// Writes a file and creates its missing ancestor directories.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::SessionEnded`], [`Error::SessionBusy`].
    pub fn write_file(&self, path: &str, bytes: impl AsRef<[u8]>, if_exists: IfExists) -> Result<(), Error> {
        Ok(self.raw.write_file(path, bytes.as_ref(), if_exists)?)
    }

    /// Like [`write_file`](Self::write_file), but for contents that are too large for a list (more than a few MiB).
    ///
    /// # Errors
    /// Same as [`write_file`](Self::write_file).
    pub fn write_file_from(&self, path: &str, contents: &Blob, if_exists: IfExists) -> Result<(), Error> {
        Ok(self.raw.write_file_from(path, &contents.raw, if_exists)?)
    }

    /// Renames a file, directory or link. The parent directory of `to` must exist.
    ///
    /// # Errors
    /// Same as [`write_file`](Self::write_file).
    pub fn rename_file(&self, from: &str, to: &str, if_exists: IfExists) -> Result<(), Error> {
        Ok(self.raw.rename_file(from, to, if_exists)?)
    }

    /// Deletes a file, a link or an empty directory.
    ///
    /// # Errors
    /// Same as [`write_file`](Self::write_file).
    pub fn delete_file(&self, path: &str) -> Result<(), Error> {
        Ok(self.raw.delete_file(path, false)?)
    }

    /// Deletes a file, a link, or a directory and everything below it.
    ///
    /// # Errors
    /// Same as [`write_file`](Self::write_file).
    pub fn delete_all(&self, path: &str) -> Result<(), Error> {
        Ok(self.raw.delete_file(path, true)?)
    }

    /// Creates a second session with the same state, but with different random numbers, except from generators that a
    /// script has seeded. Later changes in either session do not affect the other session.
    ///
    /// # Errors
    /// [`Error::TooManySessions`], [`Error::SessionEnded`], [`Error::SessionBusy`].
    pub fn fork(&self) -> Result<Self, Error> {
        Ok(Self { raw: self.raw.fork()? })
    }

    /// Takes a checkpoint for [`undo_to`](Self::undo_to), and returns its ID. The policy limits the number of retained
    /// checkpoints.
    ///
    /// # Errors
    /// [`Error::TooManySessions`], [`Error::SessionEnded`], [`Error::SessionBusy`].
    pub fn checkpoint(&self) -> Result<u64, Error> {
        Ok(self.raw.checkpoint()?)
    }

    /// Returns the retained checkpoints, oldest first.
    ///
    /// # Errors
    /// [`Error::SessionEnded`], [`Error::SessionBusy`].
    pub fn checkpoints(&self) -> Result<Vec<CheckpointInfo>, Error> {
        Ok(self.raw.checkpoints()?)
    }

    /// Restores the latest checkpoint that differs from the current state, and returns its ID.
    ///
    /// # Errors
    /// [`Error::NoCheckpoint`], [`Error::SessionEnded`], [`Error::SessionBusy`].
    pub fn undo(&self) -> Result<u64, Error> {
        Ok(self.raw.undo()?)
    }

    /// Restores a checkpoint and discards all later checkpoints.
    ///
    /// # Errors
    /// Same as [`undo`](Self::undo).
    pub fn undo_to(&self, id: u64) -> Result<(), Error> {
        Ok(self.raw.undo_to(id)?)
    }

    /// Serializes the session for [`Sandbox::resume`](crate::Sandbox::resume), in any provider with the same runtime.
    /// The session continues. The bytes do not contain checkpoints or tools.
    ///
    /// # Errors
    /// [`Error::SessionEnded`], [`Error::SessionBusy`].
    pub fn hibernate(&self) -> Result<Blob, Error> {
        Ok(Blob { raw: self.raw.hibernate()? })
    }

    /// Runs the interpreter's exit handlers, within the limits of one execution, and ends the session. Does nothing if
    /// the session has already ended.
    ///
    /// # Errors
    /// [`Error::SessionBusy`].
    pub fn close(&self) -> Result<(), Error> {
        Ok(self.raw.close()?)
    }
}

/// Returns options without a context and without tools.
impl Default for SessionOptions {
    fn default() -> Self {
        Self { context: None, tools: None }
    }
}

impl SessionOptions {
    /// Sets the global variable `context` from JSON text. Default: the variable does not exist.
    #[must_use]
    pub fn context(mut self, json: impl Into<String>) -> Self {
        self.context = Some(json.into());
        self
    }

    /// Adds a tool that the component implements, for executions from [`Session::start`]. Default: none.
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.get_or_insert_default().push(tool);
        self
    }
}
