//! Iterates over all sessions of a store.

use super::{PageRequest, SessionStore, StoreError, StoredEntry};

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
