//! An entry of a session's log.

use glovebox_sessions::{RecordError, SessionId, SessionRecord, StoredVersion};
use serde::{Deserialize, Serialize};

const FORMAT: u32 = 1;
/// The number of hexadecimal digits in a version.
const VERSION_DIGITS: usize = 32;
/// Maximum number of ancestors in an entry.
pub(crate) const MAX_ANCESTORS: usize = 16;
/// The length in bytes to which entries with a session are padded. Removals are shorter, so listings can distinguish
/// the two kinds of entries.
const MIN_SESSION_BYTES: usize = 2048;
/// Maximum size of an entry in bytes. An entry needs 3,000 bytes plus the workspace's path, which JSON can expand to
/// six times its length.
pub(crate) const MAX_ENTRY_BYTES: u64 = 16_384 + 6 * SessionRecord::MAX_WORKSPACE_BYTES as u64;

/// An entry of a session's log: one write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    format: u32,
    /// The version of this write: 128 random bits. The name of the state object contains the same version.
    version: String,
    /// The versions of the writes that preceded this write, latest first. A writer whose response was lost looks for its
    /// own version in this list.
    ancestors: Vec<String>,
    /// The written record. `None` for a removal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) record: Option<SessionRecord>,
}

impl Entry {
    /// Returns the entry for a write on top of `base`, or for the first write.
    pub(crate) fn new(version: &StoredVersion, base: Option<&Self>, record: Option<&SessionRecord>) -> Self {
        let earlier = base.into_iter().flat_map(|base| std::iter::once(&base.version).chain(&base.ancestors));
        let ancestors = earlier.take(MAX_ANCESTORS).cloned().collect();
        Self { format: FORMAT, version: version.as_str().to_owned(), ancestors, record: record.cloned() }
    }

    pub(crate) fn version(&self) -> StoredVersion {
        StoredVersion::new(self.version.as_str())
    }

    pub(crate) fn is(&self, version: &StoredVersion) -> bool {
        self.version == version.as_str()
    }

    /// Returns `Some(true)` if this entry is built on the write `version`, which is `distance` entries below, and
    /// `Some(false)` if it is not. Returns `None` if the recorded ancestors do not reach that far.
    pub(crate) fn descends_from(&self, version: &StoredVersion, distance: u64) -> Option<bool> {
        if self.ancestors.iter().any(|ancestor| ancestor == version.as_str()) {
            return Some(true);
        }
        (distance <= self.ancestors.len() as u64).then_some(false)
    }

    /// Encodes the entry as JSON, and pads entries with a session to [`MIN_SESSION_BYTES`].
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // Serialization cannot fail, because an entry contains only strings and numbers.
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        if self.record.is_some() {
            bytes.resize(bytes.len().max(MIN_SESSION_BYTES), b' ');
        }
        bytes
    }

    pub(crate) fn read(id: &SessionId, bytes: &[u8]) -> Result<Self, RecordError> {
        // Parse only the format version, because entries of a later version can have other fields.
        #[derive(Deserialize)]
        struct Versioned {
            format: u32,
        }
        let invalid = |_: serde_json::Error| "its record is not valid JSON, or has a missing or invalid field";
        let Versioned { format: found } = serde_json::from_slice(bytes).map_err(invalid)?;
        if found > FORMAT {
            return Err(RecordError::Format { found, known: FORMAT });
        }
        let entry: Self = serde_json::from_slice(bytes).map_err(invalid)?;
        if entry.format != FORMAT {
            return Err(format!("its record has the unknown format version {found}").into());
        }
        let is_version =
            |name: &String| name.len() == VERSION_DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        if entry.ancestors.len() > MAX_ANCESTORS || !entry.ancestors.iter().chain([&entry.version]).all(is_version) {
            return Err("its versions are invalid".into());
        }
        match &entry.record {
            Some(record) if record.id != *id => Err(format!("its record belongs to session `{}`", record.id).into()),
            _ => Ok(entry),
        }
    }

    /// Returns `true` if an entry of this length is a removal.
    pub(crate) fn is_removal(bytes: u64) -> bool {
        bytes < MIN_SESSION_BYTES as u64
    }
}
