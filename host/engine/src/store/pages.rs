//! Going through all sessions of a store.

use super::{PageRequest, SessionStore, StoreError, StoredEntry};

/// All sessions of a store, page by page. A session that is there from the first page to the last is seen, and none is seen twice; one
/// that is added or removed meanwhile may be or not.
#[derive(Debug)]
pub struct Pages<'a> {
    store: &'a dyn SessionStore,
    request: Option<PageRequest>,
}

impl<'a> Pages<'a> {
    /// Begins with the first page, and asks for pages as long as a store gives them.
    #[must_use]
    pub fn new(store: &'a dyn SessionStore) -> Self {
        Self { store, request: Some(PageRequest::default()) }
    }

    /// The next page; `None` after the last.
    ///
    /// # Errors
    /// If the store cannot be read. The same page can be asked for again.
    pub async fn next(&mut self) -> Result<Option<Vec<StoredEntry>>, StoreError> {
        let Some(request) = &self.request else { return Ok(None) };
        let page = self.store.list(request).await?;
        self.request = page.next.map(|next| request.clone().after(next));
        Ok(Some(page.entries))
    }
}
