//! The directory store, with one file per session. The head of each file contains the session's record.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom, Write},
    path::Path,
    sync::Arc,
};

use async_trait::async_trait;
use glovebox::{Limits, Timestamp};
use glovebox_runtimes::{
    CacheError, Digest,
    guard::GuardedDirectory,
    trusted_dir::{FileLock, TrustedDir},
};

use super::{
    ExpectedVersion, PageRequest, RecordError, SessionId, SessionLock, SessionRecord, SessionStore, StoreError,
    StoredEntry, StoredPage, StoredRecord, StoredSession, StoredVersion,
};

/// The suffix of session files.
const ENDING: &str = ".session";
/// The prefix of lock files. Session IDs never begin with a dot.
const LOCK_PREFIX: &str = ".lock-";

/// A store that keeps each session as a file `ID.session` in a directory. The file begins with two lines of text: a
/// header, and the record as JSON.
///
/// The directory is private to the user, like the cache. A new directory has mode 0700. A directory that another user
/// owns or can write to is rejected. Links in the directory are not followed. A state is written to a new file, synced
/// and renamed, so a killed writer leaves the earlier state intact. Each lock is a `flock` on a separate file, and ends
/// with the process that holds it.
///
/// Each file contains the version of its write: 128 random bits. A writer compares the version in the file with the
/// [`ExpectedVersion`], and then renames its new file over the old file. The lock makes the two steps atomic.
///
/// A lock is lost only if its file is removed, or if `flock` on the file system does not exclude other machines. Even
/// then, a writer detects a write that has completed. However, two writers that compare versions at the same moment can
/// both succeed, and the later write remains. All I/O happens on the thread that polls the future.
#[derive(Debug)]
pub struct DirectoryStore {
    dir: Arc<TrustedDir>,
}

impl DirectoryStore {
    /// Opens the directory, creating it if it is missing, and removes files that killed processes left behind.
    ///
    /// # Errors
    /// [`StoreError::Directory`] if the directory cannot be used, for example because another user can write to it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let dir = Arc::new(TrustedDir::open(path.as_ref(), GuardedDirectory::Sessions)?);
        dir.remove_leftovers()?;
        for name in dir.names()? {
            // Acquiring and releasing a lock removes its file.
            if let Some(id) = name.strip_prefix(LOCK_PREFIX).and_then(|id| SessionId::new(id).ok()) {
                // A lock file that cannot be removed affects only its own session.
                if let Err(error) = FileLock::try_take(&dir, &lock_name(&id)) {
                    tracing::debug!(target: "glovebox", %error, "could not remove a session's lock file");
                }
            }
        }
        Ok(Self { dir })
    }

    /// Maximum size of a state: 8 GiB, which is the maximum memory of a guest plus the same size in files. A whole
    /// state is read into memory before the limits of a policy are checked.
    pub const MAX_STATE_BYTES: u64 = 2 * Limits::MAX_MEMORY_BYTES;

    /// Returns the directory's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    fn ids(&self) -> Result<Vec<SessionId>, StoreError> {
        let names = self.dir.names()?;
        Ok(names.iter().filter_map(|name| SessionId::new(name.strip_suffix(ENDING)?).ok()).collect())
    }

    fn read(&self, id: &SessionId) -> Result<Option<SessionFile>, StoreError> {
        let name = file_name(id);
        let Some((mut file, bytes)) = self.dir.open_file(&name)? else { return Ok(None) };
        let failed = |error| CacheError::io("read", &self.dir.path_of(&name), error);
        let mut start = Vec::new();
        Read::by_ref(&mut file).take(MAX_HEAD_BYTES as u64).read_to_end(&mut start).map_err(failed)?;
        Ok(Some(SessionFile { head: read_head(id, &start, bytes), file, bytes }))
    }

    /// Returns `true` if the session exists in the expected version, or if `expected` is
    /// [`ExpectedVersion::Any`]. Fails if a different version exists.
    fn check(&self, id: &SessionId, expected: &ExpectedVersion) -> Result<bool, StoreError> {
        let found = match expected {
            ExpectedVersion::Any => return Ok(true),
            ExpectedVersion::Absent | ExpectedVersion::Version(_) => self.read(id)?,
        };
        let fenced = || StoreError::Fenced { id: id.clone() };
        match (found, expected) {
            (None, _) => Ok(false),
            (Some(opened), ExpectedVersion::Version(version)) => {
                // Do not report an unreadable head as [`StoreError::Fenced`], because it may have the expected version.
                let (stored, _) = opened.head.map_err(|reason| self.unreadable(id, reason))?;
                if stored.version == *version { Ok(true) } else { Err(fenced()) }
            }
            (Some(_), _) => Err(fenced()),
        }
    }

    fn unreadable(&self, id: &SessionId, reason: impl Into<RecordError>) -> StoreError {
        reason.into().of_session(id, self.dir.path_of(&file_name(id)))
    }

    fn entry(&self, id: SessionId) -> Option<StoredEntry> {
        match self.read(&id) {
            Ok(Some(opened)) => {
                let modified = opened.file.metadata().and_then(|metadata| metadata.modified());
                let stored_at = modified.map_or(Timestamp::from_unix_ms(0), Timestamp::from);
                let found = opened.head.map(|(stored, _)| stored).map_err(|reason| reason.to_string());
                Some(StoredEntry::new(id, opened.bytes, stored_at, found))
            }
            // The session was removed after the names were listed.
            Ok(None) => None,
            // List an unreadable session as damaged instead of failing, so that other sessions are listed.
            Err(error) => Some(StoredEntry::new(id, 0, Timestamp::from_unix_ms(0), Err(error.to_string()))),
        }
    }
}

