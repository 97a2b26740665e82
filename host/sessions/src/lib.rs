//! Sessions of [`glovebox`] that outlive their process: live sessions in memory, hibernated sessions in a store.
//!
//! * [`Sessions`]: resumes the sessions of a [`SessionStore`] on demand, and hibernates idle sessions.
//! * [`DirectoryStore`]: a store in a directory. The crate `glovebox-object-stores` contains a store in a bucket.
//! * [`StorePolicy`]: decides when sessions are saved, and limits how many stay live.
//! * [`PruneLimits`]: limits for the removal of old sessions.
//!
//! Several processes can share a store. Each write specifies the version that it replaces. A process that has lost its
//! lock therefore cannot overwrite another process's write ([`StoreError::Fenced`]).

mod manager;
mod store;

pub use manager::{
    ActiveSession, HibernateReport, IdleThread, ListedPage, ListedSession, NewSession, Save, SessionGuard, Sessions,
    SessionsBuilder, SessionsError, StorePolicy,
};
pub use store::{
    DirectoryStore, ExpectedVersion, PageLimitError, PageRequest, Pages, PruneError, PruneLimits, PruneReason,
    PruneReport, PruneSkip, PrunedSession, RecordError, SessionId, SessionIdError, SessionLock, SessionRecord,
    SessionStore, SkipReason, StoreError, StoredEntry, StoredPage, StoredRecord, StoredSession, StoredVersion,
    block_on,
};
