//! A store that the server accesses for its workers: the worker's side, and the server's side with the locks and
//! reserved bytes that workers hold.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use glovebox_sessions::{
    ExpectedVersion, PageRequest, SessionId, SessionLock, SessionRecord, SessionStore, StoreError, StoredEntry,
    StoredPage, StoredRecord, StoredSession, StoredVersion, block_on,
};
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    peer::Message,
    protocol::{StoreFailure, StoreOperation, ToServer},
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

/// A lock or reserved bytes that the server holds for this worker, released on drop.
struct HeldByServer {
    store: ParentStore,
    number: u64,
}

impl Drop for HeldByServer {
    fn drop(&mut self) {
        let Some((peer, runtime)) = self.store.server.0.get() else { return };
        let (peer, tenant) = (peer.clone(), self.store.tenant.clone());
        let operation = StoreOperation::Release { number: self.number };
        // Do not wait for the reply. An error means that the server has ended, which has released the lock or the
        // bytes.
        runtime.spawn(async move {
            let _ = peer.call::<Result<(), StoreFailure>>(&ToServer::Store { tenant, operation }, Vec::new()).await;
        });
    }
}

#[async_trait]
impl ByteQuota for ParentStore {
    async fn reserve(&self, id: &SessionId, bytes: u64) -> Result<Reservation, StoreError> {
        let (number, _) = self.ask(StoreOperation::Reserve { id: id.clone(), bytes }, Vec::new()).await?;
        Ok(Box::new(self.held(number)))
    }
}

impl ParentStore {
    fn held(&self, number: u64) -> HeldByServer {
        HeldByServer { store: self.clone(), number }
    }

    /// Performs an operation in the server. Returns the result, whose type depends on the operation, and the binary
    /// part.
    async fn ask<T: DeserializeOwned>(
        &self,
        operation: StoreOperation,
        bytes: Vec<u8>,
    ) -> Result<(T, Vec<u8>), StoreError> {
        let gone = |error: ServiceError| StoreError::Other(Box::new(error));
        let (peer, _) = self.server.0.get().ok_or_else(|| gone(ServiceError::NoWorker))?;
        let call = ToServer::Store { tenant: self.tenant.clone(), operation };
        let (result, bytes) = peer.call::<Result<T, StoreFailure>>(&call, bytes).await.map_err(gone)?;
        Ok((result?, bytes))
    }

    /// Returns the number of a lock that this store has returned.
    fn lock_of(lock: &SessionLock) -> Result<u64, StoreError> {
        let own = lock.guard::<HeldByServer>().map(|held| held.number);
        own.ok_or_else(|| StoreError::Other("the lock is from another store".into()))
    }
}

#[async_trait]
impl SessionStore for ParentStore {
    async fn try_lock(&self, id: &SessionId) -> Result<Option<SessionLock>, StoreError> {
        let (lock, _) = self.ask::<Option<u64>>(StoreOperation::TryLock { id: id.clone() }, Vec::new()).await?;
        Ok(lock.map(|number| SessionLock::new(id.clone(), self.held(number))))
    }

    async fn put(
        &self,
        lock: &SessionLock,
        expected: &ExpectedVersion,
        record: &SessionRecord,
        state: &[u8],
    ) -> Result<StoredVersion, StoreError> {
        let lock = Self::lock_of(lock)?;
        let put = StoreOperation::Put { lock, expected: expected.clone(), record: Box::new(record.clone()) };
        Ok(self.ask(put, state.to_vec()).await?.0)
    }

    async fn get(&self, id: &SessionId) -> Result<Option<StoredSession>, StoreError> {
        let (found, state) = self.ask::<Option<_>>(StoreOperation::Get { id: id.clone() }, Vec::new()).await?;
        Ok(found.map(|stored| StoredSession::new(stored, state)))
    }

    async fn record(&self, id: &SessionId) -> Result<Option<StoredRecord>, StoreError> {
        Ok(self.ask(StoreOperation::Record { id: id.clone() }, Vec::new()).await?.0)
    }

    async fn list(&self, page: &PageRequest) -> Result<StoredPage, StoreError> {
        let list = StoreOperation::List { after: page.begins_after().cloned(), limit: page.limit() };
        let ((mut entries, versions, next), _) = self.ask::<(Vec<StoredEntry>, Vec<_>, _)>(list, Vec::new()).await?;
        entries.iter_mut().zip(versions).for_each(|(entry, version)| entry.version = version);
        Ok(StoredPage::new(entries, next))
    }

