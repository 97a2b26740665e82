//! The calls between the server and its workers.
//!
//! Long or binary parts are the plain bytes of a message, described by their lengths.

use std::{collections::BTreeMap, time::Duration};

use glovebox::{
    Execution, FileEntry, JsonText, Language, SourceKind, ToolAnswer, ToolDefinition, ToolError, ToolErrorKind,
    ToolRequest,
};
use glovebox_sessions::{Expected, SessionId, SessionRecord, StoredRecord, StoredVersion};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Confinement;
use crate::{
    Fresh, Script, ServiceError, SessionTarget, Work, error::known_kind, executor::SessionOperation, text::message,
};

/// A call of the server.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToWorker {
    /// Is answered at once.
    Ping,
    /// Ends running executions, and saves the sessions.
    End,
    Run(RunCall),
    Validate(RunCall),
    /// Starts a script whose tool calls the client answers. The execution has the number of the call.
    Start(RunCall),
    /// Passes answers to a started execution, and waits until it needs further ones.
    Advance {
        execution: u64,
        answers: Vec<AnswerPart>,
        wait_ms: Option<u64>,
    },
    /// Returns when a started execution has ended, or is dropped.
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
    /// Lists the files that an execution has left.
    ListLeft {
        execution: u64,
        pattern: String,
    },
    /// Reads a file that an execution has left. The reply has its bytes.
    ReadLeft {
        execution: u64,
        path: String,
    },
    /// Drops the files that an execution has left.
    Forget {
        execution: u64,
    },
    Session {
        tenant: String,
        operation: SessionOperation,
    },
}

/// A call of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToServer {
    /// The worker accepts calls.
    Ready { confinement: Confinement },
    /// The number of sessions in the worker's memory, and the bytes that they hold.
    Sessions { count: u64, bytes: u64 },
    /// The bytes of the call are output of an execution. Returns when the client has taken them.
    Output { execution: u64, is_stderr: bool },
    /// Calls a tool of an execution. The bytes are the arguments; those of the reply are the result.
    Tool { execution: u64, name: String, call: CallPart },
    /// Opens the network of a tenant's policy with these changes. Returns the environment of scripts.
    OpenNetwork { tenant: String, changes: Map<String, Value> },
    /// Performs a request. The bytes are the request; those of the reply are the response.
    Fetch { tenant: String, changes: Map<String, Value>, call: CallPart },
    /// An operation of a tenant's store.
    Store { tenant: String, operation: StoreOperation },
}

/// A call of a tool.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CallPart {
    pub(super) index: usize,
    pub(super) session: Option<String>,
    /// Time that is left until the call times out.
    pub(super) time_ms: u64,
}

/// The result of a tool, or its failure.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToolReply {
    /// The bytes of the reply are the result.
    Done,
    Failed(FailurePart),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FailurePart {
    kind: ToolErrorKind,
    message: String,
}

impl From<ToolError> for FailurePart {
    fn from(error: ToolError) -> Self {
        Self { kind: error.kind(), message: error.message().to_owned() }
    }
}

impl From<FailurePart> for ToolError {
    fn from(FailurePart { kind, message }: FailurePart) -> Self {
        Self::of(kind, message)
    }
}

/// A client's answer to a tool call.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AnswerPart {
    id: u64,
    answer: Result<String, FailurePart>,
}

impl From<ToolAnswer> for AnswerPart {
    fn from(ToolAnswer { id, answer }: ToolAnswer) -> Self {
        Self { id, answer: answer.map_err(FailurePart::from) }
    }
}

impl From<AnswerPart> for ToolAnswer {
    fn from(AnswerPart { id, answer }: AnswerPart) -> Self {
        Self { id, answer: answer.map_err(ToolError::from) }
    }
}

/// A script for a worker. The bytes of the call are the standard input, followed by the files.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RunCall {
    pub(super) tenant: String,
    pub(super) execution: u64,
    /// Report output while the script runs.
    pub(super) wants_output: bool,
    pub(super) tools: Vec<ToolDefinition>,
    source: String,
    name: Option<String>,
    kind: SourceKind,
    stdin_bytes: usize,
    context: Option<JsonText>,
    cancel_after: Option<Duration>,
    pub(super) wants_files: bool,
    without_value: bool,
    place: ScriptInterpreter,
}

/// The interpreter of a script.
#[derive(Debug, Serialize, Deserialize)]
enum ScriptInterpreter {
    Session(SessionTarget),
    Fresh {
        language: Option<Language>,
        runtime: Option<String>,
        files: Vec<(String, usize)>,
        policy: Map<String, Value>,
    },
}

