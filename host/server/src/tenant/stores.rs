//! Session stores of a tenant: a store with a size limit, a store that traces its operations, and a store that is
//! always empty.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use glovebox_sessions::{
    Expected, PageRequest, SessionId, SessionLock, SessionRecord, SessionStore, StoreError, StoredPage, StoredRecord,
    StoredSession, StoredVersion,
};
use tracing::{Instrument as _, info_span};

use crate::SPANS;

/// Maximum age of the counted bytes. Other processes, such as a server's workers, write to the same store.
const RECOUNT: Duration = Duration::from_secs(1);

/// A store with a limit on the total size of its sessions. Removing or shrinking a session is always possible.
#[derive(Debug)]
pub(super) struct BoundedStore {
    store: Arc<dyn SessionStore>,
    most: u64,
    count: Mutex<Count>,
}

#[derive(Debug, Default)]
struct Count {
    /// The total size of all sessions in bytes, with the time of the count. `None` forces a recount.
    stored: Option<(u64, Instant)>,
    /// The number of bytes that writes in progress will add.
    reserved: u64,
}

/// The bytes reserved for a write in progress, released on drop.
struct Reserved<'a> {
    store: &'a BoundedStore,
    bytes: u64,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let mut count = self.store.counted();
        count.reserved = count.reserved.saturating_sub(self.bytes);
    }
}

impl BoundedStore {
    pub(super) fn new(store: Arc<dyn SessionStore>, most: u64) -> Self {
        Self { store, most, count: Mutex::default() }
    }

    fn counted(&self) -> MutexGuard<'_, Count> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the total size of all sessions in bytes. The count is at most a second old.
    async fn stored(&self) -> Result<u64, StoreError> {
        let counted = self.counted().stored;
        if let Some((bytes, at)) = counted
            && at.elapsed() < RECOUNT
        {
            return Ok(bytes);
        }
        let at = Instant::now();
        let (mut bytes, mut page) = (0_u64, PageRequest::default());
        loop {
            let StoredPage { entries, next, .. } = self.store.list(&page).await?;
            bytes = entries.iter().fold(bytes, |bytes, entry| bytes.saturating_add(entry.stored_bytes));
            let Some(next) = next else { break };
            page = page.after(next);
        }
        self.counted().stored = Some((bytes, at));
        Ok(bytes)
    }

    /// Reserves the bytes that a write adds to a session. Fails if the total would exceed the limit.
    async fn reserve(&self, id: &SessionId, bytes: u64) -> Result<Reserved<'_>, StoreError> {
        let before = match self.store.record(id).await {
            Ok(found) => found.map_or(0, |stored| stored.record.bytes),
            // The size of a damaged session is unknown, so the write is charged in full.
            Err(StoreError::Damaged { .. }) => 0,
            Err(error) => return Err(error),
        };
        let added = bytes.saturating_sub(before);
        if added == 0 {
            return Ok(Reserved { store: self, bytes: 0 });
        }
        let stored = self.stored().await?;
        let mut count = self.counted();
        let total = stored.saturating_add(count.reserved).saturating_add(added);
        if total > self.most {
            return Err(StoreError::Full { id: id.clone(), bytes: added, most: self.most });
        }
        count.reserved = count.reserved.saturating_add(added);
        drop(count);
        Ok(Reserved { store: self, bytes: added })
    }
}

#[async_trait]
impl SessionStore for BoundedStore {
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
        let reserved = self.reserve(lock.id(), bytes).await?;
        let version = self.store.put(lock, expected, record, state).await?;
        if let Some((stored, _)) = &mut self.counted().stored {
            *stored = stored.saturating_add(reserved.bytes);
        }
        Ok(version)
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
        let removed = self.store.remove(lock, expected).await;
        self.counted().stored = None;
        removed
    }
}

/// A store that records its operations as spans, children of the execution's span.
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

/// A store that is always empty and refuses to save, for tenants whose sessions are all in memory
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

#[cfg(test)]
mod tests {
    use glovebox::{Language, Timestamp};
    use glovebox_sessions::{DirectoryStore, block_on};

    use super::*;

    fn record(id: &SessionId, bytes: u64) -> SessionRecord {
        let at = Timestamp::from_unix_ms(0);
        serde_json::from_value(serde_json::json!({
            "id": id, "created_at": at, "updated_at": at, "language": Language::Python, "runtime": "python", "version": null,
            "image_sha256": "", "executions": 0, "files": null, "bytes": bytes,
        }))
        .unwrap()
    }

    #[test]
    fn store_at_its_limit_rejects_only_growth() {
        let dir = tempfile::tempdir().unwrap();
        // Each session file also contains a header of a few hundred bytes.
        let store = BoundedStore::new(Arc::new(DirectoryStore::open(dir.path()).unwrap()), 25_000);
        let put = |name: &str, bytes: usize| {
            let id = SessionId::new(name).unwrap();
            let lock = block_on(store.try_lock(&id)).unwrap().unwrap();
            let record = record(&id, bytes as u64);
            block_on(store.put(&lock, &Expected::Any, &record, &vec![0; bytes])).map(drop)
        };
        put("a", 10_000).unwrap();
        put("b", 10_000).unwrap();
        assert!(matches!(put("c", 10_000), Err(StoreError::Full { bytes: 10_000, most: 25_000, .. })));
        assert!(matches!(put("a", 20_000), Err(StoreError::Full { bytes: 10_000, .. })));
        // A recount returns the same total.
        store.counted().stored = None;
        assert!(matches!(put("c", 10_000), Err(StoreError::Full { .. })));
        put("b", 10_000).unwrap();
        put("b", 1_000).unwrap();
        let id = SessionId::new("a").unwrap();
        let lock = block_on(store.try_lock(&id)).unwrap().unwrap();
        assert!(block_on(store.remove(&lock, &Expected::Any)).unwrap());
        put("c", 20_000).unwrap();
        assert_eq!(store.counted().reserved, 0);
    }
}
