//! Operations on sessions and their files, in a form that can be sent to another process.

use glovebox::{
    CheckpointId, CheckpointInfo, FileEntry, FilePage, GuestValue, IfExists, JsonText, Language, ListLimits,
    SessionVariable,
};
use glovebox_sessions::SessionId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{ChangeResult, ServiceError, SessionPage, SessionSummary, SessionTarget, audit::AuditAction, byte_budget};

/// An operation on a tenant's sessions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum SessionOperation {
    /// Opens a session unless `max` sessions exist.
    Open {
        id: SessionId,
        language: Option<Language>,
        runtime: Option<String>,
        context: Option<JsonText>,
        /// Changes to the tenant's policy. The keys are policy keys.
        policy: Map<String, Value>,
        max: usize,
    },
    /// Copies a session to `fork` unless `max` sessions exist.
    Fork {
        target: SessionTarget,
        fork: SessionId,
        max: usize,
    },
    /// Restores a session from the bytes of the call unless `max` sessions exist.
    Import {
        id: SessionId,
        /// Changes to the tenant's policy. The keys are policy keys.
        policy: Map<String, Value>,
        max: usize,
    },
    List {
        after: Option<SessionId>,
        /// Maximum number of sessions. `None` lists all sessions.
        limit: Option<usize>,
    },
    Describe {
        id: SessionId,
    },
    Checkpoint {
        target: SessionTarget,
    },
    Checkpoints {
        id: SessionId,
    },
    Undo {
        target: SessionTarget,
        to: Option<CheckpointId>,
    },
    Hibernate {
        target: SessionTarget,
    },
    /// Runs the session's exit handlers and removes the session.
    Close {
        target: SessionTarget,
    },
    /// Removes the session without running its exit handlers.
    Remove {
        id: SessionId,
    },
    GetVariable {
        id: SessionId,
        name: String,
    },
    SetVariable {
        target: SessionTarget,
        name: String,
        json: JsonText,
    },
    /// Describes the global variables, in a copy of the session.
    Variables {
        id: SessionId,
    },
    Files {
        id: SessionId,
        operation: FileOperation,
    },
    ChangeFiles {
        target: SessionTarget,
        operation: FileOperation,
    },
    Export {
        id: SessionId,
    },
}

impl SessionOperation {
    /// Returns the session that the operation uses exclusively. Operations on the same session run one after another.
    pub(crate) fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Open { .. } | Self::List { .. } | Self::Describe { .. } => None,
            Self::Fork { target, .. }
            | Self::Checkpoint { target }
            | Self::Undo { target, .. }
            | Self::Hibernate { target }
            | Self::Close { target }
            | Self::SetVariable { target, .. }
            | Self::ChangeFiles { target, .. } => Some(&target.id),
            Self::Import { id, .. }
            | Self::Checkpoints { id }
            | Self::Remove { id }
            | Self::GetVariable { id, .. }
            | Self::Variables { id }
            | Self::Files { id, .. }
            | Self::Export { id } => Some(id),
        }
    }

    /// Returns the session whose worker process performs the operation.
    pub(crate) fn worker_session(&self) -> Option<&SessionId> {
        match self {
            Self::Open { id, .. } | Self::Describe { id } => Some(id),
            other => other.session(),
        }
    }

    /// Returns `true` if the operation creates a session.
    pub(crate) fn creates_session(&self) -> bool {
        matches!(self, Self::Open { .. } | Self::Fork { .. } | Self::Import { .. })
    }

    /// Returns `true` if the operation creates a session with a policy that differs from the tenant's.
    pub(crate) fn has_policy(&self) -> bool {
        matches!(self, Self::Open { policy, .. } | Self::Import { policy, .. } if !policy.is_empty())
    }

    /// Returns `true` if the operation can run guest code. Such operations count towards the tenant's execution rate.
    pub(crate) fn may_run_code(&self) -> bool {
        matches!(
            self,
            Self::Close { .. } | Self::GetVariable { .. } | Self::SetVariable { .. } | Self::Variables { .. }
        )
    }

    /// Returns the session and the operation for the audit log, or `None` if the operation is not recorded.
    pub(crate) fn action(&self) -> Option<(SessionId, AuditAction)> {
        let (id, action) = match self {
            Self::List { .. } | Self::Describe { .. } | Self::Checkpoints { .. } | Self::Variables { .. } => {
                return None;
            }
            Self::Open { id, .. } => (id, AuditAction::new("open")),
            Self::Fork { target, fork, .. } => (&target.id, AuditAction::new("fork").of(fork.as_str())),
            Self::Import { id, .. } => (id, AuditAction::new("import")),
            Self::Checkpoint { target } => (&target.id, AuditAction::new("checkpoint")),
            Self::Undo { target, .. } => (&target.id, AuditAction::new("undo")),
            Self::Hibernate { target } => (&target.id, AuditAction::new("hibernate")),
            Self::Close { target } => (&target.id, AuditAction::new("close")),
            Self::Remove { id } => (id, AuditAction::new("remove")),
            Self::GetVariable { id, name } => (id, AuditAction::new("get-variable").of(name)),
            Self::SetVariable { target, name, .. } => (&target.id, AuditAction::new("set-variable").of(name)),
            Self::Files { id, operation } => (id, AuditAction::new("read-files").of(operation.subject())),
            Self::ChangeFiles { target, operation } => {
                (&target.id, AuditAction::new("change-files").of(operation.subject()))
            }
            Self::Export { id } => (id, AuditAction::new("export")),
        };
        Some((id.clone(), action))
    }
}

