//! Lists and counts sessions by the names and lengths of their entries.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::{
    bucket::Listed,
    entry::Entry,
    log::{Log, RECORDS, number_of},
    store::{ObjectStore, REMOVAL, entry_of},
};
use crate::store::{PageRequest, SessionId, StoreError, StoredEntry, StoredPage};

/// Number of names for each listing request.
const NAMES: usize = 1_000;
/// Number of entries to read concurrently.
const READERS: usize = 16;
/// Maximum number of removals that listing a page expires. Later listings expire the rest.
const FORGOTTEN: usize = 16;
/// A number that no entry has. Its name sorts after the entries of a session and before those of the next one.
const LAST: u64 = u64::MAX;

/// The head of a log in a listing.
struct Found {
    id: SessionId,
    number: u64,
    listed: Listed,
}

impl ObjectStore {
    /// Lists the heads of at most `most` sessions after a session. Also returns whether more sessions follow.
    async fn heads(&self, after: Option<&SessionId>, most: usize) -> Result<(Vec<Found>, bool), StoreError> {
        let mut heads: Vec<Found> = Vec::new();
        let mut after = after.map(|id| self.log(id).name(LAST));
        loop {
            let listed = self.bucket.list(RECORDS, after.as_deref(), NAMES).await?;
            let is_last = listed.len() < NAMES;
            after = listed.last().map(|listed| listed.name.clone());
            for listed in listed {
                let Some((id, number)) = parse(&listed.name) else { continue };
                // Entries of a session are listed in order: the last one is the head.
                if heads.last().is_some_and(|head| head.id == id) {
                    heads.pop();
                } else if heads.len() == most {
                    return Ok((heads, true));
                }
                heads.push(Found { id, number, listed });
            }
            if is_last {
                return Ok((heads, false));
            }
        }
    }

    pub(super) async fn list_page(&self, page: &PageRequest) -> Result<StoredPage, StoreError> {
        let (heads, has_more) = self.heads(page.begins_after(), page.limit()).await?;
        let next = heads.last().filter(|_| has_more).map(|head| head.id.clone());
        let forgets = AtomicUsize::new(FORGOTTEN);
        let read = stream::iter(heads).map(|head| self.entry(head, &forgets)).buffered(READERS);
        let entries: Vec<Option<StoredEntry>> = read.try_collect().await?;
        Ok(StoredPage::new(entries.into_iter().flatten().collect(), next))
    }

    /// Returns the listing entry of a session, or `None` if the session was removed. Expires an old removal.
    async fn entry(&self, found: Found, forgets: &AtomicUsize) -> Result<Option<StoredEntry>, StoreError> {
        let log = self.log(&found.id);
        let head = match log.read(found.number, &found.listed).await? {
            Some(head) => Some(head),
            // The entry was overwritten after the listing.
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
        // Bound to a name, so the lease is held until this returns.
        let Some(_lease) = self.lease(log.id).await? else { return Ok(()) };
        log.expire(self.clock.ms_before_now(REMOVAL)).await
    }

    pub(super) async fn count_sessions(&self, most: usize) -> Result<usize, StoreError> {
        let (mut count, mut after) = (0_usize, None);
        while count < most {
            let (heads, has_more) = self.heads(after.as_ref(), PageRequest::MAX_LIMIT).await?;
            let sessions = heads.iter().filter(|head| !Entry::is_removal(head.listed.bytes));
            count = count.saturating_add(sessions.count());
            after = heads.into_iter().next_back().map(|head| head.id);
            if !has_more {
                break;
            }
        }
        Ok(count.min(most))
    }
}

/// Parses the session and the number from the name of an entry.
fn parse(name: &str) -> Option<(SessionId, u64)> {
    let number = number_of(name)?;
    let (dir, _) = name.rsplit_once('/')?;
    let id = dir.strip_prefix(RECORDS)?.strip_prefix('/')?.strip_suffix('!')?;
    Some((SessionId::new(id).ok()?, number))
}
