//! Leases: locks of sessions that end with their holders, also where those are killed.
//!
//! A lease is a log of its own, `leases/ID!/N`: who creates the next entry has the lease, for as long as the entry says by the store's clock; it
//! creates one more every third of that time as long as it holds it, and deletes the earlier ones. Whoever gives it back deletes the last.
//!
//! So numbers come again, and an entry is not known by its number: what it says is random. Whoever takes over one that ran out reads it first,
//! then lists when it was written, creates the next, and reads it again: if it is the same, it was there all the time, and no other has the lease.
//!
//! A lease spares work, and no more: a holder that was frozen for longer than that finds another in its place, or none, and is not told. What it
//! then writes is refused by the [log](super::log) of the session, which asks for versions and not for the time.

use std::{
    sync::{Arc, Mutex, PoisonError, mpsc},
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::{
    background::Background,
    bucket::{Bucket, Created, Listed, create, failed},
    log::number_of,
};
use crate::{
    entropy,
    store::{SessionId, StoreError},
};

/// What is waited longer, since some stores tell the time in whole seconds.
const MARGIN: Duration = Duration::from_secs(1);
/// The most bytes of an entry: who holds the lease, and for how many milliseconds.
const MAX_ENTRY_BYTES: u64 = 64;
/// The most objects of a session's leases.
const MAX_LISTED: usize = 10_000;
/// The longest lease that is believed.
const MAX_LEASE: Duration = Duration::from_secs(60 * 60);
/// For how long whoever drops a lease waits until it is given back, so that the next finds it free.
const GIVING_BACK: Duration = Duration::from_secs(2);

/// The store's clock, as it was seen when it was opened: whatever the clocks of those who use it say.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreClock {
    pub(super) seen_ms: i64,
    pub(super) seen_at: Instant,
}

impl StoreClock {
    pub(super) fn now_ms(self) -> i64 {
        self.seen_ms.saturating_add(i64::try_from(self.seen_at.elapsed().as_millis()).unwrap_or(i64::MAX))
    }

    pub(super) fn ms_before_now(self, duration: Duration) -> i64 {
        self.now_ms().saturating_sub(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
    }
}

/// A lease, given back when dropped.
#[derive(Debug)]
pub(super) struct Lease {
    stop: Option<oneshot::Sender<()>>,
    given_back: Mutex<mpsc::Receiver<()>>,
    _background: Background,
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.stop.take().is_some_and(|stop| stop.send(()).is_ok()) {
            // An error: nobody renews it any more, since another has taken it.
            let given_back = self.given_back.get_mut().unwrap_or_else(PoisonError::into_inner);
            let _ = given_back.recv_timeout(GIVING_BACK);
        }
    }
}

impl Lease {
    /// Takes a session's lease; none while another has it.
    pub(super) async fn take(
        bucket: Arc<dyn Bucket>,
        background: &Background,
        clock: StoreClock,
        lasts: Duration,
        id: &SessionId,
    ) -> Result<Option<Self>, StoreError> {
        let log = LeaseLog::new(bucket, lasts, id);
        let Some(number) = log.take(clock).await? else { return Ok(None) };
        let (stop, stopped) = oneshot::channel();
        let (gives_back, given_back) = mpsc::channel();
        let Some(handle) = background.handle() else { return Ok(None) };
        handle.spawn(async move {
            log.renew(number, stopped).await;
            let _ = gives_back.send(());
        });
        let background = background.clone();
        Ok(Some(Self { stop: Some(stop), given_back: Mutex::new(given_back), _background: background }))
    }
}

/// The log of a session's leases.
#[derive(Debug)]
pub(super) struct LeaseLog {
    bucket: Arc<dyn Bucket>,
    dir: String,
    /// What our entries say.
    holder: String,
    lasts: Duration,
}

impl LeaseLog {
    pub(super) fn new(bucket: Arc<dyn Bucket>, lasts: Duration, id: &SessionId) -> Self {
        let holder = format!("{} {}", entropy::random_id(), lasts.as_millis());
        Self { bucket, dir: format!("leases/{id}!"), holder, lasts }
    }

