//! Pages of a store's sessions, an iterator over all pages, and the removal of sessions that exceed configured limits.

use std::{collections::BTreeMap, time::Duration};

use glovebox::Timestamp;
use serde::Serialize;

use super::{ExpectedVersion, SessionId, SessionStore, StoreError, StoredEntry, StoredVersion};
use crate::store;

/// Limits for pruning. A session that exceeds any configured limit is removed. Default: no limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PruneLimits {
    /// Maximum time since the last write of a session.
    pub older_than: Option<Duration>,
    /// Maximum number of sessions. Prunes all but the most recently written sessions.
    pub max_count: Option<usize>,
    /// Maximum total size of the sessions, in bytes. Sessions are considered from the newest to the oldest, and a
    /// session that no longer fits is removed.
    pub max_bytes: Option<u64>,
    /// `true` to report the sessions that would be removed, without removing them.
    pub dry_run: bool,
}

impl PruneLimits {
    /// Removes the sessions in a store that exceed a limit, except sessions in use. The age of a session is the time
    /// since the last write in its record. If the session is damaged or the recorded time is in the future, the store's
    /// time of the write is used.
    ///
    /// # Errors
    /// Fails if the store cannot be listed. If a session cannot be removed, the report contains the error, and pruning
    /// continues.
    pub async fn run(&self, store: &dyn SessionStore, now: Timestamp) -> Result<PruneReport, StoreError> {
        let mut report = PruneReport { dry_run: self.dry_run, ..PruneReport::default() };
        for (listed, reason) in self.choose(store, now).await? {
            let (id, bytes) = (listed.id.clone(), listed.bytes);
            match self.remove(store, &listed).await {
                Ok(None) => {
                    report.reclaimed_bytes = report.reclaimed_bytes.saturating_add(bytes);
                    let pruned = PrunedSession { id, bytes, reason };
                    store::log_pruned(&pruned, self.dry_run);
                    report.deleted.push(pruned);
                }
                Ok(Some(reason)) => report.skipped.push(PruneSkip { id, reason }),
                Err(error) => report.errors.push(PruneError { id, message: error.to_string() }),
            }
        }
        store::log_prune_complete(&report);
        Ok(report)
    }

    /// Returns the sessions that exceed a limit, oldest first.
    async fn choose(
        &self,
        store: &dyn SessionStore,
        now: Timestamp,
    ) -> Result<Vec<(PruneCandidate, PruneReason)>, StoreError> {
        // Sort by time and name, so that the choice is deterministic. Keep only the necessary fields, because there may
        // be many sessions.
        let mut by_time: BTreeMap<(Timestamp, SessionId), PruneCandidate> = BTreeMap::new();
        let mut pages = Pages::new(store);
        while let Some(entries) = pages.next().await? {
            by_time
                .extend(entries.into_iter().map(|entry| ((written_at(&entry, now), entry.id.clone()), entry.into())));
        }
        let (mut count, mut bytes) = (0_usize, 0_u64);
        let mut chosen = Vec::new();
        for ((updated_at, _), listed) in by_time.into_iter().rev() {
            let with = bytes.saturating_add(listed.bytes);
            let reason = if self.older_than.is_some_and(|max| now.since(updated_at) > max) {
                PruneReason::Age
            } else if self.max_count.is_some_and(|max| count >= max) {
                PruneReason::Count
            } else if self.max_bytes.is_some_and(|max| with > max) {
                PruneReason::Bytes
            } else {
                (count, bytes) = (count + 1, with);
                continue;
            };
            chosen.push((listed, reason));
        }
        chosen.reverse();
        Ok(chosen)
    }

    async fn remove(
        &self,
        store: &dyn SessionStore,
        listed: &PruneCandidate,
    ) -> Result<Option<SkipReason>, StoreError> {
        let Some(lock) = store.try_lock(&listed.id).await? else { return Ok(Some(SkipReason::InUse)) };
        let is_as_listed = match store.record(&listed.id).await {
            Ok(stored) => stored.map(|stored| stored.version) == listed.version,
            Err(StoreError::Damaged { .. } | StoreError::Format { .. }) => listed.version.is_none(),
            // Do not remove a session that was readable when it was listed, because it may have changed.
            Err(error) if listed.version.is_some() => return Err(error),
            Err(_) => true,
        };
        if !is_as_listed {
            return Ok(Some(SkipReason::Changed));
        }
        if self.dry_run {
            return Ok(None);
        }
        let expected = listed.version.clone().map_or(ExpectedVersion::Any, ExpectedVersion::Version);
        match store.remove(&lock, &expected).await {
            Err(StoreError::Fenced { .. }) => Ok(Some(SkipReason::Changed)),
            removed => removed.map(|_| None),
        }
    }
}

/// The fields of a listed session that pruning needs.
struct PruneCandidate {
    id: SessionId,
    bytes: u64,
    /// `None` if the session is damaged.
    version: Option<StoredVersion>,
}

impl From<StoredEntry> for PruneCandidate {
    fn from(entry: StoredEntry) -> Self {
        Self { id: entry.id, bytes: entry.stored_bytes, version: entry.version }
    }
}

