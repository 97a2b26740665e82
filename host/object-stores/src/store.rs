//! The store of sessions. Counting sessions reads only the names and lengths of log entries.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use glovebox_sessions::{
    ExpectedVersion, PageRequest, RecordError, SessionId, SessionLock, SessionRecord, SessionStore, StoreError,
    StoredEntry, StoredPage, StoredRecord, StoredSession, StoredVersion,
};

use crate::{
    blobs::{BlobStore, timestamp},
    bucket::{Bucket, ListedObject, ObjectContents, Objects, SharedRuntime, failed},
    entry::Entry,
    lease::{Holder, Lease, StoreClock, probe},
    log::{Head, Log, Outcome, RECORDS, Write, number_of},
};

/// Maximum number of attempts to write a session during concurrent writes.
const WRITES: usize = 8;
/// Maximum number of attempts to find the state of a listed entry.
const READS: usize = 8;
/// The age at which a removal entry is deleted.
const REMOVAL: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A store of sessions in an object store, which several machines can share. Supports S3 (`s3://BUCKET/PREFIX`), Google
/// Cloud Storage (`gs://`), Azure (`az://`), a directory (`file:///DIRECTORY`) and this process's memory
/// (`memory://NAME`). Credentials come from the environment, as for [`BlobStore`].
///
/// The store must let only one creator of a name succeed, and reads must reflect every acknowledged operation.
/// [`open`](Self::open) tests both guarantees. Each session has a short log of its writes, and each write has a unique
/// version. Of two writers with the same base, one writer is accepted, and the other writer is
/// [fenced](StoreError::Fenced), even if that writer was frozen for a long time.
///
/// A lock is a lease of 15 s, which its holder renews. If the holder is killed, the lease expires. Leases only prevent
/// wasted work, because the log keeps writes consistent without them.
///
/// The record of a removal expires after seven days. No write may be in progress for that long.
///
/// ```
/// use glovebox_object_stores::ObjectStore;
/// use glovebox_sessions::{PageRequest, SessionStore};
///
/// # fn main() -> Result<(), glovebox_sessions::StoreError> {
/// let store = glovebox_sessions::block_on(ObjectStore::open("memory://example"))?;
/// let page = glovebox_sessions::block_on(store.list(&PageRequest::default()))?;
/// assert!(page.entries.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ObjectStore {
    pub(crate) bucket: Arc<dyn Bucket>,
    pub(crate) background: SharedRuntime,
    pub(crate) clock: StoreClock,
    pub(crate) lease: Duration,
}

impl ObjectStore {
    /// Maximum size of a state: 1 GiB.
    pub const MAX_STATE_BYTES: u64 = BlobStore::MAX_BYTES;
    /// The default time after which the lock of a killed holder expires: 15 s.
    pub const LEASE: Duration = Duration::from_secs(15);

