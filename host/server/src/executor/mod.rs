//! Executors: what carries out the work of tenants, once it is admitted and parsed.
//!
//! * [`InProcess`]: the engine in this process.
//! * [`WorkerProcesses`](crate::workers::WorkerProcesses): confined child processes, each with an [`InProcess`].
//! * [`FleetExecutor`]: sessions on the nodes of a fleet, everything else by another executor.
//!
//! A [`Tenant`](crate::Tenant) queues, limits, counts and audits. An executor does none of this.

mod fleet;
mod in_process;
mod operation;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use glovebox::{CancelToken, Diagnostic, Execution, FileEntry, ToolAnswer, ToolRequest};
use glovebox_sessions::SessionId;
use tracing::Span;

use crate::{Fresh, OnOutput, ServiceError, Work};

pub use fleet::NotInFleet;
pub(crate) use fleet::{Fleet, FleetExecutor};
pub(crate) use in_process::{AddNetwork, InProcess, InProcessConfig};
pub(crate) use operation::{
    FileAnswer, FileOperation, Room, SessionAnswer, SessionCall, SessionOperation, SessionReply, join_files,
};

/// Carries out admitted work for one tenant.
#[async_trait]
pub(crate) trait Executor: fmt::Debug + Send + Sync {
    /// Returns the error if this executor does not support an operation. Called before the operation is admitted.
    fn refusal(&self, _operation: &SessionOperation) -> Option<ServiceError> {
        None
    }

    /// Returns the error if this executor cannot run a script, or cannot suspend it at its tool calls.
    fn refusal_of(&self, _work: &Work, _is_stepped: bool) -> Option<ServiceError> {
        None
    }

    /// Returns `true` if sessions are executed on other machines.
    fn has_remote_sessions(&self) -> bool {
        false
    }

    /// Returns the name of a new fork of a session.
    fn name_of_fork(&self, _of: &SessionId) -> SessionId {
        SessionId::random()
    }

    /// Runs a script and calls `done` with the result, on a thread that may block. Returns immediately.
    fn run(self: Arc<Self>, job: Job, done: Completion);

    /// Checks a source with the language's own parser, without running it.
    async fn validate(&self, fresh: Fresh) -> Result<Vec<Diagnostic>, ServiceError>;

    /// Carries out an operation on sessions. Completes even if the future is dropped after its first poll.
    async fn session(&self, call: SessionCall) -> Result<SessionReply, ServiceError>;

    /// Starts a script whose tool calls the client answers. Called on a thread that may block.
    fn start(&self, job: Job) -> Result<Box<dyn SteppedExecution>, ServiceError>;
}

/// Called exactly once with the result of a [`Job`].
pub(crate) type Completion = Box<dyn FnOnce(Result<Finished, ServiceError>) + Send>;

/// A script to run.
pub(crate) struct Job {
    pub(crate) work: Work,
    pub(crate) cancel: CancelToken,
    pub(crate) on_output: Option<OnOutput>,
    /// The parent of the spans of the execution.
    pub(crate) span: Span,
}

/// An execution whose tool calls the client answers. Dropping it cancels it.
pub(crate) trait SteppedExecution: Send {
    /// Passes on answers, and waits until the execution has finished or needs further answers, at most for `wait`.
    /// Called on a thread that may block.
    ///
    /// # Errors
    /// Fails if an answer is refused ([`ServiceError::is_about_an_answer`]). None of the answers was taken, and the
    /// execution continues to wait.
    fn advance(&self, answers: Vec<ToolAnswer>, wait: Option<Duration>) -> Result<Advanced, ServiceError>;

    /// Returns `true` if the execution has ended.
    fn has_ended(&self) -> bool;
}

/// The state of an execution after a step.
pub(crate) enum Advanced {
    /// The execution has ended, and its session is saved.
    Done(Box<Result<Finished, ServiceError>>),
    NeedsTools(Vec<ToolRequest>),
    /// The wait has expired.
    Running,
}

/// A finished execution.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) execution: Execution,
    /// The session's generation after the execution. `None` outside of sessions.
    pub(crate) generation: Option<String>,
    pub(crate) files: LeftFiles,
}

impl Finished {
    /// Wraps an execution in this process.
    pub(crate) fn here(execution: Execution, generation: Option<String>) -> Self {
        let files = LeftFiles::Here(execution.files().clone());
        Self { execution, generation, files }
    }
}

/// The files that an execution left in its workspace.
#[derive(Debug)]
pub(crate) enum LeftFiles {
    Here(glovebox::Files),
    /// In another process, until this is dropped.
    There(Box<dyn FilesThere>),
}

/// The files that an execution left in another process.
pub(crate) trait FilesThere: fmt::Debug + Send + Sync {
    fn list(&self, pattern: &str) -> Result<Vec<FileEntry>, ServiceError>;

    fn read(&self, path: &str, size_bytes: u64) -> Result<Vec<u8>, ServiceError>;
}

impl LeftFiles {
    /// Lists the files that match a pattern. Called on a thread that may block.
    pub(crate) fn list(&self, pattern: &str) -> Result<Vec<FileEntry>, ServiceError> {
        match self {
            Self::Here(files) => Ok(files.list(pattern)?),
            Self::There(files) => files.list(pattern),
        }
    }

    /// Reads a file of a known size. Called on a thread that may block.
    pub(crate) fn read(&self, path: &str, size_bytes: u64) -> Result<Vec<u8>, ServiceError> {
        match self {
            Self::Here(files) => Ok(files.read(path)?),
            Self::There(files) => files.read(path, size_bytes),
        }
    }
}
