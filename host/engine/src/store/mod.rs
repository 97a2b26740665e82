//! Where hibernated sessions are stored, each with a record of what it is.

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

/// Keeps hibernated sessions: the directory store is one, and others can be written, over a database or an object store.
///
/// A session is written whole or not at all: whoever reads gets the last state whose [`put`](Self::put) came back, or a
/// later one, whatever happened to the writer. Used from several threads and processes at once.
///
/// Who writes has the session's lock, and says besides what it expects to find ([`Expected`]). A lock can be lost without its
/// holder knowing, as a lease that ran out while the process was stopped; the version cannot: a late writer gets
/// [`StoreError::Fenced`], and what others wrote since stays.
///
/// The futures need no runtime around them. They may do their work on the thread that polls them, so poll them where blocking is allowed;
/// [`block_on`] does.
#[async_trait]
pub trait SessionStore: fmt::Debug + Send + Sync {
    /// Takes the session's lock, which only one holder has in all processes that use the store; none while another has
    /// it. The session need not be there.
    async fn try_lock(&self, id: &SessionId) -> Result<Option<SessionLock>, StoreError>;

    /// Writes a session in the place of what is expected there, and answers which write that was. It lasts when this returns.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if something else is there than expected: nothing was written, and what is there stays.
    async fn put(
        &self,
        lock: &SessionLock,
        expected: &Expected,
        record: &SessionRecord,
        state: &[u8],
    ) -> Result<StoredVersion, StoreError>;

    /// A session's record, version and state, all of one write; none if there is no such session.
    async fn get(&self, id: &SessionId) -> Result<Option<StoredSession>, StoreError>;

    /// A session's record and version, without its state.
    async fn record(&self, id: &SessionId) -> Result<Option<StoredRecord>, StoreError>;

    /// Some sessions, in the order of their ids. Damaged ones are listed as such. [`Pages`] goes through all.
    async fn list(&self, page: &PageRequest) -> Result<StoredPage, StoreError>;

    /// How many sessions there are, damaged ones too, counted up to `most`. A store that can count without reading records should.
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

    /// Removes a session, a damaged one too where [any](Expected::Any) is expected; whether there was one.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if there is one, and not the one that is expected. It stays.
    async fn remove(&self, lock: &SessionLock, expected: &Expected) -> Result<bool, StoreError>;
}
