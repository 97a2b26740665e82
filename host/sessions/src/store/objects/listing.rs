//! Lists and counts sessions by the names and lengths of their log entries, and encodes these entries.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};

use super::{
    bucket::Listed,
    log::{Log, RECORDS, number_of},
    store::{ObjectStore, REMOVAL, entry_of},
};
use crate::store::{
    PageRequest, SessionId, SessionRecord, StoreError, StoredEntry, StoredPage, StoredVersion,
    record::MAX_WORKSPACE_BYTES,
};

/// Number of names for each listing request.
const NAMES: usize = 1_000;
/// Number of entries to read concurrently.
const READERS: usize = 16;
/// Maximum number of removals that listing a page expires. Later listings expire the rest.
const FORGOTTEN: usize = 16;
/// A number that no entry has. Its name sorts after the entries of a session and before those of the next one.
const LAST: u64 = u64::MAX;

/// The head of a log in a listing.
struct ListedHead {
    id: SessionId,
    number: u64,
    listed: Listed,
}

impl ObjectStore {
    /// Lists the heads of at most `most` sessions after a session. Also returns whether more sessions follow.
    async fn heads(&self, after: Option<&SessionId>, most: usize) -> Result<(Vec<ListedHead>, bool), StoreError> {
        let mut heads: Vec<ListedHead> = Vec::new();
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
                heads.push(ListedHead { id, number, listed });
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
    async fn entry(&self, found: ListedHead, forgets: &AtomicUsize) -> Result<Option<StoredEntry>, StoreError> {
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

const FORMAT: u32 = 1;
/// Number of hexadecimal digits of a version.
const VERSION_DIGITS: usize = 32;
/// Maximum number of ancestors in an entry.
pub(super) const MAX_ANCESTORS: usize = 16;
/// Entries with a session are padded to this length in bytes. Removals are shorter, so listings can tell them apart.
const MIN_SESSION_BYTES: usize = 2048;
/// Maximum size of an entry in bytes. Entries take 3,000 bytes plus the workspace's path, which JSON can expand to six
/// times its length.
pub(super) const MAX_ENTRY_BYTES: u64 = 16_384 + 6 * MAX_WORKSPACE_BYTES as u64;

/// An entry of a session's log: one write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    format: u32,
    /// Identifies this write: 128 random bits. The name of the state contains it, too.
    version: String,
    /// Versions of the writes below this one, latest first. A writer that lost its response finds its own version here.
    ancestors: Vec<String>,
    /// The written record; `None` for a removal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) record: Option<SessionRecord>,
}

impl Entry {
    /// Returns the entry of a write on top of `base`, or of the first write.
    pub(super) fn new(version: &StoredVersion, base: Option<&Self>, record: Option<&SessionRecord>) -> Self {
        let earlier = base.into_iter().flat_map(|base| std::iter::once(&base.version).chain(&base.ancestors));
        let ancestors = earlier.take(MAX_ANCESTORS).cloned().collect();
        Self { format: FORMAT, version: version.as_str().to_owned(), ancestors, record: record.cloned() }
    }

    pub(super) fn version(&self) -> StoredVersion {
        StoredVersion::new(self.version.as_str())
    }

    pub(super) fn is(&self, version: &StoredVersion) -> bool {
        self.version == version.as_str()
    }

    /// Returns whether this entry is built on the write `version`, `distance` entries below. `None` if that is further
    /// back than the recorded ancestors.
    pub(super) fn descends_from(&self, version: &StoredVersion, distance: u64) -> Option<bool> {
        if self.ancestors.iter().any(|ancestor| ancestor == version.as_str()) {
            return Some(true);
        }
        (distance <= self.ancestors.len() as u64).then_some(false)
    }

    /// Encodes the entry.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        // Only strings and numbers: this cannot fail.
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        if self.record.is_some() {
            bytes.resize(bytes.len().max(MIN_SESSION_BYTES), b' ');
        }
        bytes
    }

    pub(super) fn read(id: &SessionId, bytes: &[u8]) -> Result<Self, String> {
        let entry: Self = serde_json::from_slice(bytes).map_err(|_| "its record cannot be read")?;
        if entry.format != FORMAT {
            return Err(format!("its record has version {}, and this program supports version {FORMAT}", entry.format));
        }
        let is_version =
            |name: &String| name.len() == VERSION_DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        if entry.ancestors.len() > MAX_ANCESTORS || !entry.ancestors.iter().chain([&entry.version]).all(is_version) {
            return Err("its versions are invalid".into());
        }
        match &entry.record {
            Some(record) if record.id != *id => Err(format!("its record belongs to `{}`", record.id)),
            _ => Ok(entry),
        }
    }

    /// Returns whether an entry of this length is a removal.
    pub(super) fn is_removal(bytes: u64) -> bool {
        bytes < MIN_SESSION_BYTES as u64
    }
}
