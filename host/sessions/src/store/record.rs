//! IDs, versions and records of stored sessions.

use std::{fmt, str::FromStr};

use glovebox::{Language, Timestamp};
use glovebox_vfs::escaped;
use serde::{Deserialize, Serialize};

use super::StoreError;

/// The description of a stored session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SessionRecord {
    /// The session's ID.
    pub id: SessionId,
    /// The time when the session was created, imported or forked.
    pub created_at: Timestamp,
    /// The time of the last write.
    pub updated_at: Timestamp,
    /// The session's language.
    pub language: Language,
    /// The name of the session's runtime.
    pub runtime: String,
    /// The version of the interpreter.
    pub version: Option<String>,
    /// The digest of the prepared image that the state belongs to.
    pub image_sha256: String,
    /// The number of executions so far.
    pub executions: u64,
    /// The number of writes of the session so far. Every stored state of a session has a different generation.
    pub generation: u64,
    /// The number of files, directories and links that count against the quota. `None` if they were not counted.
    pub files: Option<u64>,
    /// The host directory behind `/app` at the last write. `None` if the session has its own files, or if the directory
    /// is unknown, as for an imported session. The path grants no access. The sandbox decides which directories a
    /// session can use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The size of the state in bytes.
    pub bytes: u64,
}

impl SessionRecord {
    /// Maximum length of a recorded workspace path: 4,096 bytes, the maximum path length on Linux.
    pub const MAX_WORKSPACE_BYTES: usize = 4096;

    /// Creates the record of a first write of `bytes` bytes. The language is Python, the generation is 1, and the other
    /// fields are empty. The caller sets the fields that it knows.
    #[must_use]
    pub fn new(id: SessionId, created_at: Timestamp, bytes: u64) -> Self {
        Self {
            id,
            created_at,
            updated_at: created_at,
            language: Language::Python,
            runtime: String::new(),
            version: None,
            image_sha256: String::new(),
            executions: 0,
            generation: 1,
            files: None,
            workspace: None,
            bytes,
        }
    }

    /// Fails if the state is longer than a store's limit. Stores call this function before they write or read a state.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`] if the recorded length exceeds `max_bytes`.
    pub fn check_length(&self, max_bytes: u64) -> Result<(), StoreError> {
        let (id, bytes, max) = (self.id.clone(), self.bytes, max_bytes);
        if bytes > max { Err(StoreError::TooLarge { id, bytes, max }) } else { Ok(()) }
    }
}

/// The record and version of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoredRecord {
    /// The session's record.
    pub record: SessionRecord,
    /// The version of the write that stored the record.
    pub version: StoredVersion,
}

impl StoredRecord {
    /// Combines a record and its version. Only stores call this function.
    #[must_use]
    pub fn new(record: SessionRecord, version: StoredVersion) -> Self {
        Self { record, version }
    }
}

/// A stored session: its record and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredSession {
    /// The session's record.
    pub record: SessionRecord,
    /// The version of the write that stored the record.
    pub version: StoredVersion,
    /// The state, as [`Session::hibernate`](glovebox::Session::hibernate) returned it.
    pub state: Vec<u8>,
}

impl StoredSession {
    /// Combines a record and a state of the same write. Only stores call this function.
    #[must_use]
    pub fn new(stored: StoredRecord, state: Vec<u8>) -> Self {
        Self { record: stored.record, version: stored.version, state }
    }
}

/// A session in a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoredEntry {
    /// The session's ID.
    pub id: SessionId,
    /// The size in the store, in bytes.
    pub stored_bytes: u64,
    /// The time of the last write, by the store's clock.
    pub stored_at: Timestamp,
    /// The session's record. `None` if the record cannot be read.
    pub record: Option<SessionRecord>,
    /// The version of the write. `None` if the record cannot be read. Only the store can interpret the version.
    #[serde(skip)]
    pub version: Option<StoredVersion>,
    /// The reason why the record cannot be read, such as damage. `None` if the record can be read.
    pub damage: Option<String>,
}

