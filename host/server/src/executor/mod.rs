//! Executors perform tenants' work after it has been admitted and parsed.
//!
//! * [`InProcess`]: runs work with the engine in this process.
//! * [`WorkerProcesses`](crate::workers::WorkerProcesses): forwards work to confined child processes, each with an
//!   [`InProcess`].
//! * [`InMemory`]: keeps sessions only in this process's memory, and uses an [`InProcess`] for other work.
//! * [`FleetExecutor`]: uses a fleet's nodes for sessions, and another executor for other work.
//!
//! A [`Tenant`](crate::Tenant) queues, rate-limits, counts and audits work before or after an executor performs it.

mod fleet;
mod fleet_execution;
mod in_memory;
mod in_process;
mod live;
mod local_execution;
mod operation;

use std::{future::ready, pin::Pin, sync::Arc, time::Duration};

use glovebox::{CancelToken, Diagnostic, Execution, FileEntry, ToolAnswer, ToolRequest};
use glovebox_sessions::SessionId;
use tokio_util::sync::CancellationToken;
use tracing::Span;

use crate::{FreshScript, OnOutput, ServiceError, Work, byte_budget, workers::WorkerFiles};

pub use fleet::NotInFleet;
pub(crate) use fleet::{Fleet, FleetExecutor};
pub(crate) use in_memory::InMemory;
pub(crate) use in_process::{AddNetwork, InProcess};
pub(crate) use live::SessionMemory;
pub(crate) use operation::{
    FileAnswer, FileOperation, Room, SessionAnswer, SessionCall, SessionOperation, SessionReply, join_files,
};

/// The future that an executor's method returns.
///
/// The traits do not use `async_trait`, which adds bounds on lifetimes. In functions with such bounds, the compiler
/// does not cache proofs that a type is `Send`. Proving that these futures are `Send` would then take minutes.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An executor of one tenant's admitted work.
pub(crate) trait Executor: Send + Sync {
    /// Fails if this executor does not support an operation. Called before the operation is admitted.
    fn check_operation(&self, operation: &SessionOperation) -> Result<(), ServiceError> {
        match operation.has_policy() {
            true => Err(ServiceError::Unsupported(
                "`policy` is supported only for sessions in memory, as in `glovebox daemon`; remove it: the session has \
                 the token's policy",
            )),
            false => Ok(()),
        }
    }

    /// Fails if this executor does not support a script or, for a stepwise execution, cannot suspend it at tool calls.
    fn check_work(&self, _work: &Work, _is_stepped: bool) -> Result<(), ServiceError> {
        Ok(())
    }

    /// Returns `true` if sessions run on other machines.
    fn has_remote_sessions(&self) -> bool {
        false
    }

    /// Returns the number of open sessions if the executor keeps sessions only in memory.
    fn open_sessions(&self) -> Option<usize> {
        None
    }

    /// Ends sessions that are only in memory and have not been used for `idle`.
    fn end_idle(&self, _idle: Duration) {}

    /// Returns the default name for a fork of a session.
    fn name_of_fork(&self, _of: &SessionId) -> SessionId {
        SessionId::random()
    }

    /// Starts a script and returns immediately. Calls `done` with the result. If the result is long or has files in
    /// another process, `done` runs on a blocking thread; otherwise it may run on any thread.
    fn run(self: Arc<Self>, job: Job, done: Completion);

    /// Checks a script's syntax with the parser of its language, without running it.
    fn validate(&self, fresh: FreshScript) -> BoxFuture<'_, Result<ValidationResult, ServiceError>>;

    /// Performs a session operation. The caller must poll the future to completion, because dropping it can leave the
    /// operation incomplete.
    fn session(&self, call: SessionCall) -> BoxFuture<'_, Result<SessionReply, ServiceError>>;

    /// Starts a script whose tool calls the client answers. If the script cannot be run, this method or the first
    /// [`SteppedExecution::advance`] fails.
    fn start(&self, job: Job) -> BoxFuture<'_, Result<Box<dyn SteppedExecution>, ServiceError>>;
}

/// The diagnostics of a script, and the memory reserved for them if a worker sent them.
pub(crate) type ValidationResult = (Vec<Diagnostic>, Option<byte_budget::Room>);

/// Called with the result of a [`Job`], or dropped without a call if the job panicked.
pub(crate) type Completion = Box<dyn FnOnce(Result<FinishedJob, ServiceError>) + Send>;

/// A script to run.
pub(crate) struct Job {
    pub(crate) work: Work,
    pub(crate) cancel: CancelToken,
    pub(crate) on_output: Option<OnOutput>,
    /// The parent span of the execution's spans.
    pub(crate) span: Span,
}

