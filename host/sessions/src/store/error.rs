//! Errors of session stores.

use glovebox_vfs::{escaped, escaped_text};
use std::path::PathBuf;

use glovebox_runtimes::CacheError;

use super::SessionId;

/// A failed store operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store's directory or a file in it cannot be used.
    #[error(transparent)]
    Directory(#[from] CacheError),
    /// A session's file is damaged.
    #[error("the stored session `{id}` is damaged: {reason}; restore `{}` from a copy, or delete the session", escaped(path), reason = escaped_text(.reason))]
    Damaged {
        /// The session's id.
        id: SessionId,
        /// The session's file.
        path: PathBuf,
        /// The kind of damage.
        reason: String,
    },
    /// A session's state exceeds the store's limit.
    #[error(
        "the stored session `{id}` takes {bytes} bytes, and the limit is {most}; delete it, or remove files in it first"
    )]
    TooLarge {
        /// The session's id.
        id: SessionId,
        /// Size of the state in bytes.
        bytes: u64,
        /// The limit in bytes.
        most: u64,
    },
    /// The write would exceed the limit on all sessions of the store together. Nothing was written.
    #[error(
        "session `{id}` would add {bytes} bytes to the store, and the limit on all sessions together is {most}; delete sessions, or remove files in them"
    )]
    Full {
        /// The session's id.
        id: SessionId,
        /// Additional bytes of the write.
        bytes: u64,
        /// The limit in bytes.
        most: u64,
    },
    /// The lock is for a different session than the record.
    #[error("the lock of session `{locked}` does not permit writing `{id}`; lock `{id}`")]
    NotLocked {
        /// The session to write.
        id: SessionId,
        /// The locked session.
        locked: SessionId,
    },
    /// The store does not contain the version that the writer expects: another process wrote, removed or created the
    /// session. Nothing was changed.
    #[error(
        "another process changed session `{id}` in the store; nothing was written; read it again and repeat the change"
    )]
    Fenced {
        /// The session's id.
        id: SessionId,
    },
    /// The URL does not name a store.
    #[cfg(feature = "object-store")]
    #[error(
        "`{url}` is not the URL of a store: {reason}; use `s3://BUCKET/PREFIX`, `gs://…`, `az://…`, `file:///DIRECTORY` or `memory://NAME`",
        url = escaped(.url), reason = escaped_text(.reason)
    )]
    Url {
        /// The invalid URL.
        url: String,
        /// The reason why it is not a store URL.
        reason: String,
    },
    /// An object store did not respond, or refused the operation.
    #[cfg(feature = "object-store")]
    #[error("the store `{url}` could not {action}; check that it is reachable, and check its credentials in the environment", url = escaped(.url))]
    Remote {
        /// The store's URL.
        url: String,
        /// The failed operation.
        action: String,
        /// Underlying error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An object store does not give a guarantee that sessions need.
    #[cfg(feature = "object-store")]
    #[error("the store `{url}` cannot hold sessions: {reason}; use another", url = escaped(.url), reason = escaped_text(.reason))]
    Unfit {
        /// The store's URL.
        url: String,
        /// The store's behavior in the test.
        reason: String,
    },
    /// A blob exceeds the size limit.
    #[cfg(feature = "object-store")]
    #[error("blob `{name}` takes {bytes} bytes, and the limit is {most}", name = escaped(.name))]
    BlobTooLarge {
        /// The blob's name.
        name: String,
        /// Length of the blob in bytes.
        bytes: u64,
        /// The limit in bytes.
        most: u64,
    },
    /// A blob with other contents has this name.
    #[cfg(feature = "object-store")]
    #[error("blob `{name}` already exists with other contents, and blobs are immutable; use another name", name = escaped(.name))]
    BlobExists {
        /// The blob's name.
        name: String,
    },
    /// The text is not a valid blob name.
    #[cfg(feature = "object-store")]
    #[error("`{name}` cannot name a blob; use up to 512 letters, digits, `.`, `_`, `-`, `!`, with single `/` between parts of up to 240", name = escaped(.name))]
    BlobName {
        /// The invalid name.
        name: String,
    },
    /// An error of a third-party store.
    #[error("the session store failed")]
    Other(#[source] Box<dyn std::error::Error + Send + Sync>),
}
