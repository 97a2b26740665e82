//! Stores of hibernated sessions, each with a record that describes it.

mod blocking;
mod directory;
mod error;
mod head;
mod id;
mod lock;
#[cfg(feature = "object-store")]
mod objects;
mod page;
mod pages;
mod prune;
mod prune_report;
mod record;
#[cfg(test)]
mod tests;
mod version;

pub use blocking::block_on;
pub use directory::DirectoryStore;
pub use error::StoreError;
pub use id::{SessionId, SessionIdError};
pub use lock::SessionLock;
#[cfg(feature = "object-store")]
pub use objects::{BlobInfo, BlobPage, BlobStore, ObjectStore};
pub use page::{PageLimitError, PageRequest, StoredPage};
pub use pages::Pages;
pub use prune::Prune;
pub use prune_report::{PruneError, PruneReason, PruneReport, PruneSkip, Pruned, SkipReason};
pub(crate) use record::MAX_WORKSPACE_BYTES;
pub use record::{SessionRecord, StoredEntry, StoredRecord, StoredSession};
pub use version::{Expected, StoredVersion};

use std::fmt;

use async_trait::async_trait;

/// Stores hibernated sessions. [`DirectoryStore`] is one; others can be written, over a database or an object store.
///
/// Writes are atomic. A reader gets the last state whose [`put`](Self::put) returned, or a later one, whatever happened to
/// the writer. A store is used from several threads and processes at once.
///
/// A writer holds the session's lock, and also states what it expects to find ([`Expected`]). A lock can be lost without its
/// holder knowing, such as a lease that expired while the process was frozen; the version cannot. A late writer gets
/// [`StoreError::Fenced`], and what others have written since stays.
///
/// The futures need no async runtime. They may work on the thread that polls them, so poll them where blocking is allowed;
/// [`block_on`] does.
#[async_trait]
pub trait SessionStore: fmt::Debug + Send + Sync {
    /// Acquires the session's lock, exclusive among all processes that use the store. `None` while another holds it. The session
    /// need not exist.
    async fn try_lock(&self, id: &SessionId) -> Result<Option<SessionLock>, StoreError>;

    /// Writes a session in place of what is expected, and returns the new version. The write is durable when this returns.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if something else is there than expected. Nothing was written, and what is there stays.
    async fn put(
        &self,
        lock: &SessionLock,
        expected: &Expected,
        record: &SessionRecord,
        state: &[u8],
    ) -> Result<StoredVersion, StoreError>;

    /// A session's record, version and state, all of one write. `None` if it does not exist.
    async fn get(&self, id: &SessionId) -> Result<Option<StoredSession>, StoreError>;

    /// Like [`get`](Self::get), without the state.
    async fn record(&self, id: &SessionId) -> Result<Option<StoredRecord>, StoreError>;

    /// A page of sessions in id order. Damaged ones are marked as such. [`Pages`] iterates over all.
    async fn list(&self, page: &PageRequest) -> Result<StoredPage, StoreError>;

    /// The number of sessions including damaged ones, at most `most`. Stores that can count without reading records should override it.
    async fn count(&self, most: usize) -> Result<usize, StoreError> {
        let (mut count, mut page) = (0_usize, PageRequest::default());
        while count < most {
            let StoredPage { entries, next } = self.list(&page).await?;
            count = count.saturating_add(entries.len());
            let Some(next) = next else { break };
            page = page.after(next);
        }
        Ok(count.min(most))
    }

    /// Removes a session, even a damaged one if [any](Expected::Any) is expected. Returns whether it existed.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if it exists and is not the expected one. It stays.
    async fn remove(&self, lock: &SessionLock, expected: &Expected) -> Result<bool, StoreError>;
}
