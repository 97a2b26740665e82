//! The store of a tenant's suspended executions. Each entry has an ID and an expiry time, and can be used once.
//!
//! An entry is written once and removed once. Only the caller that removes it passes answers to its execution. An
//! execution therefore continues at most once, even if several processes resume it at the same time or are killed.

mod format;

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use glovebox::{SessionKey, SuspendedBytesError, Timestamp};
use glovebox_core::hibernate::Seal;
use glovebox_sessions::{
    ExpectedVersion, PageRequest, SessionId, SessionLock, SessionRecord, SessionStore as _, SessionsError, StoreError,
    StoredEntry, StoredPage, StoredVersion, block_on,
};
use parking_lot::Mutex;

use super::{BoundedStore, Reservation};
use crate::ServiceError;

pub(crate) use format::{StoredExecution, SuspendedRequest};

/// Maximum time to wait for the lock of an entry. Longer than the 15 s for which the lock of a killed process remains
/// in an object store.
const LOCK_TIME: Duration = Duration::from_secs(20);
/// The interval between attempts to lock an entry.
const LOCK_INTERVAL: Duration = Duration::from_millis(50);
/// The number of entries that each operation checks for expiry. Expired entries come first in the store.
const CHECKED: usize = 16;

/// The ID of a stored suspended execution: its expiry time in 12 hexadecimal digits, `-`, and 128 random bits in 32
/// hexadecimal digits. The order of the IDs is the order of expiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SuspendedId {
    id: SessionId,
    expires: Timestamp,
}

impl SuspendedId {
    fn new(expires: Timestamp) -> Option<Self> {
        Self::parse(&format!("{:012x}-{}", expires.unix_ms(), SessionId::random()))
    }

    /// Parses an ID. Returns `None` if the text does not have the exact form of an ID.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (time, random) = text.split_once('-')?;
        let is_hex = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if (time.len(), random.len()) != (12, 32) || !is_hex(time) || !is_hex(random) {
            return None;
        }
        let expires = Timestamp::from_unix_ms(u64::from_str_radix(time, 16).ok()?);
        Some(Self { id: SessionId::new(text).ok()?, expires })
    }

    pub(crate) fn as_str(&self) -> &str {
        self.id.as_str()
    }

    pub(crate) fn expires(&self) -> Timestamp {
        self.expires
    }

    fn has_expired(&self, now: Timestamp) -> bool {
        self.expires <= now
    }
}

/// The store of a tenant's suspended executions. Its methods block.
pub(crate) struct SuspendedStore {
    store: BoundedStore,
    max: usize,
    key: Option<SessionKey>,
    tenant: String,
    /// The number of entries that are about to be written.
    reserved: Arc<Mutex<usize>>,
}

/// The right to write a new entry, whose ID is locked and whose bytes are reserved.
pub(crate) struct NewEntry {
    id: SuspendedId,
    created_at: Timestamp,
    max_bytes: u64,
    lock: SessionLock,
    _bytes: Reservation,
    _counted: CountedEntry,
}

/// An entry that is about to be written, counted until this value is dropped.
struct CountedEntry(Arc<Mutex<usize>>);

impl CountedEntry {
    fn new(reserved: &Arc<Mutex<usize>>) -> Self {
        *reserved.lock() += 1;
        Self(Arc::clone(reserved))
    }
}

impl Drop for CountedEntry {
    fn drop(&mut self) {
        let mut reserved = self.0.lock();
        *reserved = reserved.saturating_sub(1);
    }
}

/// An entry read from the store, with its version.
#[derive(Debug)]
pub(crate) struct ReadEntry {
    pub(crate) id: SuspendedId,
    pub(crate) version: StoredVersion,
    pub(crate) execution: StoredExecution,
}

/// A page of the entries that have not expired, in the order of expiry.
#[derive(Debug)]
pub(crate) struct EntryPage {
    pub(crate) entries: Vec<(SuspendedId, StoredEntry)>,
    pub(crate) next: Option<SessionId>,
}

impl SuspendedStore {
    /// Creates a tenant's store for at most `max` entries, which are sealed with `key` if it is set.
    pub(crate) fn new(store: BoundedStore, max: usize, key: Option<SessionKey>, tenant: String) -> Self {
        Self { store, max, key, tenant, reserved: Arc::default() }
    }

    /// Creates the seal of an entry. Seals of sessions use the same key, but session IDs contain no spaces, unlike the
    /// name of this seal.
    fn seal(&self, id: &SuspendedId) -> Seal {
        Seal::new(self.key.as_ref(), &format!("stored suspended execution {} of {}", id.as_str(), self.tenant))
    }

