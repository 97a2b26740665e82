//! The right to write one session.

use std::{any::Any, fmt};

use super::SessionId;

/// The right to write one session of a store; given back when dropped.
pub struct SessionLock {
    id: SessionId,
    guard: Box<dyn Any + Send + Sync>,
}

impl SessionLock {
    /// For stores: a lock of this session that lasts as long as `guard`, whose drop gives it back.
    pub fn new(id: SessionId, guard: impl Any + Send + Sync) -> Self {
        Self { id, guard: Box::new(guard) }
    }

    /// The session.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// For stores: the guard that the lock was made with, such as a lease to be looked at before a write. `None` if the lock was made
    /// with another type, and so by another store.
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