impl RunCall {
    /// Returns the call and its bytes. `tools` are all tools of the script.
    pub(super) fn new(tenant: String, execution: u64, work: Work, tools: Vec<ToolDefinition>) -> (Self, Vec<u8>) {
        let (script, place, contents) = match work {
            Work::InSession(target, script) => (*script, ScriptInterpreter::Session(target), Vec::new()),
            Work::Fresh(fresh) => {
                let Fresh { script, language, runtime, files, policy } = *fresh;
                let (names, contents): (Vec<_>, Vec<_>) =
                    files.into_iter().map(|(path, bytes)| ((path, bytes.len()), bytes)).unzip();
                (script, ScriptInterpreter::Fresh { language, runtime, files: names, policy }, contents)
            }
        };
        let Script { source, name, kind, stdin, context, cancel_after, wants_files, without_value, .. } = script;
        let stdin_bytes = stdin.len();
        let mut bytes = stdin;
        contents.iter().for_each(|content| bytes.extend_from_slice(content));
        let call = Self {
            tenant,
            execution,
            wants_output: false,
            tools,
            source,
            name,
            kind,
            stdin_bytes,
            context,
            cancel_after,
            wants_files,
            without_value,
            place,
        };
        (call, bytes)
    }

    /// Returns the work, without its tools.
    pub(super) fn work(self, bytes: &[u8]) -> Work {
        let mut rest = bytes;
        let mut take = |length: usize| rest.split_off(..length.min(rest.len())).unwrap_or_default().to_vec();
        let script = Script {
            source: self.source,
            name: self.name,
            kind: self.kind,
            stdin: take(self.stdin_bytes),
            context: self.context,
            cancel_after: self.cancel_after,
            wants_files: self.wants_files,
            without_value: self.without_value,
            ..Script::default()
        };
        match self.place {
            ScriptInterpreter::Session(target) => Work::InSession(target, Box::new(script)),
            ScriptInterpreter::Fresh { language, runtime, files, policy } => {
                let files = files.into_iter().map(|(path, length)| (path, take(length))).collect();
                Work::Fresh(Box::new(Fresh { script, language, runtime, files, policy }))
            }
        }
    }
}

/// A finished execution. The files that it left stay in the worker until they are forgotten, if the script's caller
/// wants them.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RunReply {
    pub(super) execution: Execution,
    pub(super) generation: Option<String>,
}

/// The state of a started execution after a step.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum StepReply {
    Done(Box<Result<RunReply, RelayedError>>),
    NeedsTools(Vec<ToolRequest>),
    Running,
}

/// Entries of a list of files.
pub(super) type EntriesReply = Vec<FileEntry>;

/// The environment of scripts with a network.
pub(super) type EnvironmentReply = BTreeMap<String, String>;

/// An operation of a store.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum StoreOperation {
    /// Locks a session. Returns the number of the lock, or `None` if another process holds it.
    TryLock {
        id: SessionId,
    },
    /// Releases a lock.
    Unlock {
        lock: u64,
    },
    /// Replaces a session. The bytes of the call are its state.
    Put {
        lock: u64,
        expected: Expected,
        record: Box<SessionRecord>,
    },
    /// Reads a session. The bytes of the reply are its state.
    Get {
        id: SessionId,
    },
    Record {
        id: SessionId,
    },
    List {
        after: Option<SessionId>,
        limit: usize,
    },
    Count {
        most: usize,
    },
    Remove {
        lock: u64,
        expected: Expected,
    },
}

/// The result of an operation of a store.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum StoreReply {
    Locked(Option<u64>),
    Done,
    Put(StoredVersion),
    Found(Option<StoredRecord>),
    Page { entries: Vec<EntryPart>, next: Option<SessionId> },
    Count(usize),
    Removed(bool),
    Failed(StoreFailure),
}

/// A session in a list of a store.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EntryPart {
    pub(super) id: SessionId,
    pub(super) stored_bytes: u64,
    pub(super) stored_at: glovebox::Timestamp,
    pub(super) found: Result<StoredRecord, String>,
}

/// An error of a store that its user handles, or the message of another one.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum StoreFailure {
    Fenced(SessionId),
    Damaged { id: SessionId, path: std::path::PathBuf, reason: String },
    TooLarge { id: SessionId, bytes: u64, most: u64 },
    Full { id: SessionId, bytes: u64, most: u64 },
    Other(String),
}

/// A [`ServiceError`] in another process.
#[derive(Clone, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct RelayedError {
    code: String,
    message: String,
    retry_after: Option<Duration>,
    has_run: bool,
    is_about_an_answer: bool,
    is_missing_file: bool,
}

impl From<&ServiceError> for RelayedError {
    fn from(error: &ServiceError) -> Self {
        Self {
            code: error.code().to_owned(),
            message: error.public().to_string(),
            retry_after: error.retry_after(),
            has_run: error.has_run(),
            is_about_an_answer: error.is_about_an_answer(),
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
    /// Returns the code and the HTTP status. An unknown code counts as an internal error.
    pub(crate) fn kind(&self) -> (&'static str, u16) {
        known_kind(&self.code)
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    pub(crate) fn has_run(&self) -> bool {
        self.has_run
    }

    pub(crate) fn is_about_an_answer(&self) -> bool {
        self.is_about_an_answer
    }

    pub(crate) fn is_missing_file(&self) -> bool {
        self.is_missing_file
    }
}