    /// The number of the entry that we have the lease by; none while another has it, or comes first.
    pub(super) async fn take(&self, clock: StoreClock) -> Result<Option<u64>, StoreError> {
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
            failed(&*self.bucket, format!("lock `{}`", self.dir), "no number comes after its last; delete that object")
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

    /// Creates an entry; none if it is there, or a higher one.
    async fn create_highest(&self, number: u64) -> Result<Option<u64>, StoreError> {
        if !self.create(number).await? {
            return Ok(None);
        }
        // Somebody may have come and gone on since it was listed.
        if self.entries().await?.last().is_some_and(|(last, _)| *last > number) {
            self.delete(number).await;
            return Ok(None);
        }
        Ok(Some(number))
    }

    fn name(&self, number: u64) -> String {
        format!("{}/{number:020}", self.dir)
    }

    async fn entries(&self) -> Result<Vec<(u64, Listed)>, StoreError> {
        let listed = self.bucket.list(&self.dir, None, MAX_LISTED + 1).await?;
        if listed.len() > MAX_LISTED {
            let reason = format!("it has more than {MAX_LISTED} objects; delete them");
            return Err(failed(&*self.bucket, format!("lock `{}`", self.dir), reason));
        }
        Ok(listed.into_iter().filter_map(|listed| Some((number_of(&listed.name)?, listed))).collect())
    }

    /// What an entry says: nothing where it was not written by us. None: it is gone.
    async fn read(&self, number: u64) -> Result<Option<Bytes>, StoreError> {
        match self.bucket.get(&self.name(number), MAX_ENTRY_BYTES).await {
            Err(StoreError::BlobTooLarge { .. }) => Ok(Some(Bytes::new())),
            found => found,
        }
    }

    /// Whether it is ours.
    async fn create(&self, number: u64) -> Result<bool, StoreError> {
        let entry = self.holder.clone().into_bytes();
        Ok(create(&*self.bucket, &self.name(number), entry.into()).await? == Created::Here)
    }

    pub(super) async fn delete(&self, number: u64) {
        if let Err(error) = self.bucket.delete(&self.name(number)).await {
            tracing::debug!(target: "glovebox", %error, "a lease stays in the store until it has expired");
        }
    }

    /// Whether an entry is there and ours. An error: nobody knows, so it may be.
    async fn is_ours(&self, number: u64) -> bool {
        self.read(number).await.map_or(true, |found| found.is_some_and(|found| found == self.holder.as_bytes()))
    }

    /// Holds the lease until it is to be given back, or another has taken it.
    async fn renew(&self, mut number: u64, mut stopped: oneshot::Receiver<()>) {
        while tokio::time::timeout(self.lasts / 3, &mut stopped).await.is_err() {
            let next = number.saturating_add(1);
            // One that was deleted has run out, and what has its name since is another's.
            if !self.is_ours(number).await {
                tracing::warn!(target: "glovebox", lease = self.dir, "a lease was lost");
                return;
            }
            match self.create(next).await {
                Ok(true) => {
                    self.delete(number).await;
                    number = next;
                }
                Ok(false) => {
                    tracing::warn!(target: "glovebox", lease = self.dir, "another process has taken a lease over");
                    return;
                }
                Err(error) => {
                    tracing::warn!(target: "glovebox", %error, lease = self.dir, "a lease could not be renewed")
                }
            }
        }
        if self.is_ours(number).await {
            self.delete(number).await;
        }
    }
}

/// Whether what an entry says has not run out.
fn is_held(says: &Bytes, listed: &Listed, clock: StoreClock) -> bool {
    let ms = str::from_utf8(says).ok().and_then(|entry| entry.rsplit_once(' ')?.1.parse().ok());
    let lasts = Duration::from_millis(ms.unwrap_or(0)).min(MAX_LEASE);
    listed.modified_ms >= clock.ms_before_now(lasts + MARGIN)
}
