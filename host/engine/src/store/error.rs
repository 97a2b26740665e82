//! Why a store could not do as it was told.

use glovebox_vfs::{escaped, escaped_text};
use std::path::PathBuf;

use glovebox_runtimes::CacheError;

use super::SessionId;

/// A store could not do as it was told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store's directory or a file in it cannot be used.
    #[error(transparent)]
    Directory(#[from] CacheError),
    /// A session's file is not what was written.
    #[error("the stored session `{id}` is damaged: {reason}; restore `{}` from a copy, or delete the session", escaped(path), reason = escaped_text(.reason))]
    Damaged {
        /// The session.
        id: SessionId,
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A session's state is longer than a store keeps.
    #[error(
        "the stored session `{id}` takes {bytes} bytes, and no more than {most} are stored; delete it, or remove files in it first"
    )]
    TooLarge {
        /// The session.
        id: SessionId,
        /// Its state's length.
        bytes: u64,
        /// The limit.
        most: u64,
    },
    /// The record is another session's than the lock.
    #[error("the lock of session `{locked}` gives no right to write `{id}`; lock that")]
    NotLocked {
        /// The session to be written.
        id: SessionId,
        /// The session that is locked.
        locked: SessionId,
    },
    /// Something else is in the store than whoever writes expects: another process wrote or removed the session, or made one. Nothing
    /// was changed.
    #[error(
        "session `{id}` was changed in the store by another process; nothing was written: read it again, and repeat what was done"
    )]
    Fenced {
        /// The session.
        id: SessionId,
    },
    /// For other stores than ours.
    #[error("the session store failed")]
    Other(#[source] Box<dyn std::error::Error + Send + Sync>),
}
