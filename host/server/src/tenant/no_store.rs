//! A store for those who save no sessions.

use std::io;

use glovebox::{SessionId, SessionLock, SessionRecord, SessionStore, StoreError, StoredEntry, StoredSession};

/// A store that has nothing and takes nothing: for a tenant whose sessions are all in memory ([`OwnSession`](crate::OwnSession)).
#[derive(Clone, Copy, Debug, Default)]
pub struct NoStore;

impl SessionStore for NoStore {
    fn try_lock(&self, _: &SessionId) -> Result<Option<SessionLock>, StoreError> {
        Ok(None)
    }

    fn put(&self, _: &SessionLock, _: &SessionRecord, _: &[u8]) -> Result<(), StoreError> {
        Err(StoreError::Other(Box::new(io::Error::from(io::ErrorKind::Unsupported))))
    }

    fn get(&self, _: &SessionId) -> Result<Option<StoredSession>, StoreError> {
        Ok(None)
    }

    fn record(&self, _: &SessionId) -> Result<Option<SessionRecord>, StoreError> {
        Ok(None)
    }

    fn list(&self) -> Result<Vec<StoredEntry>, StoreError> {
        Ok(Vec::new())
    }

    fn remove(&self, _: &SessionLock) -> Result<bool, StoreError> {
        Ok(false)
    }
}
