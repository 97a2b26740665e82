//! The head of a session file, which contains the session's record.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use super::{SessionId, SessionRecord, StoredRecord, StoredVersion, record::MAX_WORKSPACE_BYTES};

/// Magic of a session file.
const MAGIC: &str = "glovebox-session";
/// Version of the head's format. The state after the head has its own version.
const VERSION: &str = "2";
/// The previous version of the format. Its heads do not contain the version of their write, so the digest is used
/// instead.
const VERSION_BY_DIGEST: &str = "1";

/// Maximum size of a head in bytes. Heads take 600 bytes plus the workspace's path, which JSON can expand to six times
/// its length.
pub(super) const MAX_HEAD_BYTES: usize = 4096 + 6 * MAX_WORKSPACE_BYTES;

/// Encodes a record as two lines of text: magic, format, write, digest; then the record as JSON. The state follows.
pub(super) fn head(record: &SessionRecord, version: &StoredVersion) -> Vec<u8> {
    // Only strings and numbers: this cannot fail.
    let json = serde_json::to_string(record).unwrap_or_default();
    format!("{MAGIC} {VERSION} {version} {}\n{json}\n", digest(&[version.as_str(), &json])).into_bytes()
}

/// Parses the head of a session file of `file_bytes` bytes. Returns the record and the offset of the state.
pub(super) fn read_head(id: &SessionId, bytes: &[u8], file_bytes: u64) -> Result<(StoredRecord, usize), String> {
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').map(|line| str::from_utf8(line).ok());
    let mut line = || lines.next().flatten().and_then(|line| line.strip_suffix('\n'));
    let first = line().ok_or(NOT_ONE)?;
    let mut words = first.split(' ');
    if words.next() != Some(MAGIC) {
        return Err(NOT_ONE.into());
    }
    let named = match words.next() {
        Some(VERSION) => Some(words.next().ok_or(NOT_ONE)?),
        Some(VERSION_BY_DIGEST) => None,
        Some(other) if other.len() < 10 && other.bytes().all(|byte| byte.is_ascii_digit()) => {
            return Err(format!("its record has version {other}, and this program supports version {VERSION}"));
        }
        _ => return Err(NOT_ONE.into()),
    };
    let json = line().ok_or("its record is cut off")?;
    let expected = match named {
        Some(version) => digest(&[version, json]),
        None => digest(&[json]),
    };
    if words.next() != Some(expected.as_str()) || words.next().is_some() {
        return Err("its record's checksum does not match".into());
    }
    let record: SessionRecord = serde_json::from_str(json).map_err(|_| "its record cannot be read")?;
    if record.id != *id {
        return Err(format!("its record belongs to `{}`", record.id));
    }
    let start = first.len() + json.len() + 2;
    if (start as u64).checked_add(record.bytes) != Some(file_bytes) {
        return Err("its length differs from its record".into());
    }
    let version = StoredVersion::new(named.map_or(expected.as_str(), |named| named));
    Ok((StoredRecord::new(record, version), start))
}

const NOT_ONE: &str = "it is not a stored session";

/// Digest of lines, none of which contains a line break.
fn digest(lines: &[&str]) -> String {
    Sha256::digest(lines.join("\n")).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
