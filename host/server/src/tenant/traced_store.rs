//! A store that traces its operations.

use std::sync::Arc;

use async_trait::async_trait;
use glovebox_sessions::{
    Expected, PageRequest, SessionId, SessionLock, SessionRecord, SessionStore, StoreError, StoredPage, StoredRecord,
    StoredSession, StoredVersion,
};
use tracing::{Instrument as _, info_span};

use crate::SPANS;

/// A store whose operations are spans, as children of the execution's span.
#[derive(Debug)]
pub(super) struct TracedStore(pub(super) Arc<dyn SessionStore>);

#[async_trait]
impl SessionStore for TracedStore {
    async fn try_lock(&self, id: &SessionId) -> Result<Option<SessionLock>, StoreError> {
        self.0.try_lock(id).await
    }

    async fn put(
        &self,
        lock: &SessionLock,
        expected: &Expected,
        record: &SessionRecord,
        state: &[u8],
    ) -> Result<StoredVersion, StoreError> {
        let span = info_span!(target: SPANS, "store", operation = "put", bytes = state.len());
        self.0.put(lock, expected, record, state).instrument(span).await
    }

    async fn get(&self, id: &SessionId) -> Result<Option<StoredSession>, StoreError> {
        self.0.get(id).instrument(info_span!(target: SPANS, "store", operation = "get")).await
    }

    async fn record(&self, id: &SessionId) -> Result<Option<StoredRecord>, StoreError> {
        self.0.record(id).await
    }

    async fn list(&self, page: &PageRequest) -> Result<StoredPage, StoreError> {
        self.0.list(page).instrument(info_span!(target: SPANS, "store", operation = "list")).await
    }

    async fn count(&self, most: usize) -> Result<usize, StoreError> {
        self.0.count(most).instrument(info_span!(target: SPANS, "store", operation = "count")).await
    }

    async fn remove(&self, lock: &SessionLock, expected: &Expected) -> Result<bool, StoreError> {
        self.0.remove(lock, expected).instrument(info_span!(target: SPANS, "store", operation = "remove")).await
    }
}