/// An operation on a session's files.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum FileOperation {
    ListPage {
        pattern: String,
        after: Option<String>,
        limits: ListLimits,
    },
    ListBelow {
        dir: String,
        max_depth: usize,
        limits: ListLimits,
    },
    Stat {
        path: String,
    },
    /// Reads a file of at most `max_bytes`.
    Read {
        path: String,
        max_bytes: u64,
    },
    /// Reads up to `length` bytes at an offset.
    ReadAt {
        path: String,
        offset: u64,
        length: u64,
    },
    /// Writes files, given as paths and lengths. The bytes of the call are the contents of the files.
    Write {
        files: Vec<(String, usize)>,
        if_exists: IfExists,
    },
    Delete {
        path: String,
        recursive: bool,
    },
    Rename {
        from: String,
        to: String,
    },
    MakeDir {
        path: String,
    },
    /// Replaces all files with the files of another session, which has no files afterwards.
    TakeFrom {
        session: SessionId,
    },
}

impl FileOperation {
    /// Returns the path or pattern to record in the audit log.
    pub(crate) fn subject(&self) -> &str {
        match self {
            Self::ListPage { pattern, .. } => pattern,
            Self::ListBelow { dir: path, .. }
            | Self::Stat { path }
            | Self::Read { path, .. }
            | Self::ReadAt { path, .. }
            | Self::Delete { path, .. }
            | Self::Rename { from: path, .. }
            | Self::MakeDir { path } => path,
            Self::Write { files, .. } => files.first().map_or("", |(path, _)| path),
            Self::TakeFrom { .. } => "**",
        }
    }
}

/// Returns the operation that writes these files, and the bytes for its call.
pub(crate) fn join_files(files: Vec<(String, Vec<u8>)>, if_exists: IfExists) -> (FileOperation, Vec<u8>) {
    let lengths = files.iter().map(|(path, bytes)| (path.clone(), bytes.len())).collect();
    let mut contents = files.into_iter().map(|(_, bytes)| bytes);
    // The contents of a single file are not copied.
    let mut all = contents.next().unwrap_or_default();
    contents.for_each(|bytes| all.extend_from_slice(&bytes));
    (FileOperation::Write { files: lengths, if_exists }, all)
}

/// A session operation with its binary data.
pub(crate) struct SessionCall {
    pub(crate) operation: SessionOperation,
    pub(crate) bytes: Vec<u8>,
    pub(crate) room: Room,
}

type Reserve = dyn FnOnce(u64) -> Result<(), ServiceError> + Send;

