//! Session locks.

use std::{any::Any, fmt};

use super::SessionId;

/// The right to write one session of a store. Released when dropped.
pub struct SessionLock {
    id: SessionId,
    guard: Box<dyn Any + Send + Sync>,
}

impl SessionLock {
    /// For stores: creates a lock of this session that lasts as long as `guard`, whose drop releases it.
    pub fn new(id: SessionId, guard: impl Any + Send + Sync) -> Self {
        Self { id, guard: Box::new(guard) }
    }

    /// The session.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// For stores: the guard that the lock was created with, such as a lease to be checked before a write. `None` if the guard has
    /// another type, so the lock is from another store.
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
