//! A store for tenants that save no sessions.

use std::io;

use async_trait::async_trait;
use glovebox_sessions::{
    Expected, PageRequest, SessionId, SessionLock, SessionRecord, SessionStore, StoreError, StoredPage, StoredRecord,
    StoredSession, StoredVersion,
};

/// A store that is always empty and refuses to save: for a tenant whose sessions are all in memory
/// ([`OwnSession`](crate::OwnSession)).
#[derive(Clone, Copy, Debug, Default)]
pub struct NoStore;

#[async_trait]
impl SessionStore for NoStore {
    async fn try_lock(&self, _: &SessionId) -> Result<Option<SessionLock>, StoreError> {
        Ok(None)
    }

    async fn put(
        &self,
        _: &SessionLock,
        _: &Expected,
        _: &SessionRecord,
        _: &[u8],
    ) -> Result<StoredVersion, StoreError> {
        Err(StoreError::Other(Box::new(io::Error::from(io::ErrorKind::Unsupported))))
    }

    async fn get(&self, _: &SessionId) -> Result<Option<StoredSession>, StoreError> {
        Ok(None)
    }

    async fn record(&self, _: &SessionId) -> Result<Option<StoredRecord>, StoreError> {
        Ok(None)
    }

    async fn list(&self, _: &PageRequest) -> Result<StoredPage, StoreError> {
        Ok(StoredPage::default())
    }

    async fn remove(&self, _: &SessionLock, _: &Expected) -> Result<bool, StoreError> {
        Ok(false)
    }
}
