//! Why an operation on a stored session failed.

use glovebox_vfs::escaped;

use crate::{BuildError, ExecuteError, Execution, HibernateError, Language, ResumeError, SessionId, StoreError};

/// [`Sessions`](crate::Sessions) could not do as they were told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionsError {
    /// The store failed.
    #[error(transparent)]
    Store(StoreError),
    /// The session, or an execution in it, failed on our side.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// A sandbox for it could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// There is no such session.
    #[error("there is no session `{id}`; `glovebox session list` names those there are")]
    NotFound {
        /// The session.
        id: SessionId,
    },
    /// There is such a session already.
    #[error("there is a session `{id}` already; choose another id or delete it first")]
    Exists {
        /// The session.
        id: SessionId,
    },
    /// Another process has the session, or another thread is still using it.
    #[error("session `{id}` is in use by another process or thread; wait for it to finish, or use another session")]
    InUse {
        /// The session.
        id: SessionId,
    },
    /// Another process took the session over, though it was locked here: nothing that was done with it here since it was last
    /// saved is in the store, and no execution of it counts. The live session was dropped, without its exit handlers. What scripts did
    /// outside of it, by tools and in host directories, stays.
    #[error("another process took session `{id}` over; what ran here was discarded; run it again")]
    Fenced {
        /// The session.
        id: SessionId,
    },
    /// It is written in another language.
    #[error("session `{id}` runs {has}, not {wanted}; use another id for {wanted}")]
    Language {
        /// The session.
        id: SessionId,
        /// Its language.
        has: Language,
        /// What was asked for.
        wanted: Language,
    },
    /// No sandbox was given that could run it.
    #[error("no sandbox for {language} was given, which session `{id}` needs; give one to `Sessions`")]
    NoSandbox {
        /// The session.
        id: SessionId,
        /// Its language.
        language: Language,
    },
    /// All live sessions are in use, and no more may be live.
    #[error("{most} sessions are live and in use, and no more may be (`live_count`); wait for one, or raise it")]
    TooManyLive {
        /// The limit.
        most: usize,
    },
    /// It cannot be made from what is stored of it.
    #[error("session `{id}` cannot be resumed")]
    Resume {
        /// The session.
        id: SessionId,
        /// Why.
        source: Box<ResumeError>,
    },
    /// It was saved with a host directory as its workspace, and none is given.
    #[error(
        "session `{id}` cannot be resumed without its workspace, which was `{name}`; give it (`--workspace`, `Policy::workspace`)",
        name = escaped(.workspace)
    )]
    NoWorkspace {
        /// The session.
        id: SessionId,
        /// The directory.
        workspace: String,
        /// What was found out.
        source: Box<ResumeError>,
    },
    /// It was saved with files of its own, and a host directory is given.
    #[error(
        "session `{id}` has files of its own at `/app`, so that `{name}` cannot be there; leave the workspace out \
         (`--workspace`, `Policy::workspace`), or mount it elsewhere in a new session",
        name = escaped(.given)
    )]
    OwnFiles {
        /// The session.
        id: SessionId,
        /// The directory.
        given: String,
        /// What was found out.
        source: Box<ResumeError>,
    },
    /// It could not be written to the store. It lives on, unsaved.
    #[error("session `{id}` could not be saved")]
    Save {
        /// The session.
        id: SessionId,
        /// Why.
        source: Box<HibernateError>,
    },
    /// The script ran, but the session could not be written to the store afterwards. It lives on, unsaved.
    #[error("the execution in session `{id}` could not be saved")]
    Unsaved {
        /// The session.
        id: SessionId,
        /// What the guest did nevertheless.
        execution: Box<Execution>,
        /// Why.
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
