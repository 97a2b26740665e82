//! Leases: session locks that expire if their holder is killed.
//!
//! Each lease has a separate log, `leases/ID!/N`. The creator of the last entry holds the lease for the duration in the
//! entry, by the store's clock. The holder renews the lease three times within that duration. A renewal creates the
//! next entry and deletes the previous entry. Releasing the lease deletes the last entry.
//!
//! Numbers are therefore reused. An entry is identified by its random content, not by its number. To take over an
//! expired lease, a process reads the last entry and looks up when the entry was written. The process then creates the
//! next entry and reads the old entry again. If the old entry is unchanged, it was never deleted in between, so no other
//! process has acquired the lease.
//!
//! Leases only prevent wasted work. Consistency does not depend on them. A holder that was frozen for longer than its
//! lease notices the loss only at the next renewal. Until then, the session's [log](crate::log) rejects the holder's
//! writes, because the log checks versions instead of times.
//!
//! [`Holder`] records writes with an unknown outcome. [`probe`] checks whether a store is suitable for sessions, and
//! returns the store's clock.

use std::{
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use bytes::Bytes;
use glovebox_sessions::{ExpectedVersion, SessionId, StoreError, StoredVersion};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::{
    bucket::{Bucket, CreateOutcome, ListedObject, ObjectContents, SharedRuntime, create, failed},
    log::list_numbered,
};

/// The time that is added to a lease before it counts as expired, because some stores report times in whole seconds.
const MARGIN: Duration = Duration::from_secs(1);
/// Maximum size of an entry in bytes. An entry contains the holder and the duration in milliseconds.
const MAX_ENTRY_BYTES: u64 = 64;
/// Maximum duration of a lease. Longer durations in entries are clamped to this value.
const MAX_LEASE: Duration = Duration::from_secs(60 * 60);
/// Maximum time that dropping a lease waits for its release. After the release, the next holder can acquire the lease
/// immediately.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// The store's clock, measured when the store was opened. Independent of the clocks of the machines that use the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreClock {
    pub(crate) seen_ms: i64,
    pub(crate) seen_at: Instant,
}

impl StoreClock {
    pub(crate) fn now_ms(self) -> i64 {
        self.seen_ms.saturating_add(i64::try_from(self.seen_at.elapsed().as_millis()).unwrap_or(i64::MAX))
    }

    pub(crate) fn ms_before_now(self, duration: Duration) -> i64 {
        self.now_ms().saturating_sub(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
    }
}

/// A held lease. Dropping this value releases the lease.
#[derive(Debug)]
pub(crate) struct Lease {
    stop: Option<oneshot::Sender<()>>,
    released: Mutex<mpsc::Receiver<()>>,
    _background: SharedRuntime,
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.stop.take().is_some_and(|stop| stop.send(()).is_ok()) {
            // Ignore the error: if the release takes too long or fails, the lease remains until it expires.
            let released = self.released.get_mut();
            let _ = released.recv_timeout(RELEASE_TIMEOUT);
        }
    }
}

impl Lease {
    /// Acquires a session's lease. Returns `None` if another process holds the lease.
    pub(crate) async fn take(
        bucket: Arc<dyn Bucket>,
        background: &SharedRuntime,
        clock: StoreClock,
        lasts: Duration,
        id: &SessionId,
    ) -> Result<Option<Self>, StoreError> {
        // Check for a runtime before acquiring the lease, because no thread could renew or release the lease without a
        // runtime.
        let Some(handle) = background.handle() else { return Ok(None) };
        let log = LeaseLog::new(bucket, lasts, id);
        let Some(number) = log.take(clock).await? else { return Ok(None) };
        let (stop, stopped) = oneshot::channel();
        let (release, released) = mpsc::channel();
        handle.spawn(async move {
            log.renew(number, stopped).await;
            let _ = release.send(());
        });
        let background = background.clone();
        Ok(Some(Self { stop: Some(stop), released: Mutex::new(released), _background: background }))
    }
}

/// The log of a session's lease.
#[derive(Debug)]
pub(crate) struct LeaseLog {
    bucket: Arc<dyn Bucket>,
    dir: String,
    /// The content of this holder's entries: a random ID and the lease's duration in milliseconds.
    holder: String,
    lasts: Duration,
}

