//! Pages of a store's sessions.

use super::{SessionId, StoredEntry};

/// Which sessions to list: at most a limit, in the order of their ids, after a given id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRequest {
    after: Option<SessionId>,
    limit: usize,
}

/// The requested page size is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a page cannot have {limit} sessions; ask for 1 to {}", PageRequest::MAX_LIMIT)]
pub struct PageLimitError {
    /// The requested limit.
    pub limit: usize,
}

impl PageRequest {
    /// The maximum page size, and the default: 1,000 sessions.
    pub const MAX_LIMIT: usize = 1_000;

    /// The first page, of at most `limit` sessions.
    ///
    /// # Errors
    /// If `limit` is 0 or more than [`MAX_LIMIT`](Self::MAX_LIMIT).
    pub fn new(limit: usize) -> Result<Self, PageLimitError> {
        if (1..=Self::MAX_LIMIT).contains(&limit) {
            Ok(Self { after: None, limit })
        } else {
            Err(PageLimitError { limit })
        }
    }

    /// The page after this session, which need not exist.
    #[must_use]
    pub fn after(mut self, id: SessionId) -> Self {
        self.after = Some(id);
        self
    }

    /// The id after which the page begins, or `None` for the first page.
    #[must_use]
    pub fn begins_after(&self) -> Option<&SessionId> {
        self.after.as_ref()
    }

    /// The maximum number of sessions.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }
}

impl Default for PageRequest {
    /// The first [`MAX_LIMIT`](Self::MAX_LIMIT) sessions.
    fn default() -> Self {
        Self { after: None, limit: Self::MAX_LIMIT }
    }
}

/// A page of a store's sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredPage {
    /// The sessions, in the order of their ids. There may be fewer than requested, or none, even if more sessions follow.
    pub entries: Vec<StoredEntry>,
    /// The id to request the next page [after](PageRequest::after), or `None` if nothing follows.
    pub next: Option<SessionId>,
}

impl StoredPage {
    /// For stores: a page, and where the next begins.
    #[must_use]
    pub fn new(entries: Vec<StoredEntry>, next: Option<SessionId>) -> Self {
        Self { entries, next }
    }
}
