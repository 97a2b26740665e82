//! A store that the server accesses for its workers: the worker's side, and the server's side with the locks and
//! reserved bytes that workers hold.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use glovebox_sessions::{
    Expected, PageRequest, SessionId, SessionLock, SessionRecord, SessionStore, StoreError, StoredEntry, StoredPage,
    StoredRecord, StoredSession, StoredVersion, block_on,
};

use super::{
    protocol::{EntryPart, StoreFailure, StoreOperation, StoreReply, ToServer},
    serve::ServerLink,
};
use crate::{
    ServiceError,
    tenant::{BoundedStore, ByteQuota, Reservation},
};

/// A tenant's store, accessed through the server.
#[derive(Clone)]
pub struct ParentStore {
    pub(super) server: ServerLink,
    pub(super) tenant: String,
}

impl fmt::Debug for ParentStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParentStore").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

/// A lock that the server holds for this worker, released on drop.
struct ParentLock {
    store: ParentStore,
    lock: u64,
}

impl Drop for ParentLock {
    fn drop(&mut self) {
        self.store.send_release(StoreOperation::Unlock { lock: self.lock });
    }
}

/// Bytes that the server has reserved for a write of this worker, released on drop.
struct ParentReservation {
    store: ParentStore,
    reservation: u64,
}

impl Drop for ParentReservation {
    fn drop(&mut self) {
        self.store.send_release(StoreOperation::Release { reservation: self.reservation });
    }
}

#[async_trait]
impl ByteQuota for ParentStore {
    async fn reserve(&self, id: &SessionId, bytes: u64) -> Result<Reservation, StoreError> {
        match self.ask(StoreOperation::Reserve { id: id.clone(), bytes }, Vec::new()).await? {
            (StoreReply::Reserved(reservation), _) => {
                Ok(Box::new(ParentReservation { store: self.clone(), reservation }))
            }
            _ => Err(unexpected()),
        }
    }
}

impl ParentStore {
    /// Releases a lock or a reservation without waiting for the reply.
    fn send_release(&self, operation: StoreOperation) {
        let Some((peer, runtime)) = self.server.0.get() else { return };
        let (peer, tenant) = (peer.clone(), self.tenant.clone());
        runtime.spawn(async move {
            // An error means that the server has ended, and its locks and reservations with it.
            let _ = peer.call::<StoreReply>(&ToServer::Store { tenant, operation }, Vec::new()).await;
        });
    }

    async fn ask(&self, operation: StoreOperation, bytes: Vec<u8>) -> Result<(StoreReply, Vec<u8>), StoreError> {
        let gone = |error: ServiceError| StoreError::Other(Box::new(error));
        let (peer, _) = self.server.0.get().ok_or_else(|| gone(ServiceError::NoWorker))?;
        let call = ToServer::Store { tenant: self.tenant.clone(), operation };
        match peer.call(&call, bytes).await.map_err(gone)? {
            (StoreReply::Failed(failure), _) => Err(failure.into()),
            answered => Ok(answered),
        }
    }

    /// Returns the number of a lock that this store has returned.
    fn lock_of(lock: &SessionLock) -> Result<u64, StoreError> {
        let own = lock.guard::<ParentLock>().map(|held| held.lock);
        own.ok_or_else(|| StoreError::Other("the lock is from another store".into()))
    }
}

fn unexpected() -> StoreError {
    StoreError::Other("the server sent an unexpected answer".into())
}

#[async_trait]
impl SessionStore for ParentStore {
    async fn try_lock(&self, id: &SessionId) -> Result<Option<SessionLock>, StoreError> {
        let (StoreReply::Locked(lock), _) = self.ask(StoreOperation::TryLock { id: id.clone() }, Vec::new()).await?
        else {
            return Err(unexpected());
        };
        Ok(lock.map(|lock| SessionLock::new(id.clone(), ParentLock { store: self.clone(), lock })))
    }

    async fn put(
        &self,
        lock: &SessionLock,
        expected: &Expected,
        record: &SessionRecord,
        state: &[u8],
    ) -> Result<StoredVersion, StoreError> {
        let lock = Self::lock_of(lock)?;
        let put = StoreOperation::Put { lock, expected: expected.clone(), record: Box::new(record.clone()) };
        match self.ask(put, state.to_vec()).await? {
            (StoreReply::Put(version), _) => Ok(version),
            _ => Err(unexpected()),
        }
    }

    async fn get(&self, id: &SessionId) -> Result<Option<StoredSession>, StoreError> {
        match self.ask(StoreOperation::Get { id: id.clone() }, Vec::new()).await? {
            (StoreReply::Found(found), state) => Ok(found.map(|stored| StoredSession::new(stored, state))),
            _ => Err(unexpected()),
        }
    }

    async fn record(&self, id: &SessionId) -> Result<Option<StoredRecord>, StoreError> {
        match self.ask(StoreOperation::Record { id: id.clone() }, Vec::new()).await? {
            (StoreReply::Found(found), _) => Ok(found),
            _ => Err(unexpected()),
        }
    }

    async fn list(&self, page: &PageRequest) -> Result<StoredPage, StoreError> {
        let list = StoreOperation::List { after: page.begins_after().cloned(), limit: page.limit() };
        match self.ask(list, Vec::new()).await? {
            (StoreReply::Page { entries, next }, _) => {
                Ok(StoredPage::new(entries.into_iter().map(Into::into).collect(), next))
            }
            _ => Err(unexpected()),
        }
    }

