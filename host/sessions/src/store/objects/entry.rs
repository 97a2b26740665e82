//! The contents of an entry in a session's log.

use serde::{Deserialize, Serialize};

use crate::store::{SessionId, SessionRecord, StoredVersion, record::MAX_WORKSPACE_BYTES};

const FORMAT: u32 = 1;
/// Number of hexadecimal digits of a version.
const VERSION_DIGITS: usize = 32;
/// Maximum number of ancestors in an entry.
pub(super) const MAX_ANCESTORS: usize = 16;
/// Entries with a session are padded to this length in bytes. Removals are shorter, so listings can tell them apart.
const MIN_SESSION_BYTES: usize = 2048;
/// Maximum size of an entry in bytes. Entries take 3,000 bytes plus the workspace's path, which JSON can expand to six
/// times its length.
pub(super) const MAX_ENTRY_BYTES: u64 = 16_384 + 6 * MAX_WORKSPACE_BYTES as u64;

/// An entry of a session's log: one write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    format: u32,
    /// Identifies this write: 128 random bits. The name of the state contains it, too.
    version: String,
    /// Versions of the writes below this one, latest first. A writer that lost its response finds its own version here.
    ancestors: Vec<String>,
    /// The written record; `None` for a removal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) record: Option<SessionRecord>,
}

impl Entry {
    /// Returns the entry of a write on top of `base`, or of the first write.
    pub(super) fn new(version: &StoredVersion, base: Option<&Self>, record: Option<&SessionRecord>) -> Self {
        let earlier = base.into_iter().flat_map(|base| std::iter::once(&base.version).chain(&base.ancestors));
        let ancestors = earlier.take(MAX_ANCESTORS).cloned().collect();
        Self { format: FORMAT, version: version.as_str().to_owned(), ancestors, record: record.cloned() }
    }

    pub(super) fn version(&self) -> StoredVersion {
        StoredVersion::new(self.version.as_str())
    }

    pub(super) fn is(&self, version: &StoredVersion) -> bool {
        self.version == version.as_str()
    }

    /// Returns whether this entry is built on the write `version`, `distance` entries below. `None` if that is further
    /// back than the recorded ancestors.
    pub(super) fn descends_from(&self, version: &StoredVersion, distance: u64) -> Option<bool> {
        if self.ancestors.iter().any(|ancestor| ancestor == version.as_str()) {
            return Some(true);
        }
        (distance <= self.ancestors.len() as u64).then_some(false)
    }

    /// Encodes the entry.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        // Only strings and numbers: this cannot fail.
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        if self.record.is_some() {
            bytes.resize(bytes.len().max(MIN_SESSION_BYTES), b' ');
        }
        bytes
    }

    pub(super) fn read(id: &SessionId, bytes: &[u8]) -> Result<Self, String> {
        let entry: Self = serde_json::from_slice(bytes).map_err(|_| "its record cannot be read")?;
        if entry.format != FORMAT {
            return Err(format!("its record has version {}, and this program supports version {FORMAT}", entry.format));
        }
        let is_version =
            |name: &String| name.len() == VERSION_DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        if entry.ancestors.len() > MAX_ANCESTORS || !entry.ancestors.iter().chain([&entry.version]).all(is_version) {
            return Err("its versions are invalid".into());
        }
        match &entry.record {
            Some(record) if record.id != *id => Err(format!("its record belongs to `{}`", record.id)),
            _ => Ok(entry),
        }
    }

    /// Returns whether an entry of this length is a removal.
    pub(super) fn is_removal(bytes: u64) -> bool {
        bytes < MIN_SESSION_BYTES as u64
    }
}