/// An execution whose tool calls the client answers. Dropping it cancels the execution.
pub(crate) trait SteppedExecution: Send + Sync {
    /// Passes answers to the execution. Waits until it has finished or needs further answers. Returns a result only
    /// once.
    ///
    /// # Errors
    /// Fails if an answer is invalid ([`ServiceError::is_answer_error`]). In that case, no answer was used, and the
    /// execution stays suspended. It also stays suspended after [`ServiceError::StepUnanswered`]: the caller can retry
    /// the step. After any other error, such as the death of a worker, the caller must drop the execution.
    fn advance(&self, answers: Vec<ToolAnswer>) -> BoxFuture<'_, Result<ExecutorStep, ServiceError>>;

    /// Returns the size in bytes of the session's state before the execution, if the executor keeps sessions only in
    /// memory. Otherwise, the description of the session contains the size of its stored state.
    fn state_before_bytes(&self) -> BoxFuture<'_, Result<Option<u64>, ServiceError>> {
        Box::pin(ready(Ok(None)))
    }

    /// Refuses the resumption of an execution. Once the execution has ended, its session has the state from before the
    /// resumption. Has no effect in a fleet, because an execution that waits there has not changed its session.
    fn refuse_resumption(&self) {}

    /// Returns `true` if the execution was resumed, and has ended before it had repeated its earlier steps. Its session
    /// then has the state from before the resumption, and the execution can be resumed again. Always `false` in a fleet.
    fn has_only_repeated(&self) -> bool {
        false
    }

    /// Turns the execution into sealed bytes while it waits for answers
    /// ([`Script::is_suspendable`](crate::Script::is_suspendable)). The execution then ends, and
    /// [`advance`](Self::advance) returns a result with the outcome `cancelled`. The caller must reserve memory for
    /// `max_bytes`. An executor in this process stays below them.
    ///
    /// # Errors
    /// Fails with [`ServiceError::NotSuspendable`] if the execution is not suspendable, or cannot be suspended in its
    /// current state. The execution then continues to wait. Fails with [`ServiceError::WorkerDied`] if a worker sends
    /// more than `max_bytes`.
    fn suspend(&self, max_bytes: usize) -> BoxFuture<'_, Result<Vec<u8>, ServiceError>>;

    /// Returns a token that is cancelled when an execution ends after its first step. [`advance`](Self::advance) then
    /// returns the result without waiting for the script.
    fn end_token(&self) -> CancellationToken;
}

/// The reason why an execution without [`Script::suspendable`](crate::Script::suspendable) cannot be suspended.
const NOT_STARTED_SUSPENDABLE: &str = "it was started without `suspendable`; set it to `true` in the request";

/// The error message for suspendable and resumed executions that are not stepwise.
const NOT_STEPPED: &str = "only executions whose tool calls the client answers can be suspended or resumed";

/// The state of an execution after a step.
pub(crate) enum ExecutorStep {
    /// The execution has finished. If its session had to be saved but could not be, the result is an error.
    Done(Box<Result<FinishedJob, ServiceError>>),
    NeedsTools {
        calls: Vec<ToolRequest>,
        /// The memory reserved for the calls if a worker sent them. Must be held until memory is reserved for the
        /// response.
        reply_room: Option<byte_budget::Room>,
    },
}

#[derive(Debug)]
pub(crate) struct FinishedJob {
    pub(crate) execution: Execution,
    /// The session's generation after the execution. `None` outside a session.
    pub(crate) generation: Option<String>,
    pub(crate) files: ExecutionFiles,
    /// The memory reserved for the execution if a worker sent it. Must be held until memory is reserved for the
    /// response.
    pub(crate) reply_room: Option<byte_budget::Room>,
}

impl FinishedJob {
    /// Wraps the result of an execution in this process.
    pub(crate) fn local(execution: Execution, generation: Option<String>) -> Self {
        let files = ExecutionFiles::Here(execution.files().clone());
        Self { execution, generation, files, reply_room: None }
    }
}

/// Workspace files after an execution.
#[derive(Debug)]
pub(crate) enum ExecutionFiles {
    Here(glovebox::Files),
    /// The files are in another process, which keeps them until this value is dropped.
    There(WorkerFiles),
}

/// A list of files, and the memory reserved for it if a worker sent it.
pub(crate) type FileListing = (Vec<FileEntry>, Option<byte_budget::Room>);

impl ExecutionFiles {
    /// Lists the files that match a pattern. Must be called on a blocking thread.
    pub(crate) fn list(&self, pattern: &str) -> Result<FileListing, ServiceError> {
        match self {
            Self::Here(files) => Ok((files.list(pattern)?, None)),
            Self::There(files) => files.list(pattern),
        }
    }

    /// Reads a file. Requires its size, as returned by `list`. Must be called on a blocking thread.
    pub(crate) fn read(&self, path: &str, size_bytes: u64) -> Result<Vec<u8>, ServiceError> {
        match self {
            Self::Here(files) => Ok(files.read(path)?),
            Self::There(files) => files.read(path, size_bytes),
        }
    }
}