    /// Fails if the store has no room for another entry.
    pub(crate) fn check_room(&self, now: Timestamp) -> Result<(), ServiceError> {
        self.check_count(now, 1)
    }

    /// Fails if the store would contain more than `max` entries, including the reserved entries and `more` further
    /// entries.
    fn check_count(&self, now: Timestamp, more: usize) -> Result<(), ServiceError> {
        self.delete_expired_page(now)?;
        // All other expired entries are deleted before the store counts as full.
        for is_last in [false, true] {
            let count = block_on(self.store.count(self.max)).map_err(failed)?;
            if count.saturating_add(*self.reserved.lock()).saturating_add(more) <= self.max {
                return Ok(());
            }
            if !is_last {
                self.delete_expired(now)?;
            }
        }
        let (what, remedy) = ("stored suspended executions", "resume or delete one");
        Err(ServiceError::TooMany { what, max: self.max, remedy })
    }

    /// Reserves an entry that expires after `ttl`, and `max_bytes` bytes for it.
    pub(crate) fn reserve(&self, now: Timestamp, ttl: Duration, max_bytes: usize) -> Result<NewEntry, ServiceError> {
        // Count the entry before the check, so that concurrent callers cannot exceed the limit.
        let counted = CountedEntry::new(&self.reserved);
        self.check_count(now, 0)?;
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let expires = Timestamp::from_unix_ms(now.unix_ms().saturating_add(ttl_ms));
        let id = SuspendedId::new(expires).ok_or(ServiceError::Panicked)?;
        let max_bytes = u64::try_from(max_bytes).unwrap_or(u64::MAX);
        let reserved = match block_on(self.store.quota().reserve(&id.id, max_bytes)) {
            Err(StoreError::Full { .. }) => {
                self.delete_expired(now)?;
                block_on(self.store.quota().reserve(&id.id, max_bytes))
            }
            reserved => reserved,
        };
        let lock = self.lock(&id, LOCK_TIME)?;
        let bytes = reserved.map_err(failed)?;
        Ok(NewEntry { id, created_at: now, max_bytes, lock, _bytes: bytes, _counted: counted })
    }

    /// Writes a reserved entry durably. If the entry is longer than its reservation, reserves the additional bytes.
    pub(crate) fn write(&self, entry: NewEntry, execution: &StoredExecution) -> Result<SuspendedId, ServiceError> {
        let NewEntry { id, created_at, max_bytes, lock, .. } = &entry;
        let state = execution.encode(self.seal(id)).map_err(|error| ServiceError::Invalid(error.to_string()))?;
        let bytes = u64::try_from(state.len()).unwrap_or(u64::MAX);
        // A script that polls for its answers can make further calls before it is suspended.
        let _more = match bytes.saturating_sub(*max_bytes) {
            0 => None,
            more => Some(block_on(self.store.quota().reserve(&id.id, more)).map_err(failed)?),
        };
        let record = SessionRecord::new(id.id.clone(), *created_at, bytes);
        block_on(self.store.put_reserved(lock, &record, &state)).map_err(failed)?;
        Ok(entry.id)
    }

    /// Reads an entry, after calling `reserve` with its size in bytes.
    ///
    /// # Errors
    /// Fails if the entry does not exist or has expired, if its seal is invalid, or if `reserve` fails.
    pub(crate) fn read<R>(
        &self,
        id: SuspendedId,
        now: Timestamp,
        reserve: impl FnOnce(usize) -> Result<R, ServiceError>,
    ) -> Result<(ReadEntry, R), ServiceError> {
        if id.has_expired(now) {
            self.delete_now(&id);
            return Err(not_found(id.as_str()));
        }
        let found = block_on(self.store.record(&id.id)).map_err(failed)?;
        let stored = found.ok_or_else(|| not_found(id.as_str()))?;
        let reserved = reserve(usize::try_from(stored.record.bytes).unwrap_or(usize::MAX))?;
        let found = block_on(self.store.get(&id.id)).map_err(failed)?;
        let stored = found.ok_or_else(|| not_found(id.as_str()))?;
        let execution =
            StoredExecution::decode(&stored.state, self.seal(&id)).ok_or(SuspendedBytesError::NotAuthentic)?;
        Ok((ReadEntry { id, version: stored.version, execution }, reserved))
    }

    /// Fails if an entry does not exist.
    pub(crate) fn check_stored(&self, id: &SuspendedId) -> Result<(), ServiceError> {
        match block_on(self.store.record(&id.id)).map_err(failed)? {
            Some(_) => Ok(()),
            None => Err(not_found(id.as_str())),
        }
    }

