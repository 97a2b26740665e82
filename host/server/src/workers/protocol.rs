//! The protocol between the server and its workers.
//!
//! Long or binary data is sent in the binary part of a message, and the JSON part contains the lengths of the data.

use std::{collections::BTreeMap, mem, time::Duration};

use glovebox::{Execution, FileEntry, ToolAnswer, ToolDefinition, ToolError, ToolRequest};
use glovebox_sessions::{ExpectedVersion, SessionId, SessionRecord};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Confinement;
use crate::{Resumption, ServiceError, Work, error_codes::known_kind, executor::SessionOperation, text::message};

/// A call from the server to a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToWorker {
    /// Requests an immediate reply.
    Ping,
    /// Ends running executions and saves the sessions.
    End,
    Run(RunCall),
    Validate(RunCall),
    /// Starts a script whose tool calls the client answers, and waits as [`Advance`](Self::Advance) does. Later calls
    /// identify the execution by `execution`.
    Start(RunCall),
    /// Passes answers to a started execution. The binary part contains their JSON. Waits until the execution has
    /// finished or needs further answers.
    Advance {
        execution: u64,
        answers: Vec<AnswerPart>,
        /// `true` once the resumption of the execution was refused. Its session is then not saved.
        is_refused: bool,
    },
    /// Suspends and ends a started execution that waits for answers. The binary part of the reply contains the
    /// suspended execution.
    Suspend {
        execution: u64,
    },
    /// Waits until a started execution has ended or was dropped.
    AwaitEnd {
        execution: u64,
    },
    /// Cancels a started execution.
    Cancel {
        execution: u64,
    },
    /// Drops a started execution.
    Abandon {
        execution: u64,
    },
    /// Lists an execution's workspace files.
    ListLeft {
        execution: u64,
        pattern: String,
    },
    /// Reads a workspace file of an execution. The binary part of the reply contains the contents.
    ReadLeft {
        execution: u64,
        path: String,
    },
    /// Drops an execution's workspace files.
    Forget {
        execution: u64,
    },
    Session {
        tenant: String,
        operation: SessionOperation,
    },
}

/// A call from a worker to the server.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToServer {
    /// Reports that the worker accepts calls.
    Ready { confinement: Confinement },
    /// Reports the number of sessions in the worker's memory and the bytes that they occupy.
    Sessions { count: u64, bytes: u64 },
    /// Reports output of an execution. The binary part contains the output. Returns when the output callback has
    /// returned.
    Output { execution: u64, is_stderr: bool },
    /// Calls a tool of an execution. The binary parts of the call and the reply contain the arguments and the result.
    Tool { execution: u64, name: String, call: CallPart },
    /// Opens the network for a tenant's policy with `changes`. Returns the environment variables for scripts.
    OpenNetwork { tenant: String, changes: Map<String, Value> },
    /// Sends a network request. The binary parts of the call and the reply contain the request and the response.
    Fetch { tenant: String, changes: Map<String, Value>, call: CallPart },
    /// Performs an operation on a tenant's store.
    Store { tenant: String, operation: StoreOperation },
}

/// Index, session and remaining time of a tool call or network request.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CallPart {
    pub(super) index: usize,
    pub(super) session: Option<String>,
    /// Remaining time until the call times out, in milliseconds.
    pub(super) time_ms: u64,
}

/// The outcome of a tool call.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToolReply {
    /// The tool returned. The binary part of the reply contains the result.
    Done,
    Failed(ToolError),
}

/// A client's answer to a tool call: the length of its JSON text in the binary part, or an error.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AnswerPart {
    id: u64,
    answer: Result<usize, ToolError>,
}

impl AnswerPart {
    /// Returns the parts of the answers and the binary part.
    pub(super) fn split(answers: Vec<ToolAnswer>) -> (Vec<Self>, Vec<u8>) {
        let mut bytes = Vec::new();
        let part = |ToolAnswer { id, answer }| {
            let answer = answer.map(|text| {
                bytes.extend_from_slice(text.as_bytes());
                text.len()
            });
            Self { id, answer }
        };
        (answers.into_iter().map(part).collect(), bytes)
    }

    /// Reassembles the answers from the parts that [`split`](Self::split) returned.
    pub(super) fn join(parts: Vec<Self>, bytes: &[u8]) -> Vec<ToolAnswer> {
        let mut rest = bytes;
        let answer = |Self { id, answer }| {
            let answer = answer.map(|length| {
                let text = rest.split_off(..length.min(rest.len())).unwrap_or_default();
                String::from_utf8_lossy(text).into_owned()
            });
            ToolAnswer { id, answer }
        };
        parts.into_iter().map(answer).collect()
    }
}

/// A script for a worker. The binary part contains the standard input, followed by the contents of the files, and by
/// the suspended execution to resume.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RunCall {
    pub(super) tenant: String,
    pub(super) execution: u64,
    /// `true` to report output while the script is running.
    pub(super) wants_output: bool,
    pub(super) tools: Vec<ToolDefinition>,
    pub(super) wants_files: bool,
    work: Work,
    stdin_bytes: usize,
    /// The paths and sizes of the initial files.
    files: Vec<(String, usize)>,
    /// The size of the suspended execution to resume.
    suspended_bytes: Option<usize>,
}

