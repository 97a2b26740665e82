//! Where hibernated sessions are stored, each with a record of what it is.

mod directory;
mod error;
mod id;
mod prune;
mod prune_report;
mod record;
#[cfg(test)]
mod tests;

pub use directory::DirectoryStore;
pub use error::StoreError;
pub use id::{SessionId, SessionIdError};
pub use prune::Prune;
pub use prune_report::{PruneError, PruneReason, PruneReport, PruneSkip, Pruned, SkipReason};
pub(crate) use record::MAX_WORKSPACE_BYTES;
pub use record::{SessionRecord, StoredEntry, StoredSession};

use std::{any::Any, fmt};

/// Keeps hibernated sessions: the directory store is one, and others can be written, over a database or an object store.
///
/// A session is written whole or not at all: whoever reads gets the last state whose [`put`](Self::put) came back, or a
/// later one, whatever happened to the writer. Used from several threads and processes at once.
pub trait SessionStore: fmt::Debug + Send + Sync {
    /// Takes the session's lock, which only one holder has in all processes that use the store; none while another has
    /// it. The session need not be there.
    fn try_lock(&self, id: &SessionId) -> Result<Option<SessionLock>, StoreError>;

    /// Writes a session in the place of what was there. It lasts when this returns.
    fn put(&self, lock: &SessionLock, record: &SessionRecord, state: &[u8]) -> Result<(), StoreError>;

    /// A session's record and state; none if there is no such session.
    fn get(&self, id: &SessionId) -> Result<Option<StoredSession>, StoreError>;

    /// A session's record alone.
    fn record(&self, id: &SessionId) -> Result<Option<SessionRecord>, StoreError>;

    /// Every session, in the order of their ids. Damaged ones are listed as such.
    fn list(&self) -> Result<Vec<StoredEntry>, StoreError>;

    /// Removes a session, a damaged one too; whether there was one.
    fn remove(&self, lock: &SessionLock) -> Result<bool, StoreError>;
}

/// The right to write one session of a store; given back when dropped.
pub struct SessionLock {
    id: SessionId,
    _guard: Box<dyn Any + Send + Sync>,
}

impl SessionLock {
    /// For stores: a lock of this session that lasts as long as `guard`, whose drop gives it back.
    pub fn new(id: SessionId, guard: impl Any + Send + Sync) -> Self {
        Self { id, _guard: Box::new(guard) }
    }

    /// The session.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.id
    }
}

impl fmt::Debug for SessionLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionLock").field(&self.id).finish()
    }
}
