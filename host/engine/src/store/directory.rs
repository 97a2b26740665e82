//! Sessions in a directory, a file each.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom, Write},
    path::Path,
    sync::Arc,
};

use glovebox_runtimes::{
    CacheError,
    guard::Guarded,
    trusted::{FileLock, TrustedDir},
};

use super::{
    SessionId, SessionLock, SessionRecord, SessionStore, StoreError, StoredEntry, StoredSession,
    record::{MAX_HEAD_BYTES, head, read_head},
};
use crate::{Limits, Timestamp};

/// The ending of a stored session's file.
const ENDING: &str = ".session";
/// How lock files begin. No session's id begins with a dot.
const LOCK_PREFIX: &str = ".lock-";

/// Keeps sessions in a directory: one file each, `ID.session`, which begins with its record as two lines of text.
///
/// The directory is the user's own, as the cache is: made with mode 0700; refused where somebody else owns it or may write
/// to it; no link in it is followed. A state is written to a new file, synchronised, and given its name: whoever is killed
/// in between leaves the earlier state. Locks are `flock`s on files beside, which end with the process that holds them.
#[derive(Debug)]
pub struct DirectoryStore {
    dir: Arc<TrustedDir>,
}

impl DirectoryStore {
    /// Opens the directory, making it where it is missing, and removes what killed processes left in it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let dir = Arc::new(TrustedDir::open(path.as_ref(), Guarded::Sessions)?);
        dir.remove_leftovers()?;
        for name in dir.names()? {
            // Taken and given back, it is gone.
            if let Some(id) = name.strip_prefix(LOCK_PREFIX).and_then(|id| SessionId::new(id).ok()) {
                // What is no lock file harms nobody but its session.
                if let Err(error) = FileLock::try_take(&dir, &lock_name(&id)) {
                    tracing::debug!(target: "glovebox", %error, "a session's lock file stays");
                }
            }
        }
        Ok(Self { dir })
    }

    /// The longest state that is stored: 8 GiB, a guest's whole memory with as much in files. A state is read as a whole, before
    /// any policy's limits are asked.
    pub const MAX_STATE_BYTES: u64 = 2 * Limits::MAX_MEMORY_BYTES;

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    fn read(&self, id: &SessionId) -> Result<Option<Opened>, StoreError> {
        let name = file_name(id);
        let Some((mut file, bytes)) = self.dir.open_file(&name)? else { return Ok(None) };
        let failed = |error| CacheError::io("read", &self.dir.path_of(&name), error);
        let mut start = Vec::new();
        Read::by_ref(&mut file).take(MAX_HEAD_BYTES as u64).read_to_end(&mut start).map_err(failed)?;
        Ok(Some(Opened { head: read_head(id, &start, bytes), file, bytes }))
    }

    fn damaged(&self, id: &SessionId, reason: impl Into<String>) -> StoreError {
        StoreError::Damaged { id: id.clone(), path: self.dir.path_of(&file_name(id)), reason: reason.into() }
    }

    fn entry(&self, id: SessionId) -> Option<StoredEntry> {
        match self.read(&id) {
            Ok(Some(opened)) => {
                let modified = opened.file.metadata().and_then(|metadata| metadata.modified());
                let stored_at = modified.map_or(Timestamp::from_unix_ms(0), Timestamp::from);
                Some(StoredEntry::new(id, opened.bytes, stored_at, opened.head.map(|(record, _)| record)))
            }
            // Removed while we were listing.
            Ok(None) => None,
            // One that cannot be opened must not hide the others.
            Err(error) => Some(StoredEntry::new(id, 0, Timestamp::from_unix_ms(0), Err(error.to_string()))),
        }
    }
}

/// A session's file, its head read.
struct Opened {
    file: File,
    bytes: u64,
    head: Result<(SessionRecord, usize), String>,
}

impl SessionStore for DirectoryStore {
    fn try_lock(&self, id: &SessionId) -> Result<Option<SessionLock>, StoreError> {
        Ok(FileLock::try_take(&self.dir, &lock_name(id))?.map(|guard| SessionLock::new(id.clone(), guard)))
    }

