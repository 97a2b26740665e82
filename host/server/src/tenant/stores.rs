//! Session stores of a tenant: a store with a size limit, and a store that is always empty.

use std::{
    fmt, io,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use glovebox_sessions::{
    ExpectedVersion, PageRequest, Pages, SessionId, SessionLock, SessionRecord, SessionStore, StoreError, StoredPage,
    StoredRecord, StoredSession, StoredVersion,
};
use parking_lot::Mutex;
use tracing::{Instrument as _, Span, info_span, instrument::Instrumented};

use crate::SPANS;

/// Maximum age of the counted bytes. The count expires because other servers and `glovebox session` can write to the
/// same store.
const RECOUNT: Duration = Duration::from_secs(1);

/// A store with a limit on the total size of its sessions. Removing or shrinking a session is always possible. Traces
/// its operations, except locking and reading a record.
#[derive(Debug)]
pub(crate) struct BoundedStore {
    store: Arc<dyn SessionStore>,
    quota: Arc<dyn ByteQuota>,
}

/// A limit on the total size of a tenant's sessions. All writes must reserve their bytes in the same quota, so a
/// server's workers reserve bytes in the server ([`ParentStore`](crate::ParentStore)).
#[async_trait]
pub(crate) trait ByteQuota: fmt::Debug + Send + Sync {
    /// Reserves the bytes by which a write of `bytes` enlarges a session. Fails if the total would exceed the limit.
    async fn reserve(&self, id: &SessionId, bytes: u64) -> Result<Reservation, StoreError>;
}

/// Bytes reserved for a write, dropped when the write has ended.
pub(crate) type Reservation = Box<dyn Send + Sync>;

/// The quota of a store, which counts the sessions of all stores that share the quota.
#[derive(Debug)]
struct StoredBytes {
    store: Arc<dyn SessionStore>,
    /// The stores that share the quota, including `store`.
    counted: Vec<Arc<dyn SessionStore>>,
    max: u64,
    count: Arc<Mutex<ByteCount>>,
}

#[derive(Debug, Default)]
struct ByteCount {
    /// The total size of all sessions in bytes, with the time of the count.
    stored: Option<(u64, Instant)>,
    /// The number of bytes that writes in progress will add.
    reserved: u64,
    /// The number of bytes that all finished writes have added.
    written: u64,
}

impl ByteCount {
    /// Returns the total size of all sessions after the writes in progress.
    fn total(&self) -> u64 {
        self.stored.map_or(0, |(bytes, _)| bytes).saturating_add(self.reserved)
    }
}

/// The bytes reserved for a write, which are counted as stored on drop. A failed write might have reached the store, so
/// its bytes are included until the store is listed again.
#[derive(Debug)]
struct ReservedBytes {
    count: Arc<Mutex<ByteCount>>,
    bytes: u64,
}

impl Drop for ReservedBytes {
    fn drop(&mut self) {
        let mut count = self.count.lock();
        count.reserved = count.reserved.saturating_sub(self.bytes);
        count.written = count.written.saturating_add(self.bytes);
        if let Some((stored, _)) = &mut count.stored {
            *stored = stored.saturating_add(self.bytes);
        }
    }
}

impl BoundedStore {
    /// Limits the total size of the sessions in `store` to `max` bytes. `u64::MAX` means no limit.
    pub(crate) fn new(store: Arc<dyn SessionStore>, max: u64) -> Self {
        let counted = vec![Arc::clone(&store)];
        let quota = StoredBytes { store: Arc::clone(&store), counted, max, count: Arc::default() };
        Self::within(store, Arc::new(quota))
    }

    /// Like [`new`](Self::new), but limits the total size of the sessions in two stores together.
    pub(crate) fn pair(stores: [Arc<dyn SessionStore>; 2], max: u64) -> [Self; 2] {
        let (counted, count) = (stores.to_vec(), Arc::<Mutex<ByteCount>>::default());
        stores.map(|store| {
            let (counted, count) = (counted.clone(), Arc::clone(&count));
            let quota = StoredBytes { store: Arc::clone(&store), counted, max, count };
            Self::within(store, Arc::new(quota))
        })
    }

    /// Limits the total size of the sessions in `store` with a quota that other stores can share.
    pub(crate) fn within(store: Arc<dyn SessionStore>, quota: Arc<dyn ByteQuota>) -> Self {
        Self { store, quota }
    }

    pub(crate) fn quota(&self) -> &dyn ByteQuota {
        &*self.quota
    }

    /// Writes a new session whose bytes the caller has already reserved in [`quota`](Self::quota).
    pub(crate) async fn put_reserved(
        &self,
        lock: &SessionLock,
        record: &SessionRecord,
        state: &[u8],
    ) -> Result<StoredVersion, StoreError> {
        let expected = ExpectedVersion::Absent;
        traced("put", Some(state.len()), self.store.put(lock, &expected, record, state)).await
    }
}

impl StoredBytes {
    /// Computes the total size of all sessions, unless the last count is younger than `max_age`.
    async fn recount(&self, max_age: Duration) -> Result<(), StoreError> {
        let written = {
            let count = self.count.lock();
            if count.stored.is_some_and(|(_, at)| at.elapsed() < max_age) {
                return Ok(());
            }
            count.written
        };
        let at = Instant::now();
        let mut bytes = 0_u64;
        for store in &self.counted {
            let mut pages = Pages::new(&**store);
            while let Some(entries) = pages.next().await? {
                bytes = entries.iter().fold(bytes, |bytes, entry| bytes.saturating_add(entry.stored_bytes));
            }
        }
        let mut count = self.count.lock();
        // The listing may lack writes that finished after it started, so add them all.
        let missed = count.written.saturating_sub(written);
        count.stored = Some((bytes.saturating_add(missed), at));
        Ok(())
    }

    /// Returns the size of a session in bytes. The size of a missing or unreadable session is 0.
    async fn size(&self, id: &SessionId) -> Result<u64, StoreError> {
        match self.store.record(id).await {
            Ok(found) => Ok(found.map_or(0, |stored| stored.record.bytes)),
            Err(StoreError::Damaged { .. } | StoreError::Format { .. }) => Ok(0),
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl ByteQuota for StoredBytes {
    async fn reserve(&self, id: &SessionId, bytes: u64) -> Result<Reservation, StoreError> {
        let added = if self.max == u64::MAX { 0 } else { bytes.saturating_sub(self.size(id).await?) };
        if added == 0 {
            return Ok(Box::new(()));
        }
        // Count again before failing: sessions may have been removed or become smaller.
        for max_age in [RECOUNT, Duration::ZERO] {
            self.recount(max_age).await?;
            let mut count = self.count.lock();
            if count.total().saturating_add(added) <= self.max {
                count.reserved = count.reserved.saturating_add(added);
                return Ok(Box::new(ReservedBytes { count: Arc::clone(&self.count), bytes: added }));
            }
        }
        Err(StoreError::Full { id: id.clone(), bytes: added, max: self.max })
    }
}

/// Records a store operation as a child of the current span, if there is one.
fn traced<F: Future>(operation: &'static str, bytes: Option<usize>, work: F) -> Instrumented<F> {
    let span = match Span::current().is_none() {
        true => Span::none(),
        false => info_span!(target: SPANS, "store", operation, bytes),
    };
    work.instrument(span)
}

#[async_trait]
impl SessionStore for BoundedStore {
    async fn try_lock(&self, id: &SessionId) -> Result<Option<SessionLock>, StoreError> {
        self.store.try_lock(id).await
    }

    async fn put(
        &self,
        lock: &SessionLock,
        expected: &ExpectedVersion,
        record: &SessionRecord,
        state: &[u8],
    ) -> Result<StoredVersion, StoreError> {
        let put = async {
            let bytes = u64::try_from(state.len()).unwrap_or(u64::MAX);
            let _reserved = self.quota.reserve(lock.id(), bytes).await?;
            self.store.put(lock, expected, record, state).await
        };
        traced("put", Some(state.len()), put).await
    }

    async fn get(&self, id: &SessionId) -> Result<Option<StoredSession>, StoreError> {
        traced("get", None, self.store.get(id)).await
    }

    async fn record(&self, id: &SessionId) -> Result<Option<StoredRecord>, StoreError> {
        self.store.record(id).await
    }

    async fn list(&self, page: &PageRequest) -> Result<StoredPage, StoreError> {
        traced("list", None, self.store.list(page)).await
    }

    async fn count(&self, max: usize) -> Result<usize, StoreError> {
        traced("count", None, self.store.count(max)).await
    }

    async fn remove(&self, lock: &SessionLock, expected: &ExpectedVersion) -> Result<bool, StoreError> {
        traced("remove", None, self.store.remove(lock, expected)).await
    }
}

/// A store that is always empty and refuses to save, for tenants whose sessions are in a fleet or only in memory.
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
        _: &ExpectedVersion,
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

    async fn remove(&self, _: &SessionLock, _: &ExpectedVersion) -> Result<bool, StoreError> {
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use glovebox::{Language, Timestamp};
    use glovebox_sessions::{DirectoryStore, block_on};

    use super::*;

    fn record(id: &SessionId, bytes: u64) -> SessionRecord {
        let at = Timestamp::from_unix_ms(0);
        serde_json::from_value(serde_json::json!({
            "id": id, "created_at": at, "updated_at": at, "language": Language::Python, "runtime": "python", "version": null,
            "image_sha256": "", "executions": 0, "generation": 1, "files": null, "bytes": bytes,
        }))
        .unwrap()
    }

    fn quota(dir: &Path) -> Arc<StoredBytes> {
        let store: Arc<dyn SessionStore> = Arc::new(DirectoryStore::open(dir).unwrap());
        Arc::new(StoredBytes { counted: vec![Arc::clone(&store)], store, max: 25_000, count: Arc::default() })
    }

    #[test]
    fn two_stores_share_one_limit() {
        let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let stores =
            dirs.each_ref().map(|dir| Arc::new(DirectoryStore::open(dir.path()).unwrap()) as Arc<dyn SessionStore>);
        let [first, second] = BoundedStore::pair(stores, 25_000);
        let put = |store: &BoundedStore, name: &str, bytes: usize| {
            let id = SessionId::new(name).unwrap();
            let lock = block_on(store.try_lock(&id)).unwrap().unwrap();
            block_on(store.put(&lock, &ExpectedVersion::Any, &record(&id, bytes as u64), &vec![0; bytes])).map(drop)
        };
        put(&first, "a", 10_000).unwrap();
        put(&second, "b", 10_000).unwrap();
        for store in [&first, &second] {
            assert!(matches!(put(store, "c", 10_000), Err(StoreError::Full { bytes: 10_000, max: 25_000, .. })));
        }
        let id = SessionId::new("b").unwrap();
        let lock = block_on(second.try_lock(&id)).unwrap().unwrap();
        assert!(block_on(second.remove(&lock, &ExpectedVersion::Any)).unwrap());
        put(&first, "c", 10_000).unwrap();
    }

    #[test]
    fn store_at_its_limit_rejects_only_growth() {
        let dir = tempfile::tempdir().unwrap();
        // Each session file also contains a header of a few hundred bytes.
        let quota = quota(dir.path());
        let store = BoundedStore::within(Arc::clone(&quota.store), Arc::clone(&quota) as Arc<dyn ByteQuota>);
        let put = |name: &str, bytes: usize| {
            let id = SessionId::new(name).unwrap();
            let lock = block_on(store.try_lock(&id)).unwrap().unwrap();
            let record = record(&id, bytes as u64);
            block_on(store.put(&lock, &ExpectedVersion::Any, &record, &vec![0; bytes])).map(drop)
        };
        put("a", 10_000).unwrap();
        put("b", 10_000).unwrap();
        assert!(matches!(put("c", 10_000), Err(StoreError::Full { bytes: 10_000, max: 25_000, .. })));
        assert!(matches!(put("a", 20_000), Err(StoreError::Full { bytes: 10_000, .. })));
        put("b", 10_000).unwrap();
        put("b", 1_000).unwrap();
        let id = SessionId::new("a").unwrap();
        let lock = block_on(store.try_lock(&id)).unwrap().unwrap();
        assert!(block_on(store.remove(&lock, &ExpectedVersion::Any)).unwrap());
        put("c", 20_000).unwrap();
        assert_eq!(quota.count.lock().reserved, 0);
    }

    #[test]
    fn reserved_bytes_count_until_the_store_is_listed() {
        let dir = tempfile::tempdir().unwrap();
        let quota = quota(dir.path());
        let reserve = |name: &str| block_on(quota.reserve(&SessionId::new(name).unwrap(), 10_000));
        let (first, second) = (reserve("a").unwrap(), reserve("b").unwrap());
        assert!(matches!(reserve("c"), Err(StoreError::Full { .. })), "writes in progress count");
        drop(first);
        assert_eq!(quota.count.lock().total(), 20_000, "a finished write counts");
        drop(second);
        // Neither write has reached the store. `reserve` lists the store again before it would fail, so the third write
        // fits.
        let _third = reserve("c").unwrap();
        assert_eq!(quota.count.lock().total(), 10_000);
    }
}
