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

/// How many names are requested at once.
const NAMES: usize = 1_000;
/// How many entries are read at once.
const READERS: usize = 16;
/// How many removals a page expires at most; later pages expire others.
const FORGOTTEN: usize = 16;
/// A number no entry has. Its name sorts after a session's entries and before the next session's.
const LAST: u64 = u64::MAX;

/// A log's head in a listing.
struct Found {
    id: SessionId,
    number: u64,
    listed: Listed,
}

impl ObjectStore {
    /// The heads after a session, for at most `most` sessions, and whether there are more.
    async fn heads(&self, after: Option<&SessionId>, most: usize) -> Result<(Vec<Found>, bool), StoreError> {
        let mut heads: Vec<Found> = Vec::new();
        let mut after = after.map(|id| self.log(id).name(LAST));
        loop {
            let listed = self.bucket.list(RECORDS, after.as_deref(), NAMES).await?;
            let is_last = listed.len() < NAMES;
            after = listed.last().map(|listed| listed.name.clone());
            for listed in listed {
                let Some((id, number)) = parse(&listed.name) else { continue };
                // A session's entries are in order: the last is its head.
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

    /// A session's listing entry, or `None` if it was removed. Expires an old removal.
    async fn entry(&self, found: Found, forgets: &AtomicUsize) -> Result<Option<StoredEntry>, StoreError> {
        let log = self.log(&found.id);
        let head = match log.read(found.number, &found.listed).await? {
            Some(head) => Some(head),
            // Overwritten since.
            None => log.head().await?,
        };
        let Some(head) = head else { return Ok(None) };
        let one_fewer = |count: usize| count.checked_sub(1);
        if head.is_removal()
            && head.modified_ms < self.clock.ms_before_now(REMOVAL)
            && forgets.try_update(Ordering::Relaxed, Ordering::Relaxed, one_fewer).is_ok()
            && let Err(error) = self.expire(log).await
        {
            tracing::debug!(target: "glovebox", %error, "a removal stays in the store until it is listed again");
        }
        Ok(entry_of(&found.id, head))
    }

    /// Holds the session's lease, so that nobody creates the session again meanwhile.
    async fn expire(&self, log: Log<'_>) -> Result<(), StoreError> {
        // Named, so it is held until this returns.
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

/// The session and number in an entry's name.
fn parse(name: &str) -> Option<(SessionId, u64)> {
    let number = number_of(name)?;
    let (dir, _) = name.rsplit_once('/')?;
    let id = dir.strip_prefix(RECORDS)?.strip_prefix('/')?.strip_suffix('!')?;
    Some((SessionId::new(id).ok()?, number))
}