    /// Locks an entry, so that no other caller in any process can claim or delete it.
    ///
    /// # Errors
    /// Fails if another caller holds the lock for too long.
    pub(crate) fn lock_entry(&self, id: &SuspendedId) -> Result<SessionLock, ServiceError> {
        self.lock(id, LOCK_TIME)
    }

    /// Removes an entry in order to resume its execution. If several callers, in any processes, try to claim an entry,
    /// only one succeeds. `lock` is the lock of the entry if the caller has already locked it.
    ///
    /// # Errors
    /// Fails if the entry no longer exists, or if another caller holds its lock for too long.
    pub(crate) fn claim(
        &self,
        id: &SuspendedId,
        version: StoredVersion,
        lock: Option<SessionLock>,
    ) -> Result<(), ServiceError> {
        let lock = match lock {
            Some(lock) => lock,
            None => self.lock(id, LOCK_TIME)?,
        };
        match block_on(self.store.remove(&lock, &ExpectedVersion::Version(version))) {
            Ok(true) => Ok(()),
            Ok(false) | Err(StoreError::Fenced { .. }) => Err(not_found(id.as_str())),
            Err(error) => Err(failed(error)),
        }
    }

    /// Deletes an entry. Returns `false` if it did not exist.
    pub(crate) fn delete(&self, id: &SuspendedId) -> Result<bool, ServiceError> {
        let lock = self.lock(id, LOCK_TIME)?;
        block_on(self.store.remove(&lock, &ExpectedVersion::Any)).map_err(failed)
    }

    /// Locks an entry. Waits for at most `max` while another process holds the lock.
    fn lock(&self, id: &SuspendedId, max: Duration) -> Result<SessionLock, ServiceError> {
        let begun = Instant::now();
        loop {
            if let Some(lock) = block_on(self.store.try_lock(&id.id)).map_err(failed)? {
                return Ok(lock);
            }
            if begun.elapsed() >= max {
                return Err(ServiceError::ExecutionBusy { execution: id.as_str().to_owned() });
            }
            thread::sleep(LOCK_INTERVAL);
        }
    }

    /// Returns a page of the entries that have not expired.
    pub(crate) fn list(&self, now: Timestamp, page: &PageRequest) -> Result<EntryPage, ServiceError> {
        self.delete_expired_page(now)?;
        let StoredPage { entries, next, .. } = block_on(self.store.list(page)).map_err(failed)?;
        let entries = entries.into_iter().filter_map(|entry| {
            let id = SuspendedId::parse(entry.id.as_str())?;
            (!id.has_expired(now)).then_some((id, entry))
        });
        Ok(EntryPage { entries: entries.collect(), next })
    }

    /// Deletes all expired entries.
    pub(crate) fn delete_expired(&self, now: Timestamp) -> Result<(), ServiceError> {
        let mut page = PageRequest::default();
        while let Some(next) = self.delete_expired_of(now, &page)? {
            page = page.after(next);
        }
        Ok(())
    }

    /// Deletes expired entries, at most [`CHECKED`].
    fn delete_expired_page(&self, now: Timestamp) -> Result<(), ServiceError> {
        let page = PageRequest::new(CHECKED).unwrap_or_default();
        self.delete_expired_of(now, &page).map(drop)
    }

    /// Deletes the expired entries of a page. Returns the ID after which further expired entries can follow.
    fn delete_expired_of(&self, now: Timestamp, page: &PageRequest) -> Result<Option<SessionId>, ServiceError> {
        let StoredPage { entries, next, .. } = block_on(self.store.list(page)).map_err(failed)?;
        for id in entries.iter().filter_map(|entry| SuspendedId::parse(entry.id.as_str())) {
            if !id.has_expired(now) {
                return Ok(None);
            }
            self.delete_now(&id);
        }
        Ok(next)
    }

    /// Deletes an expired entry, unless another process has locked it or the store fails. In those cases, a later
    /// operation tries again.
    fn delete_now(&self, id: &SuspendedId) {
        if let Ok(lock) = self.lock(id, Duration::ZERO) {
            let _ = block_on(self.store.remove(&lock, &ExpectedVersion::Any));
        }
    }
}

/// Returns the error for an entry that does not exist.
pub(crate) fn not_found(id: &str) -> ServiceError {
    ServiceError::NoStoredExecution { id: id.to_owned() }
}

fn failed(error: StoreError) -> ServiceError {
    match error {
        StoreError::Full { max, .. } => ServiceError::TooMany {
            what: "bytes of sessions and suspended executions in the store",
            max: usize::try_from(max).unwrap_or(usize::MAX),
            remedy: "delete some of them",
        },
        error => SessionsError::from(error).into(),
    }
}

#[cfg(test)]
mod tests;
