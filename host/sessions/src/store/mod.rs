//! Stores of hibernated sessions, each with a record that describes it, and the locks of sessions.

mod directory;
mod error;
#[cfg(feature = "object-store")]
mod objects;
mod page;
mod prune;
mod record;
#[cfg(test)]
mod tests;

use std::{
    any::Any,
    fmt,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

use async_trait::async_trait;

pub use directory::DirectoryStore;
pub use error::StoreError;
#[cfg(feature = "object-store")]
pub use objects::{BlobInfo, BlobPage, BlobStore, ObjectStore};
pub use page::Pages;
pub use page::{PageLimitError, PageRequest, StoredPage};
pub use prune::Prune;
pub use prune::{PruneError, PruneReason, PruneReport, PruneSkip, Pruned, SkipReason};
pub(crate) use record::MAX_WORKSPACE_BYTES;
pub use record::{Expected, StoredVersion};
pub use record::{SessionId, SessionIdError};
pub use record::{SessionRecord, StoredEntry, StoredRecord, StoredSession};

/// A store of hibernated sessions, such as [`DirectoryStore`]. Other implementations can use a database or an object
/// store.
///
/// Writes are atomic. A reader gets the last state whose [`put`](Self::put) returned, or a later one, even if the
/// writer crashed. Several threads and processes use a store concurrently.
///
/// A writer holds the session's lock, and also passes the version that it expects in the store ([`Expected`]). A holder
/// can lose its lock without noticing, for example if a lease expired while the process was frozen. The version detects
/// that: a late writer gets [`StoreError::Fenced`], and the other process's writes remain.
///
/// The futures need no async runtime. They may do I/O on the thread that polls them, so poll them only where blocking
/// is allowed; [`block_on`] does.
#[async_trait]
pub trait SessionStore: fmt::Debug + Send + Sync {
    /// Acquires the session's lock, which is exclusive among all processes that use the store. Returns `None` if
    /// another process holds it. The session need not exist.
    async fn try_lock(&self, id: &SessionId) -> Result<Option<SessionLock>, StoreError>;

    /// Replaces the expected version of a session, and returns the new version. The write is durable when this returns.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if the store does not have the expected version. Nothing was written.
    async fn put(
        &self,
        lock: &SessionLock,
        expected: &Expected,
        record: &SessionRecord,
        state: &[u8],
    ) -> Result<StoredVersion, StoreError>;

    /// Reads a session's record, version and state, all of one write. Returns `None` if the session does not exist.
    async fn get(&self, id: &SessionId) -> Result<Option<StoredSession>, StoreError>;

    /// Like [`get`](Self::get), without the state.
    async fn record(&self, id: &SessionId) -> Result<Option<StoredRecord>, StoreError>;

    /// Returns a page of sessions in the order of their ids. Damaged sessions are marked. [`Pages`] iterates over all
    /// pages.
    async fn list(&self, page: &PageRequest) -> Result<StoredPage, StoreError>;

    /// Counts the sessions, including damaged ones, up to `most`. Stores that can count without reading records should
    /// override this.
    async fn count(&self, most: usize) -> Result<usize, StoreError> {
        let (mut count, mut page) = (0_usize, PageRequest::default());
        while count < most {
            let StoredPage { entries, next } = self.list(&page).await?;
            count = count.saturating_add(entries.len());
            let Some(next) = next else { break };
            page = page.after(next);
        }
        Ok(count.min(most))
    }

    /// Removes a session. Removing a damaged one requires [`Expected::Any`]. Returns whether the session existed.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if the session exists in another version than the expected one. It is not removed.
    async fn remove(&self, lock: &SessionLock, expected: &Expected) -> Result<bool, StoreError>;
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls a future on this thread until it completes. The future must not need an async runtime; the futures of a
/// [`SessionStore`](crate::SessionStore) do not. Parks the thread between polls, so call it only where blocking is
/// allowed.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return done;
        }
        thread::park();
    }
}

/// The right to write one session of a store. Dropping it releases the lock.
pub struct SessionLock {
    id: SessionId,
    guard: Box<dyn Any + Send + Sync>,
}

impl SessionLock {
    /// For stores: creates a lock of this session. Dropping the lock drops `guard`, which must then release it.
    pub fn new(id: SessionId, guard: impl Any + Send + Sync) -> Self {
        Self { id, guard: Box::new(guard) }
    }

    /// Returns the id of the locked session.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// For stores: returns the guard that the lock was created with, such as a lease to check before a write. `None` if
    /// the guard has another type, because the lock is from another store.
    #[must_use]
    pub fn guard<T: Any>(&self) -> Option<&T> {
        self.guard.downcast_ref()
    }
}

impl fmt::Debug for SessionLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionLock").field(&self.id).finish()
    }
}
