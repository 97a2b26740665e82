//! The worker's side of a store that the server accesses.

use std::fmt;

use async_trait::async_trait;
use glovebox_sessions::{
    Expected, PageRequest, SessionId, SessionLock, SessionRecord, SessionStore, StoreError, StoredPage, StoredRecord,
    StoredSession, StoredVersion,
};

use super::{
    protocol::{StoreOperation, StoreReply, ToServer},
    serve::ServerLink,
};
use crate::{
    ServiceError,
    tenant::{ByteQuota, Reservation},
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
struct LockThere {
    store: ParentStore,
    lock: u64,
}

impl Drop for LockThere {
    fn drop(&mut self) {
        self.store.tell(StoreOperation::Unlock { lock: self.lock });
    }
}

/// Bytes that the server has reserved for a write of this worker, released on drop.
struct ReservationThere {
    store: ParentStore,
    reservation: u64,
}

impl Drop for ReservationThere {
    fn drop(&mut self) {
        self.store.tell(StoreOperation::Release { reservation: self.reservation });
    }
}

#[async_trait]
impl ByteQuota for ParentStore {
    async fn reserve(&self, id: &SessionId, bytes: u64) -> Result<Reservation, StoreError> {
        match self.ask(StoreOperation::Reserve { id: id.clone(), bytes }, Vec::new()).await? {
            (StoreReply::Reserved(reservation), _) => {
                Ok(Box::new(ReservationThere { store: self.clone(), reservation }))
            }
            _ => Err(unexpected()),
        }
    }
}

impl ParentStore {
    /// Releases a lock or a reservation without waiting for the reply.
    fn tell(&self, operation: StoreOperation) {
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
        let own = lock.guard::<LockThere>().map(|held| held.lock);
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
        Ok(lock.map(|lock| SessionLock::new(id.clone(), LockThere { store: self.clone(), lock })))
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