    fn put(&self, lock: &SessionLock, record: &SessionRecord, state: &[u8]) -> Result<(), StoreError> {
        let id = lock.id();
        if record.id != *id {
            return Err(StoreError::NotLocked { id: record.id.clone(), locked: id.clone() });
        }
        if record.bytes != state.len() as u64 {
            return Err(self.damaged(id, "its record says another length than its state has"));
        }
        check_length(id, record.bytes)?;
        let name = file_name(id);
        let failed = |error| CacheError::io("write", &self.dir.path_of(&name), error);
        let mut file = self.dir.create()?;
        file.write_all(&head(record)).and_then(|()| file.write_all(state)).map_err(failed)?;
        file.persist(&name)?;
        Ok(())
    }

    fn get(&self, id: &SessionId) -> Result<Option<StoredSession>, StoreError> {
        let Some(Opened { mut file, head, .. }) = self.read(id)? else { return Ok(None) };
        let (record, start) = head.map_err(|reason| self.damaged(id, reason))?;
        check_length(id, record.bytes)?;
        let mut state = Vec::new();
        // One more, to see whether it has grown.
        let most = record.bytes.saturating_add(1);
        let read = file.seek(SeekFrom::Start(start as u64)).and_then(|_| file.take(most).read_to_end(&mut state));
        read.map_err(|error| CacheError::io("read", &self.dir.path_of(&file_name(id)), error))?;
        if state.len() as u64 != record.bytes {
            return Err(self.damaged(id, "it is not as long as its record says"));
        }
        Ok(Some(StoredSession::new(record, state)))
    }

    fn record(&self, id: &SessionId) -> Result<Option<SessionRecord>, StoreError> {
        match self.read(id)? {
            Some(opened) => Ok(Some(opened.head.map_err(|reason| self.damaged(id, reason))?.0)),
            None => Ok(None),
        }
    }

    fn list(&self) -> Result<Vec<StoredEntry>, StoreError> {
        let names = self.dir.names()?;
        let ids = names.iter().filter_map(|name| SessionId::new(name.strip_suffix(ENDING)?).ok());
        let mut entries: Vec<StoredEntry> = ids.filter_map(|id| self.entry(id)).collect();
        entries.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(entries)
    }

    fn remove(&self, lock: &SessionLock) -> Result<bool, StoreError> {
        let removed = self.dir.remove(&file_name(lock.id()))?;
        self.dir.sync();
        Ok(removed)
    }
}

fn check_length(id: &SessionId, bytes: u64) -> Result<(), StoreError> {
    let most = DirectoryStore::MAX_STATE_BYTES;
    if bytes > most { Err(StoreError::TooLarge { id: id.clone(), bytes, most }) } else { Ok(()) }
}

fn file_name(id: &SessionId) -> String {
    format!("{id}{ENDING}")
}

fn lock_name(id: &SessionId) -> String {
    format!("{LOCK_PREFIX}{id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_state_is_read_that_is_too_long() {
        let dir = tempfile::tempdir().unwrap();
        let store = DirectoryStore::open(dir.path()).unwrap();
        let id = SessionId::new("a").unwrap();
        let most = DirectoryStore::MAX_STATE_BYTES;
        check_length(&id, most - 1).unwrap();
        check_length(&id, most).unwrap();
        let bytes = most + 1;
        let at = Timestamp::from_unix_ms(0);
        let record = SessionRecord {
            id: id.clone(),
            created_at: at,
            updated_at: at,
            language: crate::Language::Python,
            runtime: "python-3.12".into(),
            version: None,
            image_sha256: String::new(),
            executions: 0,
            generation: 0,
            files: None,
            workspace: None,
            bytes,
        };
        let head = head(&record);
        let path = dir.path().join(file_name(&id));
        std::fs::write(&path, &head).unwrap();
        // A hole: it takes no room.
        File::options().write(true).open(&path).unwrap().set_len(head.len() as u64 + bytes).unwrap();
        let error = store.get(&id).unwrap_err();
        assert!(matches!(error, StoreError::TooLarge { .. }), "{error}");
        // It can be seen, and removed.
        assert_eq!(store.list().unwrap().first().and_then(|entry| entry.record.as_ref()), Some(&record));
        assert!(store.remove(&store.try_lock(&id).unwrap().unwrap()).unwrap());
    }
}