/// A session's file and its parsed head.
struct SessionFile {
    file: File,
    bytes: u64,
    head: Result<(StoredRecord, usize), RecordError>,
}

#[async_trait]
impl SessionStore for DirectoryStore {
    async fn try_lock(&self, id: &SessionId) -> Result<Option<SessionLock>, StoreError> {
        Ok(FileLock::try_take(&self.dir, &lock_name(id))?.map(|guard| SessionLock::new(id.clone(), guard)))
    }

    async fn put(
        &self,
        lock: &SessionLock,
        expected: &ExpectedVersion,
        record: &SessionRecord,
        state: &[u8],
    ) -> Result<StoredVersion, StoreError> {
        let id = lock.id();
        let name = file_name(id);
        lock.check_write(record, state, Self::MAX_STATE_BYTES, || self.dir.path_of(&name))?;
        let failed = |error| CacheError::io("write", &self.dir.path_of(&name), error);
        let version = StoredVersion::random();
        let mut file = self.dir.create()?;
        file.write_all(&encode_head(record, &version)).and_then(|()| file.write_all(state)).map_err(failed)?;
        // Check as late as possible, because another process may have ignored the lock and written the session.
        if !self.check(id, expected)? && matches!(expected, ExpectedVersion::Version(_)) {
            return Err(StoreError::Fenced { id: id.clone() });
        }
        file.persist(&name)?;
        Ok(version)
    }

    async fn get(&self, id: &SessionId) -> Result<Option<StoredSession>, StoreError> {
        let Some(SessionFile { mut file, head, .. }) = self.read(id)? else { return Ok(None) };
        let (stored, start) = head.map_err(|reason| self.unreadable(id, reason))?;
        let bytes = stored.record.bytes;
        stored.record.check_length(Self::MAX_STATE_BYTES)?;
        let mut state = Vec::new();
        // Read one byte more than recorded, to detect a file that is too long.
        let max = bytes.saturating_add(1);
        let read = file.seek(SeekFrom::Start(start as u64)).and_then(|_| file.take(max).read_to_end(&mut state));
        read.map_err(|error| CacheError::io("read", &self.dir.path_of(&file_name(id)), error))?;
        if state.len() as u64 != bytes {
            return Err(self.unreadable(id, "it does not have the recorded length"));
        }
        Ok(Some(StoredSession::new(stored, state)))
    }

    async fn record(&self, id: &SessionId) -> Result<Option<StoredRecord>, StoreError> {
        match self.read(id)? {
            Some(opened) => Ok(Some(opened.head.map_err(|reason| self.unreadable(id, reason))?.0)),
            None => Ok(None),
        }
    }

    async fn list(&self, page: &PageRequest) -> Result<StoredPage, StoreError> {
        let mut ids = self.ids()?;
        ids.retain(|id| page.begins_after().is_none_or(|after| id > after));
        ids.sort_unstable();
        let has_more = ids.len() > page.limit();
        ids.truncate(page.limit());
        let next = ids.last().filter(|_| has_more).cloned();
        Ok(StoredPage::new(ids.into_iter().filter_map(|id| self.entry(id)).collect(), next))
    }

    async fn count(&self, max: usize) -> Result<usize, StoreError> {
        Ok(self.ids()?.len().min(max))
    }

    async fn remove(&self, lock: &SessionLock, expected: &ExpectedVersion) -> Result<bool, StoreError> {
        if !self.check(lock.id(), expected)? {
            return Ok(false);
        }
        let removed = self.dir.remove(&file_name(lock.id()))?;
        self.dir.sync();
        Ok(removed)
    }
}

fn file_name(id: &SessionId) -> String {
    format!("{id}{ENDING}")
}

fn lock_name(id: &SessionId) -> String {
    format!("{LOCK_PREFIX}{id}")
}

