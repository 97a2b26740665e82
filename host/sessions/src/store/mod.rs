//! Stores of hibernated sessions and their records, and session locks.

mod directory;
mod prune;
mod record;
#[cfg(test)]
mod tests;

use std::{
    any::Any,
    fmt,
    path::PathBuf,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

use async_trait::async_trait;
use glovebox_runtimes::CacheError;
use glovebox_vfs::{escaped, escaped_text};

pub use directory::DirectoryStore;
pub use prune::{
    PageLimitError, PageRequest, Pages, PruneError, PruneLimits, PruneReason, PruneReport, PruneSkip, PrunedSession,
    SkipReason, StoredPage,
};
pub use record::{
    ExpectedVersion, SessionId, SessionIdError, SessionRecord, StoredEntry, StoredRecord, StoredSession, StoredVersion,
};

/// A store of hibernated sessions, such as [`DirectoryStore`]. Other implementations can use a database or an object
/// store.
///
/// Writes are atomic. A reader receives the state of the last [`put`](Self::put) that returned, or a later state, even
/// if a writer crashed. Several threads and processes can use a store concurrently.
///
/// A writer holds the session's lock, and also passes the version that it expects in the store ([`ExpectedVersion`]). A
/// process can lose its lock without noticing, for example if its lease expires while the process is frozen. The
/// version check detects the loss. The late writer receives [`StoreError::Fenced`], and the other process's writes
/// remain.
///
/// The futures do not need an async runtime. They can perform I/O on the thread that polls them, so poll them only
/// where blocking is allowed, for example with [`block_on`].
#[async_trait]
pub trait SessionStore: fmt::Debug + Send + Sync {
    /// Acquires the session's lock, which is exclusive among all users of the store. Returns `None` if this process or
    /// another process already holds the lock. The session need not exist.
    async fn try_lock(&self, id: &SessionId) -> Result<Option<SessionLock>, StoreError>;

    /// Replaces the expected version of a session, and returns the new version. The write is durable when the future
    /// completes.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if the store does not have the expected version. [`StoreError::NotLocked`] if `lock` is
    /// for a different session. [`StoreError::TooLarge`] if the state exceeds the store's limit. After these errors,
    /// the store is unchanged.
    async fn put(
        &self,
        lock: &SessionLock,
        expected: &ExpectedVersion,
        record: &SessionRecord,
        state: &[u8],
    ) -> Result<StoredVersion, StoreError>;

    /// Reads a session's record, version and state, all from the same write. Returns `None` if there is no such
    /// session.
    async fn get(&self, id: &SessionId) -> Result<Option<StoredSession>, StoreError>;

    /// Like [`get`](Self::get), but without the state.
    async fn record(&self, id: &SessionId) -> Result<Option<StoredRecord>, StoreError>;

    /// Returns a page of sessions, sorted by ID. The page includes damaged sessions, with a description of the damage.
    /// Use [`Pages`] to iterate over all pages.
    async fn list(&self, page: &PageRequest) -> Result<StoredPage, StoreError>;

    /// Counts the sessions, including damaged ones, up to `max`. A store that can count sessions without reading
    /// records should override this method.
    async fn count(&self, max: usize) -> Result<usize, StoreError> {
        let (mut count, mut page) = (0_usize, PageRequest::default());
        while count < max {
            let StoredPage { entries, next } = self.list(&page).await?;
            count = count.saturating_add(entries.len());
            let Some(next) = next else { break };
            page = page.after(next);
        }
        Ok(count.min(max))
    }

    /// Removes a session. Returns `true` if the session existed. Removing a damaged session requires
    /// [`ExpectedVersion::Any`].
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if the stored version differs from the expected version. The session is not removed.
    async fn remove(&self, lock: &SessionLock, expected: &ExpectedVersion) -> Result<bool, StoreError>;
}

struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls a future on this thread until it completes. The future must not need an async runtime. The futures of a
/// [`SessionStore`](crate::SessionStore) meet this condition. Parks the thread between polls, so call this function
/// only where blocking is allowed.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(ThreadWaker(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return done;
        }
        thread::park();
    }
}

