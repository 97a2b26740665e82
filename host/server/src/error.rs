//! Errors from the service.

use std::time::Duration;

use glovebox::{
    AdvanceError, BuildError, ExecuteError, FileError, FilesError, SuspendedBytesError, ToolDefinitionError, Untrusted,
    VfsError, escaped, with_causes,
};
use glovebox_fleet::FleetError;
use glovebox_sessions::{SessionIdError, SessionsError};

use crate::{
    GrantError, NotInFleet, RelayedError, TypeCheckError,
    error_codes::{
        BUSY_EXECUTION, CANCELLED, Code, GENERATION, INTERNAL, INVALID, NOT_FOUND, NOT_IN_FLEET, NOT_SUSPENDABLE,
        POLICY, RATE, TOO_LARGE, TOO_MANY, UNAVAILABLE, UNKNOWN_RUNTIME, UNSUPPORTED, WORKER_DIED, of_advance,
        of_build, of_execute, of_files, of_fleet, of_sessions,
    },
    text::message,
};

/// A failed request. An exception raised by a script is not an error: it is part of the
/// [`Execution`](glovebox::Execution).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The requested policy is invalid or exceeds the tenant's granted policy.
    #[error(transparent)]
    Policy(#[from] GrantError),
    /// A sandbox could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A script could not be executed.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// A session operation failed.
    #[error(transparent)]
    Sessions(#[from] SessionsError),
    /// A file operation failed.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// A tool definition is invalid.
    #[error(transparent)]
    Tool(#[from] ToolDefinitionError),
    /// A session ID is invalid.
    #[error(transparent)]
    SessionId(#[from] SessionIdError),
    /// The service does not serve the requested runtime.
    #[error("this server does not offer the runtime `{wanted}`; use one of {served}", wanted = escaped(.wanted))]
    UnknownRuntime {
        /// The requested runtime or language.
        wanted: String,
        /// The served runtimes in backticks, separated by commas.
        served: String,
    },
    /// The request is invalid in a way that no other error describes.
    #[error("{0}")]
    Invalid(String),
    /// Too many executions are waiting ([`Admission::waiting`](crate::Admission::waiting)).
    #[error("the server's queue is full (maximum: {waiting}); try again in {} s", retry_after.as_secs())]
    QueueFull {
        /// The number of waiting executions.
        waiting: usize,
        /// The time to wait before a retry.
        retry_after: Duration,
    },
    /// The request waited longer than [`Admission::wait_ms`](crate::Admission::wait_ms) and was not started.
    #[error("the request could not start within {} ms; try again later", waited.as_millis())]
    NoTurn {
        /// The time that the request has waited.
        waited: Duration,
    },
    /// The tenant exceeded its number of executions per minute.
    #[error("too many executions per minute: the limit is {per_minute}; try again in {} s", retry_after.as_secs().max(1))]
    Rate {
        /// The limit, in executions per minute.
        per_minute: u32,
        /// The time to wait before a retry.
        retry_after: Duration,
    },
    /// The tenant has reached one of its quotas.
    #[error("too many {what}: the limit is {max}; {remedy}")]
    TooMany {
        /// The objects that the quota limits, as a plural noun.
        what: &'static str,
        /// The tenant's quota.
        max: usize,
        /// An action that frees a part of the quota.
        remedy: &'static str,
    },
    /// The session's generation differs from the expected one. The operation was not started.
    #[error(
        "the session's generation is `{has}`, not `{expected}`: another request has changed it; read its state and try again",
        has = escaped(.has), expected = escaped(.expected)
    )]
    Generation {
        /// The generation that the request named.
        expected: String,
        /// The session's current generation.
        has: String,
    },
    /// A suspended execution could not be resumed.
    #[error(transparent)]
    Advance(#[from] AdvanceError),
    /// The execution cannot be turned into bytes now. It still waits for answers, unless it has ended.
    #[error("cannot suspend the execution: {0}")]
    NotSuspendable(String),
    /// The bytes are not a suspended execution, or belong to another tenant.
    #[error(transparent)]
    SuspendedBytes(#[from] SuspendedBytesError),
    /// The execution does not exist, or it is not suspended and cannot be cancelled by its ID.
    #[error(
        "execution `{execution}` is not suspended: it may have ended, timed out, or been resumed or cancelled; start a new one",
        execution = escaped(.execution)
    )]
    NoExecution {
        /// The requested ID.
        execution: String,
    },
    /// The stored suspended execution does not exist. Answers were not passed to its script.
    #[error(
        "the suspended execution `{id}` does not exist: it was resumed or deleted, or it has expired; `GET /v1/suspended` lists the others",
        id = escaped(.id)
    )]
    NoStoredExecution {
        /// The requested ID.
        id: String,
    },
    /// The execution is being resumed or turned into bytes by another request.
    #[error("another request is resuming or suspending execution `{execution}`; try again after it has returned", execution = escaped(.execution))]
    ExecutionBusy {
        /// The ID of the execution.
        execution: String,
    },
    /// The execution was cancelled before it started.
    #[error("the execution was cancelled before it started; nothing was executed")]
    Cancelled,
    /// The limit on suspended executions is reached ([`SuspensionLimits::count`](crate::SuspensionLimits::count)).
    #[error(
        "too many suspended executions and unread results: the limit is {max}; cancel an execution or read a result, or try again later"
    )]
    TooManySuspended {
        /// The maximum number of suspended executions.
        max: usize,
    },
    /// The result of a step of an execution in a fleet is unknown or has no room in memory. The execution still waits:
    /// retrying the step returns its result without running anything twice.
    #[error(
        "the result of this step is not available yet; send the same answers again; the script will not \
         receive them twice"
    )]
    StepUnanswered,
    /// The result of a step of an execution in a fleet is unknown, and the execution has ended. The step may have run.
    #[error(
        "the fleet did not return the result of this step, and the execution ended; the step may have run: read the state of the session before you start a new execution"
    )]
    StepLost,
    /// An earlier step of the execution failed.
    #[error("an earlier step failed and ended this execution; start a new one")]
    StepFailed,
    /// The request was executed, but the memory budget has no room for its response.
    #[error(
        "the request was executed, but the server's memory for responses is full; read responses faster, \
         or request less data"
    )]
    NoRoom,
    /// The memory budget has no room for the bytes of an execution, which therefore remains suspended in the service.
    #[error(
        "the server's memory for suspended executions is full (`http.bodies_bytes`); the execution is still suspended; try again later"
    )]
    NoRoomToSuspend,
    /// The memory budget has no room for the bytes of an execution whose calls need approval. The execution was
    /// cancelled.
    #[error(
        "the script was cancelled at calls that need an approval: the server's memory for suspended executions is full (`http.bodies_bytes`), so the questions were not sent; calls that were approved earlier have run; try again later"
    )]
    NoRoomToAsk,
    /// The response exceeds the memory that the tenant can use for responses.
    #[error(
        "the response is {bytes} bytes; the maximum for this token is {max} (`http.bodies_bytes`); request less output or smaller files"
    )]
    AnswerTooLarge {
        /// The size of the response in bytes.
        bytes: usize,
        /// The maximum in bytes.
        max: usize,
    },
    /// The file exceeds the maximum for a response.
    #[error("the file is {bytes} bytes; the maximum for a response is {max}; split the file in a script")]
    FileTooLarge {
        /// The size of the file in bytes.
        bytes: u64,
        /// The maximum in bytes.
        max: u64,
    },
    /// The types of a script could not be checked, or the script has type errors. The script was not run.
    #[error(transparent)]
    Types(#[from] TypeCheckError),
    /// The service is shutting down.
    #[error("the server is shutting down; use another server, or try again later")]
    Draining,
    /// No worker is ready, or the worker that owns the session is starting.
    #[error("the worker process for this request is starting; try again in a moment")]
    NoWorker,
    /// The worker died during the request. Its sessions keep the state of their last response.
    #[error(
        "the worker process ended before it responded and is being restarted; the script may have run; sessions keep \
         the state of their last response"
    )]
    WorkerDied,
    /// A worker could not be started.
    #[error("cannot start the workers: {0}")]
    Worker(String),
    /// An error from a worker process.
    #[error(transparent)]
    Relayed(Box<RelayedError>),
    /// A request to a fleet failed.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// The tenant's sessions are in a fleet, which does not support the operation.
    #[error("{0}")]
    NotInFleet(NotInFleet),
    /// The location of the tenant's sessions does not support the operation.
    #[error("{0}")]
    Unsupported(&'static str),
    /// A thread of the service panicked. The session is in the same state as after an unwound execution.
    #[error("the execution's thread panicked; see the server's log")]
    Panicked,
}

