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
    /// The URL cannot be a store's.
    #[cfg(feature = "object-store")]
    #[error(
        "`{url}` is not the URL of a store: {reason}; use `s3://BUCKET/PREFIX`, `gs://…`, `az://…`, `file:///DIRECTORY` or `memory://NAME`",
        url = escaped(.url), reason = escaped_text(.reason)
    )]
    Url {
        /// The URL.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An object store did not answer, or refused.
    #[cfg(feature = "object-store")]
    #[error("the store `{url}` could not {action}; look whether it can be reached, and at its credentials in the environment", url = escaped(.url))]
    Remote {
        /// The store.
        url: String,
        /// What it was to do.
        action: String,
        /// What it said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An object store does not do what sessions need of one.
    #[cfg(feature = "object-store")]
    #[error("the store `{url}` cannot hold sessions: {reason}; use another", url = escaped(.url), reason = escaped_text(.reason))]
    Unfit {
        /// The store.
        url: String,
        /// What it did instead.
        reason: String,
    },
    /// A blob is longer than may be stored.
    #[cfg(feature = "object-store")]
    #[error("`{name}` takes {bytes} bytes in the store, and no more than {most} are stored", name = escaped(.name))]
    BlobTooLarge {
        /// The blob.
        name: String,
        /// Its length.
        bytes: u64,
        /// The limit.
        most: u64,
    },
    /// There is another blob of this name.
    #[cfg(feature = "object-store")]
    #[error("the store has other bytes under the name `{name}`, and a blob is never changed; use another name", name = escaped(.name))]
    BlobExists {
        /// The blob.
        name: String,
    },
    /// This cannot be a blob's name.
    #[cfg(feature = "object-store")]
    #[error("`{name}` cannot name a blob; use up to 512 letters, digits, `.`, `_`, `-`, `!`, with single `/` between parts of up to 240", name = escaped(.name))]
    BlobName {
        /// The name.
        name: String,
    },
    /// For other stores than ours.
    #[error("the session store failed")]
    Other(#[source] Box<dyn std::error::Error + Send + Sync>),
}
