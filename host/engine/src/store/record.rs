//! What a store says about a session.

use serde::{Deserialize, Serialize};

use super::{SessionId, StoredVersion};
use crate::{Language, Timestamp};

/// What a store says about a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SessionRecord {
    /// Its name.
    pub id: SessionId,
    /// When it was opened, imported or forked.
    pub created_at: Timestamp,
    /// When it was last written.
    pub updated_at: Timestamp,
    /// Its language.
    pub language: Language,
    /// Its runtime's name.
    pub runtime: String,
    /// The interpreter's version.
    pub version: Option<String>,
    /// The identity of the image it belongs to.
    pub image_sha256: String,
    /// Executions so far.
    pub executions: u64,
    /// How often it was written: each state of the session in the store has another. 0 for one that an earlier version wrote.
    #[serde(default)]
    pub generation: u64,
    /// Files, directories and links in its workspace; none where that was not counted.
    pub files: Option<u64>,
    /// The host directory behind its `/app` when it was last written; none where its files are its own, or where that is not
    /// known, as of a session that was imported. It gives no right: what a session may use is what its sandbox has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The size of its state.
    pub bytes: u64,
}

/// A session's record as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredRecord {
    /// What it is.
    pub record: SessionRecord,
    /// Which write of it this is.
    pub version: StoredVersion,
}

impl StoredRecord {
    /// For stores: what was read.
    #[must_use]
    pub fn new(record: SessionRecord, version: StoredVersion) -> Self {
        Self { record, version }
    }
}

/// A session as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredSession {
    /// What it is.
    pub record: SessionRecord,
    /// Which write of it this is.
    pub version: StoredVersion,
    /// What [`Session::hibernate`](crate::Session::hibernate) gave.
    pub state: Vec<u8>,
}

impl StoredSession {
    /// For stores: what was read, all of one write.
    #[must_use]
    pub fn new(stored: StoredRecord, state: Vec<u8>) -> Self {
        Self { record: stored.record, version: stored.version, state }
    }
}

/// A line of a store's listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StoredEntry {
    /// The session's name.
    pub id: SessionId,
    /// What it takes in the store.
    pub stored_bytes: u64,
    /// When it was last written, by the store's own account.
    pub stored_at: Timestamp,
    /// What it is; none where it is damaged.
    pub record: Option<SessionRecord>,
    /// Which write of it was found; none where it is damaged. It means nothing outside of the store.
    #[serde(skip)]
    pub version: Option<StoredVersion>,
    /// Why it cannot be used, where it is damaged.
    pub damage: Option<String>,
}

impl StoredEntry {
    /// For stores: what was found under this name, its record or what is wrong with it.
    #[must_use]
    pub fn new(id: SessionId, stored_bytes: u64, stored_at: Timestamp, found: Result<StoredRecord, String>) -> Self {
        let (stored, damage) = match found {
            Ok(stored) => (Some(stored), None),
            Err(damage) => (None, Some(damage)),
        };
        let (record, version) = stored.map(|stored| (stored.record, stored.version)).unzip();
        Self { id, stored_bytes, stored_at, record, version, damage }
    }

    /// When it was last written.
    #[must_use]
    pub fn updated_at(&self) -> Timestamp {
        self.record.as_ref().map_or(self.stored_at, |record| record.updated_at)
    }
}

/// The longest path of a workspace that is recorded: as long as Linux has them.
pub(crate) const MAX_WORKSPACE_BYTES: usize = 4096;