impl RunCall {
    /// Returns the call and its binary part. `tools` contains all tools that the script can call. Drops the answers for
    /// a suspended execution: the client's answers are sent with [`ToWorker::Advance`].
    pub(super) fn new(tenant: String, execution: u64, mut work: Work, tools: Vec<ToolDefinition>) -> (Self, Vec<u8>) {
        let files = if let Work::Fresh(fresh) = &mut work { mem::take(&mut fresh.files) } else { Vec::new() };
        let script = work.script();
        let wants_files = script.wants_files;
        let mut bytes = mem::take(&mut script.stdin);
        let suspended = script.resumption.take().map(|resumption| resumption.suspended);
        let (stdin_bytes, suspended_bytes) = (bytes.len(), suspended.as_ref().map(Vec::len));
        let (files, contents): (Vec<_>, Vec<_>) =
            files.into_iter().map(|(path, bytes)| ((path, bytes.len()), bytes)).unzip();
        for content in contents.into_iter().chain(suspended) {
            // Do not copy the first content: it is often a suspended execution, which can be long.
            if bytes.is_empty() {
                bytes = content;
            } else {
                bytes.extend_from_slice(&content);
            }
        }
        let wants_output = false;
        let call =
            Self { tenant, execution, wants_output, tools, wants_files, work, stdin_bytes, files, suspended_bytes };
        (call, bytes)
    }

    /// Returns the work, without tools.
    pub(super) fn work(mut self, bytes: &[u8]) -> Work {
        let mut rest = bytes;
        let mut take = |length: usize| rest.split_off(..length.min(rest.len())).unwrap_or_default().to_vec();
        self.work.script().stdin = take(self.stdin_bytes);
        let files = self.files.into_iter().map(|(path, length)| (path, take(length))).collect();
        if let Work::Fresh(fresh) = &mut self.work {
            fresh.files = files;
        }
        self.work.script().resumption =
            self.suspended_bytes.map(|length| Resumption { suspended: take(length), answers: Vec::new() });
        self.work
    }
}

/// A finished execution. If the caller wants the workspace files, the worker retains them until it receives
/// [`ToWorker::Forget`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RunReply {
    pub(super) execution: Execution,
    pub(super) generation: Option<String>,
}

/// The state of a stepwise execution after a step.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum StepReply {
    Done {
        result: Box<Result<RunReply, RelayedError>>,
        /// `true` if the execution was resumed, and has ended before it had repeated its earlier steps.
        has_only_repeated: bool,
    },
    NeedsTools(Vec<ToolRequest>),
}

/// The reply to [`ToWorker::ListLeft`].
pub(super) type EntriesReply = Vec<FileEntry>;

/// The reply to [`ToServer::OpenNetwork`].
pub(super) type EnvironmentReply = BTreeMap<String, String>;

/// An operation on a store. Its result is a `Result<T, StoreFailure>`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum StoreOperation {
    /// Locks a session. Returns the lock's number, or `None` if another process holds the lock.
    TryLock {
        id: SessionId,
    },
    /// Replaces a session and returns its version. The binary part contains its state.
    Put {
        lock: u64,
        expected: ExpectedVersion,
        record: Box<SessionRecord>,
    },
    /// Reads a session's record. The binary part of the reply contains its state.
    Get {
        id: SessionId,
    },
    Record {
        id: SessionId,
    },
    /// Returns the entries of a page, their versions, and the ID after which the next page begins.
    List {
        after: Option<SessionId>,
        limit: usize,
    },
    Count {
        max: usize,
    },
    Remove {
        lock: u64,
        expected: ExpectedVersion,
    },
    /// Reserves bytes for a write that the worker performs itself. Returns the reservation's number.
    Reserve {
        id: SessionId,
        bytes: u64,
    },
    /// Releases a lock, or the reservation of a write that has ended.
    Release {
        number: u64,
    },
}

/// A store error. Errors that callers distinguish have variants; all others become a message.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum StoreFailure {
    Fenced(SessionId),
    Damaged { id: SessionId, path: std::path::PathBuf, reason: String },
    Format { id: SessionId, found: u32, known: u32 },
    TooLarge { id: SessionId, bytes: u64, max: u64 },
    Full { id: SessionId, bytes: u64, max: u64 },
    Other(String),
}

/// A [`ServiceError`] from another process.
#[derive(Clone, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct RelayedError {
    code: String,
    message: String,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) has_run: bool,
    pub(crate) is_answer_error: bool,
    pub(crate) is_missing_file: bool,
}

impl From<&ServiceError> for RelayedError {
    fn from(error: &ServiceError) -> Self {
        Self {
            code: error.code().to_owned(),
            message: error.public().to_string(),
            retry_after: error.retry_after(),
            has_run: error.has_run(),
            is_answer_error: error.is_answer_error(),
            is_missing_file: error.is_missing_file(),
        }
    }
}

impl From<RelayedError> for ServiceError {
    fn from(error: RelayedError) -> Self {
        Self::Relayed(Box::new(RelayedError { message: message(error.message), ..error }))
    }
}

impl RelayedError {
    /// Returns the error code and the HTTP status. An unknown code becomes the code for internal errors.
    pub(crate) fn kind(&self) -> (&'static str, u16) {
        known_kind(&self.code)
    }
}