    /// Opens the store with this URL and tests it. The test creates an object, checks that a second creation is
    /// refused, and reads, lists and deletes the object.
    ///
    /// # Errors
    /// [`StoreError::Url`] if the text is not the URL of a store, [`StoreError::Directory`] if the directory is
    /// unusable, [`StoreError::Remote`] if the store cannot be reached or refuses an operation, and
    /// [`StoreError::Unfit`] if the store fails the test.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        let objects = Objects::open(url)?;
        let background = objects.background().clone();
        Self::with_bucket(Arc::new(objects), background).await
    }

    async fn with_bucket(bucket: Arc<dyn Bucket>, background: SharedRuntime) -> Result<Self, StoreError> {
        let clock = probe(&*bucket).await?;
        Ok(Self { bucket, background, clock, lease: Self::LEASE })
    }

    /// Returns the store's URL.
    #[must_use]
    pub fn url(&self) -> &str {
        self.bucket.url()
    }

    /// Sets the duration of new leases, clamped to the range from 1 s to 1 h. If its holder is killed, a lock expires
    /// after this time. Holders renew a lease three times within this time. Default: [`LEASE`](Self::LEASE).
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease.clamp(Duration::from_secs(1), Duration::from_secs(60 * 60));
        self
    }

    /// Acquires a session's lease. Returns `None` if another process holds it.
    async fn lease(&self, id: &SessionId) -> Result<Option<Lease>, StoreError> {
        Lease::take(Arc::clone(&self.bucket), &self.background, self.clock, self.lease, id).await
    }

    fn log<'a>(&'a self, id: &'a SessionId) -> Log<'a> {
        Log { bucket: &*self.bucket, id }
    }

    /// Writes on top of the expected version. Returns the new version, and `true` if the session existed.
    async fn write(
        &self,
        lock: &SessionLock,
        expected: &ExpectedVersion,
        session: Option<(&SessionRecord, &Bytes)>,
    ) -> Result<WriteOutcome, StoreError> {
        let none = Holder::default();
        let holder = lock.guard::<Holder>().unwrap_or(&none);
        let log = self.log(lock.id());
        for _ in 0..WRITES {
            let head = log.head().await?;
            self.check(log, head.as_ref(), expected, holder)?;
            let was_there = head.as_ref().is_some_and(|head| !head.is_removal());
            if session.is_none() && !was_there {
                // Report that the session existed if this holder removed it earlier, but lost the response.
                let ours = |version: &StoredVersion| head.as_ref().is_some_and(|head| head.is(version));
                return Ok(WriteOutcome { was_there: holder.has_attempted(expected, ours), version: None });
            }
            let version = StoredVersion::random();
            holder.record_attempt(expected, &version);
            match log.append(head.as_ref(), Write { version: &version, session }).await? {
                Outcome::Committed => {
                    // The earlier writes do not have higher numbers than this write, so they cannot become the head.
                    log.forget(&holder.take_other_attempts(&version)).await;
                    return Ok(WriteOutcome { was_there, version: Some(version) });
                }
                // Retry. The new head may match `Any`, or may be a late write of this holder.
                Outcome::Lost => {}
            }
        }
        let action = format!("write session `{}`", lock.id());
        Err(failed(&*self.bucket, action, "other processes change it repeatedly; try again"))
    }

    /// Fails unless the log's head is the expected version, or this holder's own write with an unknown outcome.
    fn check(
        &self,
        log: Log<'_>,
        head: Option<&Head>,
        expected: &ExpectedVersion,
        holder: &Holder,
    ) -> Result<(), StoreError> {
        let found = head.filter(|head| !head.is_removal());
        let is_expected = match (expected, found) {
            (ExpectedVersion::Any, _) | (ExpectedVersion::Absent, None) => true,
            (ExpectedVersion::Version(_), Some(Head { entry: Err(reason), number, .. })) => {
                return Err(self.unreadable(log, *number, reason.clone()));
            }
            (ExpectedVersion::Version(version), Some(head)) => head.is(version),
            (ExpectedVersion::Absent, Some(_)) | (ExpectedVersion::Version(_), None) => false,
        };
        let is_ours = || holder.has_attempted(expected, |version| head.is_some_and(|head| head.is(version)));
        if is_expected || is_ours() { Ok(()) } else { Err(StoreError::Fenced { id: log.id.clone() }) }
    }

    fn unreadable(&self, log: Log<'_>, number: u64, reason: impl Into<RecordError>) -> StoreError {
        reason.into().of_session(log.id, self.path(log, number))
    }

    /// Returns the URL of an entry, for messages.
    fn path(&self, log: Log<'_>, number: u64) -> PathBuf {
        format!("{}/{}", self.url(), log.name(number)).into()
    }

    /// Returns the record of a head, or `None` for a removal.
    fn stored(&self, log: Log<'_>, head: Head) -> Result<Option<StoredRecord>, StoreError> {
        let entry = head.entry.map_err(|reason| self.unreadable(log, head.number, reason))?;
        let version = entry.version();
        Ok(entry.record.map(|record| StoredRecord::new(record, version)))
    }
}

struct WriteOutcome {
    was_there: bool,
    version: Option<StoredVersion>,
}

