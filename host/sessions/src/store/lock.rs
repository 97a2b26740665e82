//! Session locks.

use std::{any::Any, fmt};

use super::SessionId;

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