/// The right to write one session of a store. Dropping this value releases the lock.
pub struct SessionLock {
    id: SessionId,
    guard: Box<dyn Any + Send + Sync>,
}

impl SessionLock {
    /// Creates a lock for this session. Only stores call this function. Dropping the lock drops `guard`, which must
    /// then release the lock in the store.
    pub fn new(id: SessionId, guard: impl Any + Send + Sync) -> Self {
        Self { id, guard: Box::new(guard) }
    }

    /// Returns the ID of the locked session.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Returns the guard that the lock was created with, such as a lease that a store checks before a write. Returns
    /// `None` if the guard has a different type, because the lock is from a different store.
    #[must_use]
    pub fn guard<T: Any>(&self) -> Option<&T> {
        self.guard.downcast_ref()
    }

    /// Checks a write before a store performs it. `path` names the session's file or object in the error.
    ///
    /// # Errors
    /// [`StoreError::NotLocked`] if `record` is not for the locked session, [`StoreError::Damaged`] if the recorded
    /// length differs from the state's length, and [`StoreError::TooLarge`] if the state has more than `max_bytes`
    /// bytes.
    pub fn check_write(
        &self,
        record: &SessionRecord,
        state: &[u8],
        max_bytes: u64,
        path: impl FnOnce() -> PathBuf,
    ) -> Result<(), StoreError> {
        if record.id != self.id {
            return Err(StoreError::NotLocked { id: record.id.clone(), locked: self.id.clone() });
        }
        if record.bytes != state.len() as u64 {
            return Err(RecordError::from("it does not have the recorded length").of_session(&self.id, path()));
        }
        record.check_length(max_bytes)
    }
}

impl fmt::Debug for SessionLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionLock").field(&self.id).finish()
    }
}

/// The reason why a store cannot read a session's record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The record is damaged, in the described way.
    #[error("{0}")]
    Damaged(String),
    /// A later version of Glovebox wrote the record.
    #[error("the record has format version {found}, but this program reads versions up to {known}")]
    Format {
        /// The record's format version.
        found: u32,
        /// The latest format version that this program reads.
        known: u32,
    },
}

impl RecordError {
    /// Converts the reason to the error for a session. `path` is the session's file, or the URL of its object.
    #[must_use]
    pub fn of_session(self, id: &SessionId, path: PathBuf) -> StoreError {
        let id = id.clone();
        match self {
            Self::Damaged(reason) => StoreError::Damaged { id, path, reason },
            Self::Format { found, known } => StoreError::Format { id, found, known },
        }
    }
}

impl From<String> for RecordError {
    fn from(reason: String) -> Self {
        Self::Damaged(reason)
    }
}

impl From<&str> for RecordError {
    fn from(reason: &str) -> Self {
        Self::Damaged(reason.to_owned())
    }
}