/// A callback that reserves memory for a file's contents before they are read.
#[derive(Default)]
pub(crate) struct Room(pub(crate) Option<Box<Reserve>>);

impl Room {
    pub(crate) fn reserve(&mut self, bytes: u64) -> Result<(), ServiceError> {
        self.0.take().map_or(Ok(()), |reserve| reserve(bytes))
    }
}

impl From<SessionOperation> for SessionCall {
    fn from(operation: SessionOperation) -> Self {
        Self { operation, bytes: Vec::new(), room: Room::default() }
    }
}

/// The result of a session operation.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum SessionAnswer {
    Done,
    Session(Box<SessionSummary>),
    Page(SessionPage),
    Checkpoint(ChangeResult<CheckpointId>),
    Checkpoints(Vec<CheckpointInfo>),
    /// `true` if the session was in memory.
    Hibernated(ChangeResult<bool>),
    /// `true` if the session existed.
    Removed(bool),
    Variable(Option<GuestValue>),
    /// `None` if the variables are unknown.
    Variables(Option<Vec<SessionVariable>>),
    Set(ChangeResult<()>),
    Files(FileAnswer),
    ChangedFiles(ChangeResult<FileAnswer>),
    /// The bytes of the reply are the exported session.
    Exported,
}

/// The result of a file operation.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FileAnswer {
    Done,
    Page(FilePage),
    Entry(FileEntry),
    /// The bytes of the reply are the file's contents, or the requested range.
    Content {
        size_bytes: u64,
    },
    /// The file exceeds the maximum size and was not read.
    TooLarge {
        size_bytes: u64,
    },
}

/// The reply to a [`SessionCall`], with its binary data.
#[derive(Debug)]
pub(crate) struct SessionReply {
    pub(crate) answer: SessionAnswer,
    pub(crate) bytes: Vec<u8>,
    /// The memory reserved for the answer and the bytes if workers sent them.
    pub(crate) rooms: Vec<byte_budget::Room>,
}

impl From<SessionAnswer> for SessionReply {
    fn from(answer: SessionAnswer) -> Self {
        Self { answer, bytes: Vec::new(), rooms: Vec::new() }
    }
}

/// Defines functions that extract the value of one `SessionAnswer` variant. Any other variant means that the worker
/// process is faulty.
macro_rules! take {
    ($($function:ident: $kind:ident -> $value:ty;)*) => {
        impl SessionReply {
            $(pub(crate) fn $function(self) -> Result<$value, ServiceError> {
                match self.answer {
                    SessionAnswer::$kind(value) => Ok(value),
                    _ => Err(ServiceError::WorkerDied),
                }
            })*
        }
    };
}

take! {
    page: Page -> SessionPage;
    checkpoint: Checkpoint -> ChangeResult<CheckpointId>;
    checkpoints: Checkpoints -> Vec<CheckpointInfo>;
    hibernated: Hibernated -> ChangeResult<bool>;
    removed: Removed -> bool;
    variable: Variable -> Option<GuestValue>;
    variables: Variables -> Option<Vec<SessionVariable>>;
    set: Set -> ChangeResult<()>;
    changed_files: ChangedFiles -> ChangeResult<FileAnswer>;
}

impl SessionReply {
    pub(crate) fn session(self) -> Result<SessionSummary, ServiceError> {
        if let SessionAnswer::Session(session) = self.answer { Ok(*session) } else { Err(ServiceError::WorkerDied) }
    }

    pub(crate) fn files(self) -> Result<(FileAnswer, Vec<u8>), ServiceError> {
        match self.answer {
            SessionAnswer::Files(answer) => Ok((answer, self.bytes)),
            _ => Err(ServiceError::WorkerDied),
        }
    }
}

impl FileAnswer {
    pub(crate) fn page(self) -> Result<FilePage, ServiceError> {
        if let Self::Page(page) = self { Ok(page) } else { Err(ServiceError::WorkerDied) }
    }

    pub(crate) fn entry(self) -> Result<FileEntry, ServiceError> {
        if let Self::Entry(entry) = self { Ok(entry) } else { Err(ServiceError::WorkerDied) }
    }
}
