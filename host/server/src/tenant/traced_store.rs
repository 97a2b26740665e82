//! A store whose uses are spans.

use std::sync::Arc;

use glovebox::{SessionId, SessionLock, SessionRecord, SessionStore, StoreError, StoredEntry, StoredSession};
use tracing::info_span;

use crate::SPANS;

/// A store whose uses are spans, below that of the execution.
#[derive(Debug)]
pub(super) struct TracedStore(pub(super) Arc<dyn SessionStore>);

impl SessionStore for TracedStore {
    fn try_lock(&self, id: &SessionId) -> Result<Option<SessionLock>, StoreError> {
        self.0.try_lock(id)
    }

    fn put(&self, lock: &SessionLock, record: &SessionRecord, state: &[u8]) -> Result<(), StoreError> {
        let _span = info_span!(target: SPANS, "store", operation = "put", bytes = state.len()).entered();
        self.0.put(lock, record, state)
    }

    fn get(&self, id: &SessionId) -> Result<Option<StoredSession>, StoreError> {
        let _span = info_span!(target: SPANS, "store", operation = "get").entered();
        self.0.get(id)
    }

    fn record(&self, id: &SessionId) -> Result<Option<SessionRecord>, StoreError> {
        self.0.record(id)
    }

    fn list(&self) -> Result<Vec<StoredEntry>, StoreError> {
        let _span = info_span!(target: SPANS, "store", operation = "list").entered();
        self.0.list()
    }

    fn remove(&self, lock: &SessionLock) -> Result<bool, StoreError> {
        let _span = info_span!(target: SPANS, "store", operation = "remove").entered();
        self.0.remove(lock)
    }
}