/// Errors of store operations.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store's directory or a file in it cannot be used.
    #[error(transparent)]
    Directory(#[from] CacheError),
    /// A session's file or object is damaged.
    #[error("the stored session `{id}` is damaged: {reason}; restore `{}` from a copy, or delete the session", escaped(path), reason = escaped_text(.reason))]
    Damaged {
        /// The session's ID.
        id: SessionId,
        /// The session's file, or the URL of its object.
        path: PathBuf,
        /// The kind of damage.
        reason: String,
    },
    /// A later version of Glovebox wrote the session's record in a format that this program does not support.
    #[error(
        "the stored session `{id}` has format version {found}, but this program reads versions up to {known}; use the Glovebox version that wrote the session"
    )]
    Format {
        /// The session's ID.
        id: SessionId,
        /// The record's format version.
        found: u32,
        /// The latest format version that this program reads.
        known: u32,
    },
    /// A session's state exceeds the store's limit.
    #[error("the stored session `{id}` is {bytes} bytes; the maximum is {max}; remove data from it, or delete it")]
    TooLarge {
        /// The session's ID.
        id: SessionId,
        /// The size of the state in bytes.
        bytes: u64,
        /// The limit in bytes.
        max: u64,
    },
    /// The write would exceed the limit on the total size of all sessions in the store. Nothing was written.
    #[error(
        "session `{id}` would add {bytes} bytes to the store; the limit for all sessions together is {max}; delete sessions, or remove data from them"
    )]
    Full {
        /// The session's ID.
        id: SessionId,
        /// The number of additional bytes that the write needs.
        bytes: u64,
        /// The limit in bytes.
        max: u64,
    },
    /// The lock is for a different session than the record.
    #[error("the lock of session `{locked}` does not permit writing `{id}`; lock `{id}`")]
    NotLocked {
        /// The session to write.
        id: SessionId,
        /// The locked session.
        locked: SessionId,
    },
    /// The store does not contain the version that the writer expects, because another process wrote, removed or
    /// created the session. The store is unchanged.
    #[error(
        "another process changed session `{id}` in the store; nothing was written; read the session again and retry the change"
    )]
    Fenced {
        /// The session's ID.
        id: SessionId,
    },
    /// The text is not the URL of a store.
    #[error(
        "`{url}` is not the URL of a store: {reason}; use `s3://BUCKET/PREFIX`, `gs://…`, `az://…`, `file:///DIRECTORY` or `memory://NAME`",
        url = escaped(.url), reason = escaped_text(.reason)
    )]
    Url {
        /// The invalid URL.
        url: String,
        /// The reason why the URL is not a store URL.
        reason: String,
    },
    /// An object store did not respond, or rejected the operation.
    #[error("the store `{url}` could not {action}; check that it is reachable, and check its credentials in the environment", url = escaped(.url))]
    Remote {
        /// The store's URL.
        url: String,
        /// The failed operation.
        action: String,
        /// The underlying error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An object store does not provide a guarantee that sessions require.
    #[error("the store `{url}` cannot store sessions: {reason}; use another store", url = escaped(.url), reason = escaped_text(.reason))]
    Unfit {
        /// The store's URL.
        url: String,
        /// The observed behaviour that makes the store unsuitable.
        reason: String,
    },
    /// An error from a third-party store.
    #[error("the session store failed")]
    Other(#[source] Box<dyn std::error::Error + Send + Sync>),
}

// Structured log events of stored sessions, through `tracing` with the target `glovebox`, and their fields:
//
// * `session.created`, `session.retrieved`, `session.hibernated`, `session.resumed`, `session.deleted`: `session_id`.
// * `session.fenced` (another process took over the session): `session_id`.
// * `session.prune.delete`: `session_id`, `bytes`, `reason`, `dry_run`.
// * `session.prune.complete`: `deleted`, `skipped`, `failed`, `reclaimed_bytes`, `dry_run`.

/// Logs a change to a stored session.
pub(crate) fn log_session(message: &'static str, id: &SessionId) {
    tracing::info!(target: "glovebox", session_id = id.as_str(), "{message}");
}

/// Logs a session that was pruned, or would be pruned without `dry_run`.
pub(crate) fn log_pruned(pruned: &PrunedSession, dry_run: bool) {
    tracing::info!(
        target: "glovebox",
        session_id = pruned.id.as_str(),
        bytes = pruned.bytes,
        reason = pruned.reason.word(),
        dry_run,
        "session.prune.delete"
    );
}

pub(crate) fn log_prune_complete(report: &PruneReport) {
    tracing::info!(
        target: "glovebox",
        deleted = report.deleted.len(),
        skipped = report.skipped.len(),
        failed = report.errors.len(),
        reclaimed_bytes = report.reclaimed_bytes,
        dry_run = report.dry_run,
        "session.prune.complete"
    );
}