impl LeaseLog {
    pub(crate) fn new(bucket: Arc<dyn Bucket>, lasts: Duration, id: &SessionId) -> Self {
        let holder = format!("{} {}", SessionId::random(), lasts.as_millis());
        Self { bucket, dir: format!("leases/{id}!"), holder, lasts }
    }

    /// Acquires the lease and returns the number of its entry. Returns `None` if another process holds the lease or
    /// acquired it first.
    pub(crate) async fn take(&self, clock: StoreClock) -> Result<Option<u64>, StoreError> {
        let before = self.entries().await?;
        let Some((last, _)) = before.last() else {
            return self.create_highest(1).await;
        };
        let Some(found) = self.read(*last).await? else { return Ok(None) };
        let since = self.entries().await?;
        if since.last().is_none_or(|(number, listed)| number != last || is_held(&found, listed, clock)) {
            return Ok(None);
        }
        let next = last.checked_add(1).ok_or_else(|| {
            let reason = format!("the entry `{}` has the maximum number; delete this object", self.name(*last));
            failed(&*self.bucket, format!("lock `{}`", self.dir), reason)
        })?;
        let Some(number) = self.create_highest(next).await? else { return Ok(None) };
        if self.read(*last).await?.as_ref() != Some(&found) {
            self.delete(number).await;
            return Ok(None);
        }
        for (earlier, _) in before {
            self.delete(earlier).await;
        }
        Ok(Some(number))
    }

    /// Creates the entry `number` and returns the number. Returns `None` if this entry or a higher entry already
    /// exists.
    async fn create_highest(&self, number: u64) -> Result<Option<u64>, StoreError> {
        if !self.create(number).await? {
            return Ok(None);
        }
        // Since the entries were listed, another process may have acquired and renewed the lease.
        if self.entries().await?.last().is_some_and(|(last, _)| *last > number) {
            self.delete(number).await;
            return Ok(None);
        }
        Ok(Some(number))
    }

    fn name(&self, number: u64) -> String {
        format!("{}/{number:020}", self.dir)
    }

    async fn entries(&self) -> Result<Vec<(u64, ListedObject)>, StoreError> {
        list_numbered(&*self.bucket, &self.dir).await
    }

    /// Reads an entry. Returns `None` if the entry does not exist, and empty content if the entry is too long to be
    /// valid.
    async fn read(&self, number: u64) -> Result<Option<Bytes>, StoreError> {
        let found = self.bucket.get(&self.name(number), MAX_ENTRY_BYTES).await?;
        Ok(found.map(|found| match found {
            ObjectContents::Bytes(bytes) => bytes,
            ObjectContents::TooLong { .. } => Bytes::new(),
        }))
    }

    /// Creates an entry. Returns `true` if this holder now owns the entry.
    async fn create(&self, number: u64) -> Result<bool, StoreError> {
        let entry = self.holder.clone().into_bytes();
        Ok(create(&*self.bucket, &self.name(number), entry.into()).await? == CreateOutcome::Here)
    }

    pub(crate) async fn delete(&self, number: u64) {
        if let Err(error) = self.bucket.delete(&self.name(number)).await {
            tracing::debug!(target: "glovebox", %error, "could not delete a lease; it remains until it expires");
        }
    }

    /// Returns `true` if an entry exists and has this holder's content.
    async fn is_ours(&self, number: u64) -> Result<bool, StoreError> {
        Ok(self.read(number).await?.is_some_and(|found| found == self.holder.as_bytes()))
    }

    /// Creates the next entry and deletes the entry `number`. Returns the number of the new entry, or `None` if another
    /// process took over the lease.
    pub(crate) async fn renew_entry(&self, number: u64) -> Result<Option<u64>, StoreError> {
        let next = number.saturating_add(1);
        // If the entry was deleted, the lease expired, and an entry with the same name belongs to another holder.
        if !self.is_ours(number).await? || !self.create(next).await? {
            return Ok(None);
        }
        // Check again. Between the two calls, the lease may have expired, and another holder may have acquired and
        // released it, so that the next name was free.
        if !self.is_ours(number).await? {
            self.delete(next).await;
            return Ok(None);
        }
        self.delete(number).await;
        Ok(Some(next))
    }