/// The first word of a session file.
const MAGIC: &str = "glovebox-session";
/// The version of the head's format. The state after the head has its own format version.
const VERSION: &str = "2";

/// Maximum size of a head in bytes. A head needs 600 bytes plus the workspace's path, which JSON can expand to six
/// times its length.
const MAX_HEAD_BYTES: usize = 4096 + 6 * SessionRecord::MAX_WORKSPACE_BYTES;

/// Encodes a record as two lines of text. The first line contains the magic, the format version, the write version and
/// the digest. The second line contains the record as JSON. The state follows in the file.
pub(super) fn encode_head(record: &SessionRecord, version: &StoredVersion) -> Vec<u8> {
    // Serialization cannot fail, because a record contains only strings and numbers.
    let json = serde_json::to_string(record).unwrap_or_default();
    format!("{MAGIC} {VERSION} {version} {}\n{json}\n", digest(version.as_str(), &json)).into_bytes()
}

/// Returns the error for an unsupported format version in a head.
fn of_version(version: &str) -> RecordError {
    let is_number = version.bytes().all(|byte| byte.is_ascii_digit());
    match (version.parse::<u32>(), VERSION.parse::<u32>()) {
        (Ok(found), Ok(known)) if is_number && found > known => RecordError::Format { found, known },
        _ => NOT_A_SESSION.into(),
    }
}

/// Parses the head of a session file of `file_bytes` bytes. Returns the record and the offset of the state.
fn read_head(id: &SessionId, bytes: &[u8], file_bytes: u64) -> Result<(StoredRecord, usize), RecordError> {
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').map(|line| str::from_utf8(line).ok());
    let mut line = || lines.next().flatten().and_then(|line| line.strip_suffix('\n'));
    let first = line().ok_or(NOT_A_SESSION)?;
    let mut words = first.split(' ');
    if words.next() != Some(MAGIC) {
        return Err(NOT_A_SESSION.into());
    }
    match words.next().ok_or(NOT_A_SESSION)? {
        VERSION => {}
        other => return Err(of_version(other)),
    }
    let version = words.next().ok_or(NOT_A_SESSION)?;
    let json = line().ok_or("its record is truncated")?;
    if words.next() != Some(&*digest(version, json)) || words.next().is_some() {
        return Err("its record's checksum does not match".into());
    }
    let record: SessionRecord =
        serde_json::from_str(json).map_err(|_| "its record is not valid JSON, or has a missing or invalid field")?;
    if record.id != *id {
        return Err(format!("its record belongs to session `{}`", record.id).into());
    }
    let start = first.len() + json.len() + 2;
    if (start as u64).checked_add(record.bytes) != Some(file_bytes) {
        return Err("it does not have the recorded length".into());
    }
    Ok((StoredRecord::new(record, StoredVersion::new(version)), start))
}

const NOT_A_SESSION: &str = "it is not a stored session";

/// Returns the hexadecimal SHA-256 digest of a version and a record, which contain no line breaks.
fn digest(version: &str, json: &str) -> String {
    Digest::of(format!("{version}\n{json}").as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_on;

    #[test]
    fn oversized_state_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let store = DirectoryStore::open(dir.path()).unwrap();
        let id = SessionId::new("a").unwrap();
        let max = DirectoryStore::MAX_STATE_BYTES;
        let at = Timestamp::from_unix_ms(0);
        for bytes in [max - 1, max] {
            SessionRecord::new(id.clone(), at, bytes).check_length(max).unwrap();
        }
        let bytes = max + 1;
        let record = SessionRecord {
            id: id.clone(),
            created_at: at,
            updated_at: at,
            language: glovebox::Language::Python,
            runtime: "python-3.12".into(),
            version: None,
            image_sha256: String::new(),
            executions: 0,
            generation: 0,
            files: None,
            workspace: None,
            bytes,
        };
        let head = encode_head(&record, &StoredVersion::random());
        let path = dir.path().join(file_name(&id));
        std::fs::write(&path, &head).unwrap();
        // The file is sparse and takes no disk space.
        File::options().write(true).open(&path).unwrap().set_len(head.len() as u64 + bytes).unwrap();
        let error = block_on(store.get(&id)).unwrap_err();
        assert!(matches!(error, StoreError::TooLarge { .. }), "{error}");
        // A session that is too large can still be listed and removed.
        let listed = block_on(store.list(&PageRequest::default())).unwrap().entries;
        assert_eq!(listed.first().and_then(|entry| entry.record.as_ref()), Some(&record));
        let lock = block_on(store.try_lock(&id)).unwrap().unwrap();
        assert!(block_on(store.remove(&lock, &ExpectedVersion::Any)).unwrap());
    }
}
