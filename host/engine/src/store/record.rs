//! What a store says about a session, and how the directory store writes it down.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::SessionId;
use crate::Language;
use crate::Timestamp;

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

/// A session as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredSession {
    /// What it is.
    pub record: SessionRecord,
    /// What [`Session::hibernate`](crate::Session::hibernate) gave.
    pub state: Vec<u8>,
}

impl StoredSession {
    /// For stores: what was read.
    #[must_use]
    pub fn new(record: SessionRecord, state: Vec<u8>) -> Self {
        Self { record, state }
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
    /// Why it cannot be used, where it is damaged.
    pub damage: Option<String>,
}

impl StoredEntry {
    /// For stores: what was found under this name, its record or what is wrong with it.
    #[must_use]
    pub fn new(id: SessionId, stored_bytes: u64, stored_at: Timestamp, record: Result<SessionRecord, String>) -> Self {
        let (record, damage) = match record {
            Ok(record) => (Some(record), None),
            Err(damage) => (None, Some(damage)),
        };
        Self { id, stored_bytes, stored_at, record, damage }
    }

    /// When it was last written.
    #[must_use]
    pub fn updated_at(&self) -> Timestamp {
        self.record.as_ref().map_or(self.stored_at, |record| record.updated_at)
    }
}

/// What a stored session's file begins with.
const MAGIC: &str = "glovebox-session";
/// The version of the file's head. The state behind it has a version of its own.
const VERSION: &str = "1";

/// The most bytes of a head; ours take 500, and what the path of a workspace takes, in JSON up to six times its length.
pub(super) const MAX_HEAD_BYTES: usize = 4096 + 6 * MAX_WORKSPACE_BYTES;

/// The longest path of a workspace that is recorded: as long as Linux has them.
pub(crate) const MAX_WORKSPACE_BYTES: usize = 4096;

/// Writes a record as two lines of text: magic, version and digest; the record as JSON. The state follows.
pub(super) fn head(record: &SessionRecord) -> Vec<u8> {
    // Strings and numbers: this cannot fail.
    let json = serde_json::to_string(record).unwrap_or_default();
    format!("{MAGIC} {VERSION} {}\n{json}\n", digest(&json)).into_bytes()
}

/// Reads the head of a session's file of this length; the record and where the state begins.
pub(super) fn read_head(id: &SessionId, bytes: &[u8], file_bytes: u64) -> Result<(SessionRecord, usize), String> {
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').map(|line| str::from_utf8(line).ok());
    let mut line = || lines.next().flatten().and_then(|line| line.strip_suffix('\n'));
    let first = line().ok_or("it is not a stored session")?;
    let mut words = first.split(' ');
    if words.next() != Some(MAGIC) {
        return Err("it is not a stored session".into());
    }
    match words.next() {
        Some(VERSION) => {}
        Some(other) if other.len() < 10 && other.bytes().all(|byte| byte.is_ascii_digit()) => {
            return Err(format!("its record has version {other}, and this program reads version {VERSION}"));
        }
        _ => return Err("it is not a stored session".into()),
    }
    let json = line().ok_or("its record is cut off")?;
    if words.next() != Some(digest(json).as_str()) || words.next().is_some() {
        return Err("its record's checksum does not fit".into());
    }
    let record: SessionRecord = serde_json::from_str(json).map_err(|_| "its record cannot be read")?;
    if record.id != *id {
        return Err(format!("its record is that of `{}`", record.id));
    }
    let start = first.len() + json.len() + 2;
    if (start as u64).checked_add(record.bytes) != Some(file_bytes) {
        return Err("it is not as long as its record says".into());
    }
    Ok((record, start))
}

fn digest(text: &str) -> String {
    use std::fmt::Write as _;
    Sha256::digest(text).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
