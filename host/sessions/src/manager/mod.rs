//! Sessions that outlive their process: live sessions in memory, hibernated sessions in a store.
//!
//! * [`sessions`]: opens, lists, removes, saves and hibernates sessions.
//! * [`slot`]: resumes, saves and hibernates one session.
//! * [`slots`]: contains the slots of all live sessions and the handles to sessions. Evicts idle sessions.
//! * [`storage`]: contains the store, the policy and the sandboxes. Forks, exports and imports sessions.

mod sessions;
mod slot;
mod slots;
mod storage;

use glovebox::{BuildError, ExecuteError, Execution, HibernateError, Language, ResumeError};
use glovebox_vfs::escaped;

use crate::{SessionId, StoreError};

pub use sessions::{
    HibernateReport, IdleThread, ListedPage, ListedSession, NewSession, Save, Sessions, SessionsBuilder, StorePolicy,
};
pub use slots::{ActiveSession, SessionGuard};

/// Errors of [`Sessions`](crate::Sessions).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionsError {
    /// The store failed.
    #[error(transparent)]
    Store(StoreError),
    /// The session or one of its executions failed because of an error in the host.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// The session's sandbox could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The store has no session with this ID.
    #[error("there is no session `{id}`; open it first, or list the sessions")]
    NotFound {
        /// The session's ID.
        id: SessionId,
    },
    /// The store already has a session with this ID.
    #[error("session `{id}` already exists; choose another ID or delete it first")]
    Exists {
        /// The session's ID.
        id: SessionId,
    },
    /// The session's lock belongs to another process, or another thread is still using or changing the session.
    #[error("session `{id}` is in use by another process or thread; wait for it to finish, or use another session")]
    InUse {
        /// The session's ID.
        id: SessionId,
    },
    /// A different process took over the session, even though this process held the session's lock.
    ///
    /// The changes that this process made since its last save are lost, and its executions since then are discarded.
    /// The live session was dropped without running its exit handlers. Effects outside the session, through tools and
    /// in host directories, remain.
    #[error(
        "another process took over session `{id}`; the unsaved changes of this process were discarded; \
         run the script again"
    )]
    Fenced {
        /// The session's ID.
        id: SessionId,
    },
    /// The session's language differs from the requested language.
    #[error("session `{id}` runs {has}, not {wanted}; use another session for {wanted}")]
    Language {
        /// The session's ID.
        id: SessionId,
        /// The session's language.
        has: Language,
        /// The requested language.
        wanted: Language,
    },
    /// No sandbox can run the session.
    #[error(
        "session `{id}` needs a sandbox for {language}{}; offer one with `--runtime`, or add one with \
         `SessionsBuilder::sandbox` or `Sessions::add_sandbox`",
        runtime.as_ref().map(|name| format!(" with the runtime `{}`", escaped(name))).unwrap_or_default()
    )]
    NoSandbox {
        /// The session's ID.
        id: SessionId,
        /// The session's language.
        language: Language,
        /// The name of the session's runtime. `None` if any runtime for the language is suitable.
        runtime: Option<String>,
    },
    /// `live_count` sessions are live, and all of them are in use.
    #[error(
        "all live sessions are in use, and their number has reached `live_count` ({max}); wait until a session is idle, or raise the limit"
    )]
    TooManyLive {
        /// The limit, `live_count`.
        max: usize,
    },
    /// The stored session cannot be resumed, or an exported session is invalid.
    #[error("session `{id}` cannot be resumed")]
    Resume {
        /// The session's ID.
        id: SessionId,
        /// The underlying error.
        source: Box<ResumeError>,
    },
    /// The session was saved with a host directory as its workspace, but the sandbox has no workspace.
    #[error(
        "session `{id}` cannot be resumed without its workspace `{name}`; \
         pass it with `--workspace` or `Policy::workspace`",
        name = escaped(.workspace)
    )]
    NoWorkspace {
        /// The session's ID.
        id: SessionId,
        /// The host directory that was the session's workspace.
        workspace: String,
        /// The error from resuming the session.
        source: Box<ResumeError>,
    },
    /// The session was saved with its own files, but the sandbox has a host directory as its workspace.
    #[error(
        "session `{id}` has its own files at `/app`, so `{name}` cannot be its workspace; omit the workspace \
         (`--workspace`, `Policy::workspace`), or mount it elsewhere in a new session",
        name = escaped(.given)
    )]
    OwnFiles {
        /// The session's ID.
        id: SessionId,
        /// The host directory that is the sandbox's workspace.
        given: String,
        /// The error from resuming the session.
        source: Box<ResumeError>,
    },
    /// The session's state could not be encoded, so nothing was written to the store. The session stays live, unsaved.
    #[error("session `{id}` could not be saved")]
    Save {
        /// The session's ID.
        id: SessionId,
        /// The underlying error.
        source: Box<HibernateError>,
    },
    /// The script ran, but the session could not be written to the store afterwards. The session stays live, unsaved.
    #[error("session `{id}` could not be saved after the execution")]
    Unsaved {
        /// The session's ID.
        id: SessionId,
        /// The execution that could not be saved.
        execution: Box<Execution>,
        /// The underlying error.
        source: Box<SessionsError>,
    },
}

impl From<StoreError> for SessionsError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Fenced { id } => Self::Fenced { id },
            error => Self::Store(error),
        }
    }
}
