//! What a page of a store's sessions is.

use super::{SessionId, StoredEntry};

/// Which sessions to list: at most so many, in the order of their ids, after one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRequest {
    after: Option<SessionId>,
    limit: usize,
}

/// A page cannot have so many sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a page cannot have {limit} sessions; ask for 1 to {}", PageRequest::MAX_LIMIT)]
pub struct PageLimitError {
    /// What was asked for.
    pub limit: usize,
}

impl PageRequest {
    /// The most sessions of a page, and the default: 1,000.
    pub const MAX_LIMIT: usize = 1_000;

    /// The first page, of at most so many sessions.
    ///
    /// # Errors
    /// If that is none, or more than [`MAX_LIMIT`](Self::MAX_LIMIT).
    pub fn new(limit: usize) -> Result<Self, PageLimitError> {
        if (1..=Self::MAX_LIMIT).contains(&limit) {
            Ok(Self { after: None, limit })
        } else {
            Err(PageLimitError { limit })
        }
    }

    /// The page after this session, which need not exist (any more).
    #[must_use]
    pub fn after(mut self, id: SessionId) -> Self {
        self.after = Some(id);
        self
    }

    /// The session after whose id the page begins; none for the first page.
    #[must_use]
    pub fn begins_after(&self) -> Option<&SessionId> {
        self.after.as_ref()
    }

    /// The most sessions of the page.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }
}

impl Default for PageRequest {
    /// The first [`MAX_LIMIT`](Self::MAX_LIMIT).
    fn default() -> Self {
        Self { after: None, limit: Self::MAX_LIMIT }
    }
}

/// Some of a store's sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredPage {
    /// The sessions, in the order of their ids. There may be fewer than were asked for, or none, where there are more after them.
    pub entries: Vec<StoredEntry>,
    /// What to ask for the next page [after](PageRequest::after); none if there is nothing after this page.
    pub next: Option<SessionId>,
}

impl StoredPage {
    /// For stores: a page, and where the next begins.
    #[must_use]
    pub fn new(entries: Vec<StoredEntry>, next: Option<SessionId>) -> Self {
        Self { entries, next }
    }
}