impl ServiceError {
    /// Returns the machine-readable error code. If the WIT contract defines a name for the error, the code is that
    /// name.
    pub fn code(&self) -> &'static str {
        self.kind().0
    }

    /// Returns the HTTP status of this error.
    pub fn status(&self) -> u16 {
        self.kind().1
    }

    /// Returns the time to wait before a retry, if known.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::QueueFull { retry_after, .. } | Self::Rate { retry_after, .. } => Some(*retry_after),
            Self::Relayed(error) => error.retry_after,
            Self::NoTurn { .. }
            | Self::TooManySuspended { .. }
            | Self::NoWorker
            | Self::NoRoom
            | Self::NoRoomToSuspend
            | Self::NoRoomToAsk
            | Self::StepUnanswered
            | Self::Draining
            | Self::Fleet(FleetError::Unreachable { .. } | FleetError::NoNode) => Some(Duration::from_secs(1)),
            _ => None,
        }
    }

    /// Returns `true` if the script may have run even though the request failed. In that case, a retry would run it
    /// again.
    pub fn has_run(&self) -> bool {
        match self {
            Self::Relayed(error) => return error.has_run,
            Self::Advance(AdvanceError::Execute(error)) => return matches!(**error, ExecuteError::Commit { .. }),
            _ => {}
        }
        matches!(
            self,
            Self::Panicked
                | Self::WorkerDied
                | Self::StepLost
                | Self::StepFailed
                | Self::NoRoom
                | Self::NoRoomToAsk
                | Self::AnswerTooLarge { .. }
                | Self::Execute(ExecuteError::Commit { .. })
                | Self::Sessions(SessionsError::Unsaved { .. } | SessionsError::Execute(ExecuteError::Commit { .. }))
        )
    }

    /// Returns the message for an untrusted client. Details about the host are replaced with a reference to the log.
    pub fn public(&self) -> Untrusted {
        if let Self::Types(TypeCheckError::Failed(reason)) = self {
            tracing::error!(target: "glovebox", error = with_causes(&**reason), "a type check failed");
            return message(self).into();
        }
        // An error with a retry time contains no details about the host, unless it names the fleet's address. Workers
        // have already removed such details from their errors.
        let is_public = match self {
            Self::StepLost | Self::Relayed(_) => true,
            Self::Fleet(FleetError::Unreachable { .. }) => false,
            _ => self.retry_after().is_some(),
        };
        if self.kind() == UNAVAILABLE && !is_public {
            tracing::error!(target: "glovebox", error = with_causes(self), "a request failed");
            return "the request failed; see the server's log".into();
        }
        message(with_causes(self)).into()
    }

    /// Returns `true` if the client's answers to tool calls were rejected. The execution then stays suspended.
    pub(crate) fn is_answer_error(&self) -> bool {
        match self {
            Self::Advance(error) => matches!(error, AdvanceError::UnknownCall { .. } | AdvanceError::NotJson { .. }),
            Self::Relayed(error) => error.is_answer_error,
            _ => false,
        }
    }

    /// Returns `true` if the execution remains suspended after a step that fails with this error.
    pub(crate) fn is_still_waiting(&self) -> bool {
        self.is_answer_error() || matches!(self, Self::StepUnanswered)
    }

    /// Returns `true` if the error means that a file does not exist.
    pub(crate) fn is_missing_file(&self) -> bool {
        match self {
            Self::Files(FilesError::Workspace(FileError::Refused { source, .. })) => *source == VfsError::NotFound,
            Self::Relayed(error) => error.is_missing_file,
            _ => false,
        }
    }

    /// Returns `true` if the error means that a session does not exist.
    pub(crate) fn is_missing_session(&self) -> bool {
        matches!(self, Self::Sessions(_) | Self::Relayed(_)) && self.kind() == NOT_FOUND
    }

    fn kind(&self) -> Code {
        match self {
            Self::Policy(_) => POLICY,
            Self::Build(error) => of_build(error),
            Self::Execute(error) => of_execute(error),
            Self::Sessions(error) => of_sessions(error),
            Self::Files(error) => of_files(error),
            Self::Tool(_) | Self::SessionId(_) | Self::Invalid(_) | Self::SuspendedBytes(_) => INVALID,
            Self::NotSuspendable(_) => NOT_SUSPENDABLE,
            Self::UnknownRuntime { .. } => UNKNOWN_RUNTIME,
            Self::Generation { .. } => GENERATION,
            Self::Rate { .. } => RATE,
            Self::TooMany { .. } => TOO_MANY,
            Self::Advance(error) => of_advance(error),
            Self::AnswerTooLarge { .. } | Self::FileTooLarge { .. } => TOO_LARGE,
            Self::NoExecution { .. } | Self::NoStoredExecution { .. } | Self::StepFailed => NOT_FOUND,
            Self::ExecutionBusy { .. } => BUSY_EXECUTION,
            Self::Cancelled => CANCELLED,
            Self::Unsupported(_) => UNSUPPORTED,
            Self::Types(error) => error.kind(),
            Self::WorkerDied => WORKER_DIED,
            Self::Relayed(error) => error.kind(),
            Self::Fleet(error) => of_fleet(error),
            Self::NotInFleet(_) => NOT_IN_FLEET,
            Self::Panicked => INTERNAL,
            // The service has no room, worker or time for the request, is shutting down, or lost a step.
            _ => UNAVAILABLE,
        }
    }
}

