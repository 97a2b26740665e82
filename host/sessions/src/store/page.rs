//! Pages of a store's sessions, and an iterator over all of them.

use super::{SessionId, SessionStore, StoreError, StoredEntry};

/// A request to list at most `limit` sessions in the order of their ids, after a given id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRequest {
    after: Option<SessionId>,
    limit: usize,
}

/// The requested page size is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a page cannot have {limit} sessions; ask for 1 to {}", PageRequest::MAX_LIMIT)]
pub struct PageLimitError {
    /// The requested size.
    pub limit: usize,
}

impl PageRequest {
    /// Maximum and default page size: 1,000 sessions.
    pub const MAX_LIMIT: usize = 1_000;

    /// Requests the first page, of at most `limit` sessions.
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

    /// Requests the page after this session, which need not exist.
    #[must_use]
    pub fn after(mut self, id: SessionId) -> Self {
        self.after = Some(id);
        self
    }

    /// Returns the id after which the page begins; `None` for the first page.
    #[must_use]
    pub fn begins_after(&self) -> Option<&SessionId> {
        self.after.as_ref()
    }

    /// Returns the maximum number of sessions.
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
    /// Sessions in the order of their ids. A page may be shorter than requested, or empty, even if more sessions
    /// follow.
    pub entries: Vec<StoredEntry>,
    /// Id to request the next page [after](PageRequest::after); `None` on the last page.
    pub next: Option<SessionId>,
}

impl StoredPage {
    /// For stores: creates a page. `next` is the id after which the next page begins.
    #[must_use]
    pub fn new(entries: Vec<StoredEntry>, next: Option<SessionId>) -> Self {
        Self { entries, next }
    }
}

/// All sessions of a store, page by page. A session that exists throughout the iteration is returned exactly once. A
/// session that is added or removed meanwhile is returned at most once.
#[derive(Debug)]
pub struct Pages<'a> {
    store: &'a dyn SessionStore,
    request: Option<PageRequest>,
}

impl<'a> Pages<'a> {
    /// Starts at the first page.
    #[must_use]
    pub fn new(store: &'a dyn SessionStore) -> Self {
        Self { store, request: Some(PageRequest::default()) }
    }

    /// Returns the next page, or `None` after the last.
    ///
    /// # Errors
    /// The store's error if the page cannot be read. The next call retries the same page.
    pub async fn next(&mut self) -> Result<Option<Vec<StoredEntry>>, StoreError> {
        let Some(request) = &self.request else { return Ok(None) };
        let page = self.store.list(request).await?;
        self.request = page.next.map(|next| request.clone().after(next));
        Ok(Some(page.entries))
    }
}
