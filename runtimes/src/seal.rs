//! Seals: file attributes of a compiled file, recorded when the file was last compared with its digest.
//!
//! Code that can write to the cache can make Glovebox run arbitrary native code. The cache's owner gains no new access
//! from this. The threat is a writer that can change these files but has no other access:
//!
//! * a guest with a mount that the guard did not detect (see [`guard`](crate::guard));
//! * another sandbox or container that shares the cache;
//! * a backup tool that restores the wrong files.
//!
//! An attacker who can write to the cache could also forge a seal inside the cache. Seals are therefore stored in a
//! separate directory that guests cannot access, by default `~/.local/share/glovebox/seals`.
//!
//! A seal contains the digests of the file and its record, and the attributes that `fstat` reports for the file:
//! device, inode, length, modification time and change time. Only the kernel sets the change time, so equal attributes
//! mean that the file has not been written since it was sealed. Glovebox then reads only the small seal. If the
//! attributes differ (after restoring a backup, or creating a hard link), Glovebox hashes the whole file. If the digest
//! matches, the file is resealed. Otherwise, it is rejected.
//!
//! A file without a seal either predates the seal directory or comes from an attacker. If its last change was before
//! the directory was created, the file is hashed and sealed. Otherwise, it is rebuilt.
//!
//! Not protected:
//!
//! * Files that are changed by code that runs as this user.
//! * Files that are changed through a writable mapping. The kernel updates the change time late for such writes, and
//!   never on tmpfs. Guests cannot map files.
//! * Files that change between the check and their last use. Their content is mapped, not copied.
//! * Files on machines where the seal directory cannot be created. Only the owner, mode and length of these files are
//!   checked, as for all files in the cache.

use std::fs::Metadata;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use directories::ProjectDirs;
use serde::{Deserialize, Serialize};

use crate::guard::GuardedDirectory;
use crate::trusted_dir::TrustedDir;
use crate::{CacheError, Digest};

/// The version of the seal format. A seal with a different version is ignored.
const FORMAT: u32 = 1;
/// Maximum length of a seal in bytes. A seal contains a path and a few hundred other bytes.
const MAX_SEAL_BYTES: u64 = 1 << 16;
/// The name of a file that is created with the seal directory. The file's modification time is the time of the
/// directory's creation.
const SINCE: &str = "since";
/// Number of seals at which a write first removes the seals of files that no longer exist.
const MANY: usize = 512;

/// File attributes that the kernel reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileState {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl From<&Metadata> for FileState {
    fn from(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// A seal as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Seal {
    format: u32,
    path: PathBuf,
    /// The digest of the file.
    pub(crate) code: Digest,
    /// The digest of the file's record.
    pub(crate) record: Digest,
    /// The attributes of the file when it was last hashed.
    pub(crate) file: FileState,
}

impl Seal {
    pub(crate) fn new(path: &Path, code: Digest, record: Digest, metadata: &Metadata) -> Self {
        Self { format: FORMAT, path: path.to_owned(), code, record, file: metadata.into() }
    }
}

#[derive(Debug)]
pub(crate) struct Seals {
    dir: TrustedDir,
    /// The time when the directory was created, in seconds and nanoseconds.
    since: (i64, i64),
}

impl Seals {
    /// Returns the default path of the seal directory, or `None` if the user has no home directory.
    pub(crate) fn default_path() -> Option<PathBuf> {
        ProjectDirs::from("", "", "glovebox").map(|dirs| dirs.data_local_dir().join("seals"))
    }

    /// Opens or creates the seal directory.
    pub(crate) fn open(path: &Path) -> Result<Self, CacheError> {
        let dir = TrustedDir::open(path, GuardedDirectory::Seals)?;
        let file = match dir.open_file(SINCE)? {
            Some((file, _)) => file,
            None => {
                dir.create()?.persist(SINCE)?;
                let gone = || CacheError::io("open", &dir.path_of(SINCE), std::io::ErrorKind::NotFound.into());
                dir.open_file(SINCE)?.ok_or_else(gone)?.0
            }
        };
        let metadata = file.metadata().map_err(|e| CacheError::io("examine", &dir.path_of(SINCE), e))?;
        let since = (metadata.mtime(), metadata.mtime_nsec());
        Ok(Self { dir, since })
    }

    /// Returns `true` if a file was last changed before the seal directory was created. A program cannot set back a
    /// file's change time.
    pub(crate) fn predates(&self, file: &FileState) -> bool {
        file.changed < self.since
    }

    /// Reads a file's seal. Ignores seals that are damaged, have a different format version, or belong to another path.
    pub(crate) fn read(&self, path: &Path) -> Result<Option<Seal>, CacheError> {
        self.read_named(&name_of(path)).map(|seal| seal.filter(|seal| seal.path == path))
    }

    fn read_named(&self, name: &str) -> Result<Option<Seal>, CacheError> {
        let Some((file, _)) = self.dir.open_file(name)? else {
            return Ok(None);
        };
        let mut text = Vec::new();
        let read = Read::take(file, MAX_SEAL_BYTES).read_to_end(&mut text);
        read.map_err(|e| CacheError::io("read", &self.dir.path_of(name), e))?;
        let seal: Option<Seal> = serde_json::from_slice(&text).ok();
        Ok(seal.filter(|seal| seal.format == FORMAT))
    }

    pub(crate) fn write(&self, seal: &Seal) -> Result<(), CacheError> {
        self.remove_strays()?;
        let name = name_of(&seal.path);
        let failed = |e| CacheError::io("write", &self.dir.path_of(&name), e);
        let text = serde_json::to_vec(seal).map_err(|e| failed(e.into()))?;
        let mut file = self.dir.create()?;
        file.write_all(&text).map_err(failed)?;
        file.persist(&name)?;
        Ok(())
    }

    /// Removes a file's seal, if it exists.
    pub(crate) fn remove(&self, path: &Path) -> Result<(), CacheError> {
        self.dir.remove(&name_of(path)).map(drop)
    }

    /// Removes the seals of files that no longer exist. Temporary caches, such as the caches of tests, leave many such
    /// seals.
    fn remove_strays(&self) -> Result<(), CacheError> {
        let names = self.dir.names()?;
        if names.len() < MANY {
            return Ok(());
        }
        self.dir.remove_leftovers()?;
        for name in names.iter().filter(|name| name.ends_with(".json")) {
            let is_gone = |seal: Seal| match std::fs::symlink_metadata(&seal.path) {
                Ok(_) => false,
                Err(error) => error.kind() == std::io::ErrorKind::NotFound,
            };
            if self.read_named(name)?.is_none_or(is_gone) {
                self.dir.remove(name)?;
            }
        }
        Ok(())
    }
}

/// Returns the file name of a seal. The name depends on the file's path, because two caches can have files with the
/// same name.
fn name_of(path: &Path) -> String {
    let digest = Digest::of(path.as_os_str().as_encoded_bytes()).to_string();
    format!("{}.json", digest.chars().take(32).collect::<String>())
}