    async fn count(&self, most: usize) -> Result<usize, StoreError> {
        match self.ask(StoreOperation::Count { most }, Vec::new()).await? {
            (StoreReply::Count(count), _) => Ok(count),
            _ => Err(unexpected()),
        }
    }

    async fn remove(&self, lock: &SessionLock, expected: &Expected) -> Result<bool, StoreError> {
        let remove = StoreOperation::Remove { lock: Self::lock_of(lock)?, expected: expected.clone() };
        match self.ask(remove, Vec::new()).await? {
            (StoreReply::Removed(removed), _) => Ok(removed),
            _ => Err(unexpected()),
        }
    }
}

/// Session locks and reserved bytes that a worker holds, keyed by number. They are released when the worker ends.
#[derive(Default)]
pub(super) struct Locks {
    held: Mutex<HashMap<u64, (String, Arc<SessionLock>)>>,
    reserved: Mutex<HashMap<u64, Reservation>>,
    next: AtomicU64,
}

impl Locks {
    /// Performs a store operation. Must be called on a thread that is allowed to block.
    pub(super) fn perform(
        &self,
        tenant: &str,
        store: &BoundedStore,
        operation: StoreOperation,
        bytes: &[u8],
    ) -> Result<(StoreReply, Vec<u8>), StoreError> {
        let answer = match operation {
            StoreOperation::TryLock { id } => {
                let lock = block_on(store.try_lock(&id))?;
                StoreReply::Locked(lock.map(|lock| self.add(tenant, lock)))
            }
            StoreOperation::Unlock { lock } => {
                self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(&lock);
                StoreReply::Done
            }
            StoreOperation::Put { lock, expected, record } => {
                StoreReply::Put(block_on(store.put(&*self.find(tenant, lock)?, &expected, &record, bytes))?)
            }
            StoreOperation::Get { id } => {
                let Some(found) = block_on(store.get(&id))? else { return Ok((StoreReply::Found(None), Vec::new())) };
                let stored = StoredRecord::new(found.record, found.version);
                return Ok((StoreReply::Found(Some(stored)), found.state));
            }
            StoreOperation::Record { id } => StoreReply::Found(block_on(store.record(&id))?),
            StoreOperation::List { after, limit } => {
                let mut page = PageRequest::new(limit).map_err(|error| StoreError::Other(Box::new(error)))?;
                if let Some(after) = after {
                    page = page.after(after);
                }
                let StoredPage { entries, next, .. } = block_on(store.list(&page))?;
                StoreReply::Page { entries: entries.into_iter().map(EntryPart::from).collect(), next }
            }
            StoreOperation::Count { most } => StoreReply::Count(block_on(store.count(most))?),
            StoreOperation::Remove { lock, expected } => {
                StoreReply::Removed(block_on(store.remove(&*self.find(tenant, lock)?, &expected))?)
            }
            StoreOperation::Reserve { id, bytes } => {
                let reserved = block_on(store.quota().reserve(&id, bytes))?;
                let number = self.next.fetch_add(1, Ordering::Relaxed);
                self.reserved.lock().unwrap_or_else(PoisonError::into_inner).insert(number, reserved);
                StoreReply::Reserved(number)
            }
            StoreOperation::Release { reservation } => {
                self.reserved.lock().unwrap_or_else(PoisonError::into_inner).remove(&reservation);
                StoreReply::Done
            }
        };
        Ok((answer, Vec::new()))
    }

    fn add(&self, tenant: &str, lock: SessionLock) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let held = (tenant.to_owned(), Arc::new(lock));
        self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(number, held);
        number
    }

    fn find(&self, tenant: &str, lock: u64) -> Result<Arc<SessionLock>, StoreError> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let found = held.get(&lock).filter(|(of, _)| of == tenant).map(|(_, lock)| Arc::clone(lock));
        found.ok_or_else(|| StoreError::Other("a worker used a lock that it does not hold".into()))
    }
}

impl From<StoredEntry> for EntryPart {
    fn from(entry: StoredEntry) -> Self {
        let found = match (entry.record, entry.version) {
            (Some(record), Some(version)) => Ok(StoredRecord::new(record, version)),
            _ => Err(entry.damage.unwrap_or_default()),
        };
        Self { id: entry.id, stored_bytes: entry.stored_bytes, stored_at: entry.stored_at, found }
    }
}

impl From<EntryPart> for StoredEntry {
    fn from(EntryPart { id, stored_bytes, stored_at, found }: EntryPart) -> Self {
        Self::new(id, stored_bytes, stored_at, found)
    }
}

impl From<StoreError> for StoreFailure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Fenced { id } => Self::Fenced(id),
            StoreError::Damaged { id, path, reason } => Self::Damaged { id, path, reason },
            StoreError::Format { id, found, known } => Self::Format { id, found, known },
            StoreError::TooLarge { id, bytes, most } => Self::TooLarge { id, bytes, most },
            StoreError::Full { id, bytes, most } => Self::Full { id, bytes, most },
            other => Self::Other(glovebox::with_causes(&other)),
        }
    }
}

impl From<StoreFailure> for StoreError {
    fn from(failure: StoreFailure) -> Self {
        match failure {
            StoreFailure::Fenced(id) => Self::Fenced { id },
            StoreFailure::Damaged { id, path, reason } => Self::Damaged { id, path, reason },
            StoreFailure::Format { id, found, known } => Self::Format { id, found, known },
            StoreFailure::TooLarge { id, bytes, most } => Self::TooLarge { id, bytes, most },
            StoreFailure::Full { id, bytes, most } => Self::Full { id, bytes, most },
            StoreFailure::Other(message) => Self::Other(message.into()),
        }
    }
}
