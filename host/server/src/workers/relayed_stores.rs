//! Store operations on behalf of workers, and the locks and reserved bytes that the workers hold.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use glovebox_sessions::{
    PageRequest, SessionLock, SessionStore as _, StoreError, StoredEntry, StoredPage, StoredRecord, block_on,
};

use super::protocol::{EntryPart, StoreFailure, StoreOperation, StoreReply};
use crate::tenant::{BoundedStore, Reservation};

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
