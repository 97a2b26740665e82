//! A store that a worker accesses itself, and whose limit the server enforces.

use std::sync::Arc;

use async_trait::async_trait;
use glovebox_sessions::{
    Expected, PageRequest, SessionId, SessionLock, SessionRecord, SessionStore, StoreError, StoredPage, StoredRecord,
    StoredSession, StoredVersion,
};

use super::{
    ParentStore,
    parent_store::unexpected,
    protocol::{StoreOperation, StoreReply},
};

/// A tenant's store that this worker accesses itself. The server reserves the bytes of each write.
#[derive(Debug)]
pub struct CountedStore {
    store: Arc<dyn SessionStore>,
    parent: ParentStore,
}

impl CountedStore {
    pub(super) fn new(store: Arc<dyn SessionStore>, parent: ParentStore) -> Self {
        Self { store, parent }
    }

    /// Reserves bytes for a write. Fails if the tenant's sessions would exceed their limit.
    async fn reserve(&self, id: &SessionId, bytes: u64) -> Result<ReservedThere<'_>, StoreError> {
        match self.parent.ask(StoreOperation::Reserve { id: id.clone(), bytes }, Vec::new()).await? {
            (StoreReply::Reserved(reservation), _) => Ok(ReservedThere { parent: &self.parent, reservation }),
            _ => Err(unexpected()),
        }
    }
}

/// Bytes that the server has reserved for a write of this worker, released on drop.
struct ReservedThere<'a> {
    parent: &'a ParentStore,
    reservation: u64,
}

impl Drop for ReservedThere<'_> {
    fn drop(&mut self) {
        self.parent.tell(StoreOperation::Release { reservation: self.reservation });
    }
}

#[async_trait]
impl SessionStore for CountedStore {
    async fn try_lock(&self, id: &SessionId) -> Result<Option<SessionLock>, StoreError> {
        self.store.try_lock(id).await
    }

    async fn put(
        &self,
        lock: &SessionLock,
        expected: &Expected,
        record: &SessionRecord,
        state: &[u8],
    ) -> Result<StoredVersion, StoreError> {
        let bytes = u64::try_from(state.len()).unwrap_or(u64::MAX);
        let _reserved = self.reserve(lock.id(), bytes).await?;
        self.store.put(lock, expected, record, state).await
    }

    async fn get(&self, id: &SessionId) -> Result<Option<StoredSession>, StoreError> {
        self.store.get(id).await
    }

    async fn record(&self, id: &SessionId) -> Result<Option<StoredRecord>, StoreError> {
        self.store.record(id).await
    }

    async fn list(&self, page: &PageRequest) -> Result<StoredPage, StoreError> {
        self.store.list(page).await
    }

    async fn count(&self, most: usize) -> Result<usize, StoreError> {
        self.store.count(most).await
    }

    async fn remove(&self, lock: &SessionLock, expected: &Expected) -> Result<bool, StoreError> {
        self.store.remove(lock, expected).await
    }
}