#[async_trait]
impl SessionStore for ObjectStore {
    async fn try_lock(&self, id: &SessionId) -> Result<Option<SessionLock>, StoreError> {
        Ok(self.lease(id).await?.map(|lease| SessionLock::new(id.clone(), Holder::new(lease))))
    }

    async fn put(
        &self,
        lock: &SessionLock,
        expected: &ExpectedVersion,
        record: &SessionRecord,
        state: &[u8],
    ) -> Result<StoredVersion, StoreError> {
        let id = lock.id();
        lock.check_write(record, state, Self::MAX_STATE_BYTES, || self.path(self.log(id), 0))?;
        let state = Bytes::copy_from_slice(state);
        let written = self.write(lock, expected, Some((record, &state))).await?;
        written.version.ok_or_else(|| StoreError::Fenced { id: id.clone() })
    }

    async fn get(&self, id: &SessionId) -> Result<Option<StoredSession>, StoreError> {
        let log = self.log(id);
        let mut looked_for = None;
        for _ in 0..READS {
            let Some(head) = log.head().await? else { return Ok(None) };
            let number = head.number;
            let Some(stored) = self.stored(log, head)? else { return Ok(None) };
            let bytes = stored.record.bytes;
            stored.record.check_length(Self::MAX_STATE_BYTES)?;
            match self.bucket.get(&log.state_name(&stored.version), bytes).await? {
                Some(ObjectContents::Bytes(state)) if state.len() as u64 == bytes => {
                    return Ok(Some(StoredSession::new(stored, state.into())));
                }
                Some(_) => return Err(self.unreadable(log, number, "its state does not have the recorded length")),
                // The state was replaced after the head was read, unless the head still has the same version.
                None if looked_for.as_ref() == Some(&stored.version) => {
                    return Err(self.unreadable(log, number, "its state is missing"));
                }
                None => looked_for = Some(stored.version),
            }
        }
        let action = format!("read session `{id}`");
        Err(failed(&*self.bucket, action, "other processes change it repeatedly; try again"))
    }

    async fn record(&self, id: &SessionId) -> Result<Option<StoredRecord>, StoreError> {
        let log = self.log(id);
        match log.head().await? {
            Some(head) => self.stored(log, head),
            None => Ok(None),
        }
    }

    async fn list(&self, page: &PageRequest) -> Result<StoredPage, StoreError> {
        let (heads, has_more) = self.heads(page.begins_after(), page.limit()).await?;
        let next = heads.last().filter(|_| has_more).map(|head| head.id.clone());
        let forgets = AtomicUsize::new(FORGOTTEN);
        let read = stream::iter(heads).map(|head| self.entry(head, &forgets)).buffered(READERS);
        let entries: Vec<Option<StoredEntry>> = read.try_collect().await?;
        Ok(StoredPage::new(entries.into_iter().flatten().collect(), next))
    }

    async fn count(&self, max: usize) -> Result<usize, StoreError> {
        let (mut count, mut after) = (0_usize, None);
        while count < max {
            let (heads, has_more) = self.heads(after.as_ref(), PageRequest::MAX_LIMIT).await?;
            let sessions = heads.iter().filter(|head| !Entry::is_removal(head.listed.bytes));
            count = count.saturating_add(sessions.count());
            after = heads.into_iter().next_back().map(|head| head.id);
            if !has_more {
                break;
            }
        }
        Ok(count.min(max))
    }

    async fn remove(&self, lock: &SessionLock, expected: &ExpectedVersion) -> Result<bool, StoreError> {
        // If the session does not exist, do not compare versions, because it is already removed.
        let log = self.log(lock.id());
        let head = log.head().await?;
        if head.as_ref().is_none_or(Head::is_removal) {
            let none = Holder::default();
            let holder = lock.guard::<Holder>().unwrap_or(&none);
            return Ok(holder.has_attempted(expected, |version| head.as_ref().is_some_and(|head| head.is(version))));
        }
        Ok(self.write(lock, expected, None).await?.was_there)
    }
}

