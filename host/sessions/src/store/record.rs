//! Records of stored sessions.

use serde::{Deserialize, Serialize};

use super::{SessionId, StoredVersion};
use glovebox::{Language, Timestamp};

/// The description of a stored session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SessionRecord {
    /// The session's id.
    pub id: SessionId,
    /// Time when the session was opened, imported or forked.
    pub created_at: Timestamp,
    /// Time of the last write.
    pub updated_at: Timestamp,
    /// The session's language.
    pub language: Language,
    /// Name of the session's runtime.
    pub runtime: String,
    /// Version of the interpreter.
    pub version: Option<String>,
    /// Hash of the prepared image that the state belongs to.
    pub image_sha256: String,
    /// Number of executions so far.
    pub executions: u64,
    /// Number of writes. Every stored state of the session has a different one. 0 if an earlier version of Glovebox
    /// wrote it.
    #[serde(default)]
    pub generation: u64,
    /// Number of files, directories and links in the workspace; `None` if they were not counted.
    pub files: Option<u64>,
    /// The host directory behind `/app` at the last write. `None` if the session has its own files, or if unknown, as
    /// for an imported session. It grants no access: the sandbox decides which directories a session may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Size of the state in bytes.
    pub bytes: u64,
}

/// The record and version of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredRecord {
    /// The session's record.
    pub record: SessionRecord,
    /// Version of the write.
    pub version: StoredVersion,
}

impl StoredRecord {
    /// For stores: combines a record and its version.
    #[must_use]
    pub fn new(record: SessionRecord, version: StoredVersion) -> Self {
        Self { record, version }
    }
}

/// A stored session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredSession {
    /// The session's record.
    pub record: SessionRecord,
    /// Version of the write.
    pub version: StoredVersion,
    /// The state, as [`Session::hibernate`](glovebox::Session::hibernate) returned it.
    pub state: Vec<u8>,
}

impl StoredSession {
    /// For stores: combines a record and a state of the same write.
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
    /// Size in the store in bytes.
    pub stored_bytes: u64,
    /// Time of the last write, by the store's clock.
    pub stored_at: Timestamp,
    /// The session's record; `None` if it is damaged.
    pub record: Option<SessionRecord>,
    /// Version of the write; `None` if the session is damaged. Only the store can interpret it.
    #[serde(skip)]
    pub version: Option<StoredVersion>,
    /// The reason why a damaged session cannot be used; `None` if it is not damaged.
    pub damage: Option<String>,
}

impl StoredEntry {
    /// For stores: creates the entry of a session from its record, or from the description of its damage.
    #[must_use]
    pub fn new(id: SessionId, stored_bytes: u64, stored_at: Timestamp, found: Result<StoredRecord, String>) -> Self {
        let (stored, damage) = match found {
            Ok(stored) => (Some(stored), None),
            Err(damage) => (None, Some(damage)),
        };
        let (record, version) = stored.map(|stored| (stored.record, stored.version)).unzip();
        Self { id, stored_bytes, stored_at, record, version, damage }
    }

    /// Returns the time of the last write: the record's, or the store's if the session is damaged.
    #[must_use]
    pub fn updated_at(&self) -> Timestamp {
        self.record.as_ref().map_or(self.stored_at, |record| record.updated_at)
    }
}

/// Maximum length of a recorded workspace path in bytes: the limit on Linux.
pub(crate) const MAX_WORKSPACE_BYTES: usize = 4096;