impl StoredEntry {
    /// Creates the entry of a session from its record, or from the description of its damage. Only stores call this
    /// function.
    #[must_use]
    pub fn new(id: SessionId, stored_bytes: u64, stored_at: Timestamp, found: Result<StoredRecord, String>) -> Self {
        let (stored, damage) = match found {
            Ok(stored) => (Some(stored), None),
            Err(damage) => (None, Some(damage)),
        };
        let (record, version) = stored.map(|stored| (stored.record, stored.version)).unzip();
        Self { id, stored_bytes, stored_at, record, version, damage }
    }

    /// Returns the time of the last write from the record, or from the store if the session is damaged.
    #[must_use]
    pub fn updated_at(&self) -> Timestamp {
        self.record.as_ref().map_or(self.stored_at, |record| record.updated_at)
    }
}

/// The version of a session, which identifies a write. Every write has a different version, even if the bytes are equal
/// or the session was removed and created again. Only the store that issued a version can interpret it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StoredVersion(String);

impl StoredVersion {
    /// Creates a version from the name that a store uses for it, such as an object's ETag. The name must differ for
    /// each write.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// Returns a unique version, 128 random bits in hexadecimal, for stores that name versions themselves.
    #[must_use]
    pub fn random() -> Self {
        Self(random_id())
    }

    /// Returns the store's name for the version.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StoredVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The precondition for writing or removing a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpectedVersion {
    /// The session does not exist. A damaged session counts as existing.
    Absent,
    /// The last write in the store has this version.
    Version(StoredVersion),
    /// No precondition. Required to overwrite or remove a damaged session.
    Any,
}

/// The ID of a stored session: 1 to 64 ASCII letters, digits, `.`, `_` and `-`, not beginning with `.`. An ID is
/// therefore valid as a file name and as a part of a URL.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(String);

/// The error for text that is not a valid session ID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a valid session ID; use 1 to 64 letters, digits, `.`, `_` or `-`, not starting with `.`", name = escaped(.0))]
pub struct SessionIdError(String);

impl SessionId {
    /// Maximum length of an ID: 64 bytes.
    pub const MAX_BYTES: usize = 64;

    /// Returns a new unique ID: 128 random bits in hexadecimal.
    #[must_use]
    pub fn random() -> Self {
        Self(random_id())
    }

    /// Validates an ID.
    ///
    /// # Errors
    /// [`SessionIdError`] if the text is not a valid ID.
    pub fn new(id: impl Into<String>) -> Result<Self, SessionIdError> {
        let id = id.into();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let begins = id.bytes().next().is_some_and(|first| first != b'.');
        if begins && id.len() <= Self::MAX_BYTES && id.bytes().all(plain) {
            return Ok(Self(id));
        }
        // Truncate the ID, because it appears in an error message.
        Err(SessionIdError(id.chars().take(Self::MAX_BYTES).collect()))
    }

    /// Returns the ID as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SessionId {
    type Err = SessionIdError;

    fn from_str(id: &str) -> Result<Self, SessionIdError> {
        Self::new(id)
    }
}

impl TryFrom<String> for SessionId {
    type Error = SessionIdError;

    fn try_from(id: String) -> Result<Self, SessionIdError> {
        Self::new(id)
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.0
    }
}

/// Returns 128 random bits in hexadecimal, for example for a unique session ID.
///
/// Aborts the process if the operating system does not provide random numbers. Otherwise, anyone could guess the ID and
/// gain access.
fn random_id() -> String {
    let mut random = [0; 16];
    if let Err(error) = getrandom::fill(&mut random) {
        tracing::error!(target: "glovebox", %error, "cannot get random numbers from the operating system");
        std::process::abort();
    }
    format!("{:032x}", u128::from_le_bytes(random))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_id_characters_and_length_are_limited() {
        let longest = "x".repeat(64);
        for id in ["a", "A-1", "_x", "-x", "0", "a..b", "a.session", &longest] {
            assert_eq!(SessionId::new(id).unwrap().as_str(), id);
        }
        let over = "x".repeat(65);
        for id in ["", ".", "..", ".hidden", "a/b", "../x", "a\\b", "a b", "a\0", "é", "a\n", "*", &over] {
            let error = SessionId::new(id).unwrap_err();
            assert!(!error.to_string().contains(|c: char| c.is_control()), "{error}");
            assert!(serde_json::from_value::<SessionId>(id.into()).is_err(), "{id}");
        }
        assert!(SessionId::new("x".repeat(1 << 20)).unwrap_err().to_string().len() < 300);
    }
}