/// Returns the time of the last write. If the record's time is in the future, returns the store's time, because the
/// session would otherwise never expire.
fn written_at(entry: &StoredEntry, now: Timestamp) -> Timestamp {
    let updated_at = entry.updated_at();
    if updated_at > now { entry.stored_at.min(now) } else { updated_at }
}

/// The limit that a removed session exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PruneReason {
    /// The session is older than `older_than`.
    Age,
    /// There are more than `max_count` sessions.
    Count,
    /// The total size of the sessions exceeds `max_bytes`.
    Bytes,
}

impl PruneReason {
    /// Returns the serialized form of the reason: a single word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::Count => "count",
            Self::Bytes => "bytes",
        }
    }
}

/// A session that was removed or, in a dry run, would be removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PrunedSession {
    /// The session's ID.
    pub id: SessionId,
    /// The size of the session in bytes.
    pub bytes: u64,
    /// The limit that the session exceeded.
    pub reason: PruneReason,
}

/// The reason why a session was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SkipReason {
    /// The session's lock is held, by this or another process.
    InUse,
    /// The session was written or removed after it was listed.
    Changed,
}

/// A session that was selected for removal but skipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PruneSkip {
    /// The session's ID.
    pub id: SessionId,
    /// The reason why the session was skipped.
    pub reason: SkipReason,
}

/// A session that could not be removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PruneError {
    /// The session's ID.
    pub id: SessionId,
    /// The error message.
    pub message: String,
}

/// The result of pruning. After a dry run, contains the sessions that would be removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PruneReport {
    /// Removed sessions, oldest first.
    pub deleted: Vec<PrunedSession>,
    /// Skipped sessions.
    pub skipped: Vec<PruneSkip>,
    /// The total size of the removed sessions in bytes.
    pub reclaimed_bytes: u64,
    /// Sessions that could not be removed.
    pub errors: Vec<PruneError>,
    /// `true` after a dry run, which does not remove sessions.
    pub dry_run: bool,
}

/// A request to list at most `limit` sessions in the order of their IDs, after a given ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRequest {
    after: Option<SessionId>,
    limit: usize,
}

/// The error for a requested page size that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the page limit is `{limit}`; use 1 to {}", PageRequest::MAX_LIMIT)]
pub struct PageLimitError {
    /// The requested page limit.
    pub limit: usize,
}

impl PageRequest {
    /// Maximum and default page size: 1,000 sessions.
    pub const MAX_LIMIT: usize = 1_000;

    /// Requests the first page, with at most `limit` sessions.
    ///
    /// # Errors
    /// [`PageLimitError`] if `limit` is 0 or more than [`MAX_LIMIT`](Self::MAX_LIMIT).
    pub fn new(limit: usize) -> Result<Self, PageLimitError> {
        if (1..=Self::MAX_LIMIT).contains(&limit) {
            Ok(Self { after: None, limit })
        } else {
            Err(PageLimitError { limit })
        }
    }

    /// Requests the page after this session, which need not exist. `None` requests the first page.
    #[must_use]
    pub fn after(self, after: impl Into<Option<SessionId>>) -> Self {
        Self { after: after.into(), ..self }
    }

    /// Returns the ID after which the page begins, or `None` for the first page.
    #[must_use]
    pub fn begins_after(&self) -> Option<&SessionId> {
        self.after.as_ref()
    }

    /// Returns the maximum number of sessions in the page.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }
}

impl Default for PageRequest {
    /// Requests the first [`MAX_LIMIT`](Self::MAX_LIMIT) sessions.
    fn default() -> Self {
        Self { after: None, limit: Self::MAX_LIMIT }
    }
}

/// A page of a store's sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredPage {
    /// Sessions in the order of their IDs. A page can be shorter than requested, or empty, even if more sessions
    /// follow.
    pub entries: Vec<StoredEntry>,
    /// The argument of [`PageRequest::after`] for the next page. `None` on the last page.
    pub next: Option<SessionId>,
}

impl StoredPage {
    /// Creates a page. Only stores call this function. `next` is the ID after which the next page begins.
    #[must_use]
    pub fn new(entries: Vec<StoredEntry>, next: Option<SessionId>) -> Self {
        Self { entries, next }
    }
}

/// An iterator over all sessions of a store, page by page. A session that exists throughout the iteration is returned
/// exactly once. A session that is added or removed during the iteration is returned at most once.
#[derive(Debug)]
pub struct Pages<'a> {
    store: &'a dyn SessionStore,
    request: Option<PageRequest>,
}

impl<'a> Pages<'a> {
    /// Creates an iterator that starts at the first page.
    #[must_use]
    pub fn new(store: &'a dyn SessionStore) -> Self {
        Self { store, request: Some(PageRequest::default()) }
    }

    /// Returns the next page, or `None` after the last page.
    ///
    /// # Errors
    /// Fails if the store cannot read the page. The next call retries the same page.
    pub async fn next(&mut self) -> Result<Option<Vec<StoredEntry>>, StoreError> {
        let Some(request) = &self.request else { return Ok(None) };
        let page = self.store.list(request).await?;
        self.request = page.next.map(|next| request.clone().after(next));
        Ok(Some(page.entries))
    }
}