/// Returns the listing entry of a head, or `None` for a removal.
fn entry_of(id: &SessionId, head: Head) -> Option<StoredEntry> {
    let (bytes, stored_at) = (head.bytes, timestamp(head.modified_ms));
    match head.entry {
        Ok(entry) => {
            let version = entry.version();
            let record = entry.record?;
            let stored_bytes = bytes.saturating_add(record.bytes);
            Some(StoredEntry::new(id.clone(), stored_bytes, stored_at, Ok(StoredRecord::new(record, version))))
        }
        Err(damage) => Some(StoredEntry::new(id.clone(), bytes, stored_at, Err(damage.to_string()))),
    }
}

/// The number of names per listing request.
const NAMES: usize = 1_000;
/// The number of entries to read concurrently.
const READERS: usize = 16;
/// Maximum number of removals that expire while a page is listed. Later listings expire further removals.
const FORGOTTEN: usize = 16;
/// A number that no entry has. Its name sorts after all entries of a session, and before all entries of the next
/// session.
const LAST: u64 = u64::MAX;

/// The head of a log in a listing.
struct ListedHead {
    id: SessionId,
    number: u64,
    listed: ListedObject,
}

impl ObjectStore {
    /// Lists the heads of at most `max` sessions after a session. Also returns `true` if more sessions follow.
    async fn heads(&self, after: Option<&SessionId>, max: usize) -> Result<(Vec<ListedHead>, bool), StoreError> {
        let mut heads: Vec<ListedHead> = Vec::new();
        let mut after = after.map(|id| self.log(id).name(LAST));
        loop {
            let listed = self.bucket.list(RECORDS, after.as_deref(), NAMES).await?;
            let is_last = listed.len() < NAMES;
            after = listed.last().map(|listed| listed.name.clone());
            for listed in listed {
                let Some((id, number)) = parse(&listed.name) else { continue };
                // The entries of a session are listed in order, so the last entry is the head.
                if heads.last().is_some_and(|head| head.id == id) {
                    heads.pop();
                } else if heads.len() == max {
                    return Ok((heads, true));
                }
                heads.push(ListedHead { id, number, listed });
            }
            if is_last {
                return Ok((heads, false));
            }
        }
    }

    /// Returns the listing entry of a session, or `None` if the session was removed. Also expires an old removal.
    async fn entry(&self, found: ListedHead, forgets: &AtomicUsize) -> Result<Option<StoredEntry>, StoreError> {
        let log = self.log(&found.id);
        let head = match log.read(found.number, &found.listed).await? {
            Some(head) => Some(head),
            // The entry was replaced after the listing.
            None => log.head().await?,
        };
        let Some(head) = head else { return Ok(None) };
        let one_fewer = |count: usize| count.checked_sub(1);
        if head.is_removal()
            && head.modified_ms < self.clock.ms_before_now(REMOVAL)
            && forgets.try_update(Ordering::Relaxed, Ordering::Relaxed, one_fewer).is_ok()
            && let Err(error) = self.expire(log).await
        {
            tracing::debug!(target: "glovebox", %error, "could not expire a removal; the next listing retries it");
        }
        Ok(entry_of(&found.id, head))
    }

    /// Expires a removal. Holds the session's lease meanwhile, so that other processes cannot create the session again.
    async fn expire(&self, log: Log<'_>) -> Result<(), StoreError> {
        // Bind the lease to a variable, so that it is held until this function returns.
        let Some(_lease) = self.lease(log.id).await? else { return Ok(()) };
        log.expire(self.clock.ms_before_now(REMOVAL)).await
    }
}

/// Parses the session ID and the number from the name of an entry.
fn parse(name: &str) -> Option<(SessionId, u64)> {
    let number = number_of(name)?;
    let (dir, _) = name.rsplit_once('/')?;
    let id = dir.strip_prefix(RECORDS)?.strip_prefix('/')?.strip_suffix('!')?;
    Some((SessionId::new(id).ok()?, number))
}