    /// Renews the lease until it is released or another holder takes over.
    async fn renew(&self, mut number: u64, mut stopped: oneshot::Receiver<()>) {
        while tokio::time::timeout(self.lasts / 3, &mut stopped).await.is_err() {
            match self.renew_entry(number).await {
                Ok(Some(next)) => number = next,
                Ok(None) => {
                    tracing::warn!(target: "glovebox", lease = self.dir, "another process took over a lease");
                    return;
                }
                Err(error) => {
                    tracing::warn!(target: "glovebox", %error, lease = self.dir, "a lease could not be renewed")
                }
            }
        }
        // If the check fails, delete the entry, because it may still belong to this holder.
        if self.is_ours(number).await.unwrap_or(true) {
            self.delete(number).await;
        }
    }
}

/// Returns `true` if the lease that this entry represents has not expired.
fn is_held(says: &Bytes, listed: &ListedObject, clock: StoreClock) -> bool {
    let ms = str::from_utf8(says).ok().and_then(|entry| entry.rsplit_once(' ')?.1.parse().ok());
    let lasts = Duration::from_millis(ms.unwrap_or(0)).min(MAX_LEASE);
    listed.modified_ms >= clock.ms_before_now(lasts + MARGIN)
}

#[derive(Debug, Default)]
pub(crate) struct Holder {
    _lease: Option<Lease>,
    /// The versions of writes with an unknown outcome, and the version that these writes expected.
    unsettled: Mutex<Option<(ExpectedVersion, Vec<StoredVersion>)>>,
}

impl Holder {
    pub(crate) fn new(lease: Lease) -> Self {
        Self { _lease: Some(lease), ..Self::default() }
    }

    /// Records a write before its outcome is known.
    pub(crate) fn record_attempt(&self, expected: &ExpectedVersion, version: &StoredVersion) {
        let mut unsettled = self.unsettled.lock();
        match &mut *unsettled {
            Some((same, versions)) if same == expected => versions.push(version.clone()),
            other => *other = Some((expected.clone(), vec![version.clone()])),
        }
    }

    /// Clears the recorded writes after one write was accepted. Returns the versions of the other writes, which were
    /// rejected or overwritten.
    pub(crate) fn take_other_attempts(&self, accepted: &StoredVersion) -> Vec<StoredVersion> {
        let unsettled = self.unsettled.lock().take();
        let (_, mut versions) = unsettled.unwrap_or((ExpectedVersion::Any, Vec::new()));
        versions.retain(|version| version != accepted);
        versions
    }

    /// Returns `true` if a recorded write expected the version `expected` and satisfies the predicate `is`.
    pub(crate) fn has_attempted(&self, expected: &ExpectedVersion, is: impl Fn(&StoredVersion) -> bool) -> bool {
        let unsettled = self.unsettled.lock();
        unsettled.as_ref().is_some_and(|(same, versions)| same == expected && versions.iter().any(is))
    }
}

/// Tests a store by creating an object twice, reading, listing and deleting it. Returns the store's clock.
pub(crate) async fn probe(bucket: &dyn Bucket) -> Result<StoreClock, StoreError> {
    let unfit = |reason: &str| StoreError::Unfit { url: bucket.url().to_owned(), reason: reason.to_owned() };
    let dir = format!("probes/{}", SessionId::random());
    let name = format!("{dir}/a");
    let max = 16;
    if !bucket.try_create(&name, "first".into()).await? {
        return Err(unfit("it refuses to create an object with an unused name"));
    }
    let seen_at = Instant::now();
    let created_twice = bucket.try_create(&name, "second".into()).await?;
    let read = bucket.get(&name, max).await?;
    let listed = bucket.list(&dir, None, usize::MAX).await?;
    bucket.delete(&name).await?;
    let is_deleted = bucket.get(&name, max).await?.is_none();
    let is_unlisted = bucket.list(&dir, None, usize::MAX).await?.is_empty();
    if created_twice {
        return Err(unfit("it overwrites existing names, so two writers could both succeed"));
    }
    if read != Some(ObjectContents::Bytes("first".into())) {
        return Err(unfit("it does not return the written bytes"));
    }
    let [found] = &*listed else { return Err(unfit("it does not list a written object")) };
    if found.name != name || found.bytes != 5 {
        return Err(unfit("it lists an object with a wrong name or size"));
    }
    if !is_deleted || !is_unlisted {
        return Err(unfit("it still returns a deleted object"));
    }
    Ok(StoreClock { seen_ms: found.modified_ms, seen_at })
}
