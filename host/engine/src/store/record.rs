//! Records of stored sessions.

use serde::{Deserialize, Serialize};

use super::{SessionId, StoredVersion};
use crate::{Language, Timestamp};

/// Describes a stored session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SessionRecord {
    /// Its id.
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
    /// The number of writes: every stored state of the session has a different one. 0 if an earlier version wrote it.
    #[serde(default)]
    pub generation: u64,
    /// Files, directories and links in its workspace, or `None` if they were not counted.
    pub files: Option<u64>,
    /// The host directory behind `/app` when it was last written. `None` if the session has its own files, or if unknown, as for an
    /// imported session. It grants no access: the sandbox decides what a session may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The size of its state in bytes.
    pub bytes: u64,
}

/// A session's record and version.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredRecord {
    /// Its record.
    pub record: SessionRecord,
    /// Its version.
    pub version: StoredVersion,
}

impl StoredRecord {
    /// For stores: what was read.
    #[must_use]
    pub fn new(record: SessionRecord, version: StoredVersion) -> Self {
        Self { record, version }
    }
}

/// A stored session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredSession {
    /// Its record.
    pub record: SessionRecord,
    /// Its version.
    pub version: StoredVersion,
    /// What [`Session::hibernate`](crate::Session::hibernate) returned.
    pub state: Vec<u8>,
}

impl StoredSession {
    /// For stores: what was read, all of one write.
    #[must_use]
    pub fn new(stored: StoredRecord, state: Vec<u8>) -> Self {
        Self { record: stored.record, version: stored.version, state }
    }
}

/// A session in a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StoredEntry {
    /// The session's id.
    pub id: SessionId,
    /// Its size in the store in bytes.
    pub stored_bytes: u64,
    /// When it was last written, according to the store.
    pub stored_at: Timestamp,
    /// Its record, or `None` if it is damaged.
    pub record: Option<SessionRecord>,
    /// Its version, or `None` if it is damaged. Meaningless outside the store.
    #[serde(skip)]
    pub version: Option<StoredVersion>,
    /// Why it cannot be used, if it is damaged.
    pub damage: Option<String>,
}

impl StoredEntry {
    /// For stores: what was found under this id: its record, or what is wrong.
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

/// The longest recorded workspace path in bytes: the limit on Linux.
pub(crate) const MAX_WORKSPACE_BYTES: usize = 4096;
