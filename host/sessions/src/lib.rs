//! Sessions of [`glovebox`] that outlive their process: live ones in memory, hibernated ones in a store.
//!
//! * [`Sessions`]: many sessions over a [`SessionStore`], live while they are in use.
//! * [`DirectoryStore`]: a store in a directory. With the feature `object-store`, `ObjectStore`: one in a bucket.
//! * [`StorePolicy`]: when sessions are saved, and how many stay live.
//! * [`Prune`]: deletes old sessions.
//!
//! A store is used by several processes at once. Each write states which version it replaces, so that a process that
//! lost its lock cannot overwrite what another one wrote ([`StoreError::Fenced`]).

mod manager;
mod store;

pub use manager::{
    ActiveSession, HibernateReport, IdleThread, ListedPage, ListedSession, NewSession, Save, SessionGuard, Sessions,
    SessionsBuilder, SessionsError, StorePolicy,
};
#[cfg(feature = "object-store")]
pub use store::{BlobInfo, BlobPage, BlobStore, ObjectStore};
pub use store::{
    DirectoryStore, Expected, PageLimitError, PageRequest, Pages, Prune, PruneError, PruneReason, PruneReport,
    PruneSkip, Pruned, SessionId, SessionIdError, SessionLock, SessionRecord, SessionStore, SkipReason, StoreError,
    StoredEntry, StoredPage, StoredRecord, StoredSession, StoredVersion, block_on,
};