#[cfg(test)]
mod tests {
    use glovebox::ResumeError;
    use glovebox_sessions::{SessionId, StoreError};

    use super::*;

    #[test]
    fn session_without_memory_to_resume_is_no_conflict() {
        let problem = |source| {
            let error = ServiceError::from(SessionsError::Resume { id: SessionId::random(), source: Box::new(source) });
            (error.code(), error.status())
        };
        let full = ExecuteError::TooManySessions { key: "limits.session_total_bytes", used: 2, max: 1 };
        assert_eq!(problem(ResumeError::Session(full)), ("quota-exceeded", 429));
        let no_instance = ExecuteError::Instantiate { reason: "the pool is full".to_owned() };
        assert_eq!(problem(ResumeError::Session(no_instance)), ("unavailable", 503));
        let too_large = ResumeError::TooLarge { what: "memory", key: "memory_bytes", bytes: 2, max: 1 };
        for source in [ResumeError::NotAuthentic, too_large] {
            assert_eq!(problem(source), ("not-resumable", 409));
        }
    }

    #[test]
    fn unreadable_stored_sessions_are_unavailable() {
        let id = SessionId::random;
        let damaged = StoreError::Damaged { id: id(), path: "x".into(), reason: "it is truncated".into() };
        for error in [damaged, StoreError::Format { id: id(), found: 3, known: 2 }] {
            let error = ServiceError::from(SessionsError::from(error));
            assert_eq!((error.code(), error.status()), ("unavailable", 503));
        }
    }

    #[test]
    fn step_without_a_result_may_have_run() {
        let error = ServiceError::StepLost;
        assert_eq!((error.code(), error.status()), ("unavailable", 503));
        assert!(error.has_run() && !error.is_still_waiting());
        assert!(error.public().to_string().contains("may have run"));
    }
}