    async fn count(&self, max: usize) -> Result<usize, StoreError> {
        Ok(self.ask(StoreOperation::Count { max }, Vec::new()).await?.0)
    }

    async fn remove(&self, lock: &SessionLock, expected: &ExpectedVersion) -> Result<bool, StoreError> {
        let remove = StoreOperation::Remove { lock: Self::lock_of(lock)?, expected: expected.clone() };
        Ok(self.ask(remove, Vec::new()).await?.0)
    }
}

/// A lock of a tenant's session, or bytes reserved for a write.
enum HeldForWorker {
    Lock { tenant: String, lock: Arc<SessionLock> },
    Bytes { _reserved: Reservation },
}

/// Session locks and reserved bytes that a worker holds, keyed by number. They are released when the worker ends.
#[derive(Default)]
pub(super) struct Locks {
    held: Mutex<HashMap<u64, HeldForWorker>>,
    next: AtomicU64,
}

impl Locks {
    /// Performs a store operation and returns the reply. Must be called on a blocking thread.
    pub(super) fn perform(
        &self,
        tenant: &str,
        store: &BoundedStore,
        operation: StoreOperation,
        bytes: &[u8],
    ) -> Result<Message, StoreError> {
        Ok(match operation {
            StoreOperation::TryLock { id } => {
                let held = |lock| HeldForWorker::Lock { tenant: tenant.to_owned(), lock: Arc::new(lock) };
                done(&block_on(store.try_lock(&id))?.map(|lock| self.add(held(lock))))
            }
            StoreOperation::Put { lock, expected, record } => {
                done(&block_on(store.put(&*self.find(tenant, lock)?, &expected, &record, bytes))?)
            }
            StoreOperation::Get { id } => match block_on(store.get(&id))? {
                Some(found) => done_with(&Some(StoredRecord::new(found.record, found.version)), found.state),
                None => done(&None::<StoredRecord>),
            },
            StoreOperation::Record { id } => done(&block_on(store.record(&id))?),
            StoreOperation::List { after, limit } => {
                let page = PageRequest::new(limit).map_err(|error| StoreError::Other(Box::new(error)))?;
                let StoredPage { entries, next, .. } = block_on(store.list(&page.after(after)))?;
                let versions: Vec<_> = entries.iter().map(|entry| &entry.version).collect();
                done(&(&entries, versions, next))
            }
            StoreOperation::Count { max } => done(&block_on(store.count(max))?),
            StoreOperation::Remove { lock, expected } => {
                done(&block_on(store.remove(&*self.find(tenant, lock)?, &expected))?)
            }
            StoreOperation::Reserve { id, bytes } => {
                let reserved = block_on(store.quota().reserve(&id, bytes))?;
                done(&self.add(HeldForWorker::Bytes { _reserved: reserved }))
            }
            StoreOperation::Release { number } => {
                // Releasing a session lock can take time, so it is dropped after `held` is unlocked.
                let released = self.held.lock().remove(&number);
                drop(released);
                done(&())
            }
        })
    }

    fn add(&self, held: HeldForWorker) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.held.lock().insert(number, held);
        number
    }

    fn find(&self, tenant: &str, number: u64) -> Result<Arc<SessionLock>, StoreError> {
        match self.held.lock().get(&number) {
            Some(HeldForWorker::Lock { tenant: of, lock }) if of == tenant => Ok(Arc::clone(lock)),
            _ => Err(StoreError::Other("a worker used a lock that it does not hold".into())),
        }
    }
}

/// Returns the reply to a successful operation.
fn done(result: &impl Serialize) -> Message {
    done_with(result, Vec::new())
}

fn done_with(result: &impl Serialize, bytes: Vec<u8>) -> Message {
    Message::reply(&Ok::<_, StoreFailure>(result), bytes)
}

impl From<StoreError> for StoreFailure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Fenced { id } => Self::Fenced(id),
            StoreError::Damaged { id, path, reason } => Self::Damaged { id, path, reason },
            StoreError::Format { id, found, known } => Self::Format { id, found, known },
            StoreError::TooLarge { id, bytes, max } => Self::TooLarge { id, bytes, max },
            StoreError::Full { id, bytes, max } => Self::Full { id, bytes, max },
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
            StoreFailure::TooLarge { id, bytes, max } => Self::TooLarge { id, bytes, max },
            StoreFailure::Full { id, bytes, max } => Self::Full { id, bytes, max },
            StoreFailure::Other(message) => Self::Other(message.into()),
        }
    }
}
