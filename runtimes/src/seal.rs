//! Seals: the state of a compiled file when it was last compared with its digest.
//!
//! Anyone who can write a file in the cache can make Glovebox run native code. For the cache's owner this is no gain.
//! The threat is an attacker who can write these files and nothing else:
//!
//! * a guest with a mount that the guard did not recognise (see [`guard`](crate::guard));
//! * another sandbox or container that shares the cache;
//! * a wrongly restored backup.
//!
//! The evidence that a file is unchanged is therefore outside the cache, in a separate directory that guests do not get
//! either: by default `~/.local/share/glovebox/seals`. A seal in the cache could be written together with the file.
//!
//! A seal contains the digests of the file and its record, and the result of `fstat` on the file: device, inode,
//! length, times of modification and change. Only the kernel sets the time of change, so an equal result means that the
//! file has not been written since. A start then reads only one small file. If the result differs (a restored backup, a
//! new link), the whole file is hashed. It is resealed if its digest matches, and rejected otherwise.
//!
//! A file without a seal is older than the seals' directory, or comes from an attacker. It is hashed and sealed if it
//! was last changed before the directory was created; a later one is rebuilt.
//!
//! Not protected:
//!
//! * Against code that runs as this user, or that maps the file to write to it: the kernel records such writes late,
//!   and on tmpfs never. No guest can map a file.
//! * Between the check of a file and its last use, because it is not copied.
//! * On a machine where the directory cannot be created. There, owner, mode and length are checked, as for everything
//!   in the cache.

use std::fs::Metadata;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use directories::ProjectDirs;
use serde::{Deserialize, Serialize};

use crate::guard::Guarded;
use crate::trusted::TrustedDir;
use crate::{CacheError, Digest};

/// Version of the seal's format. A seal of another version is ignored.
const FORMAT: u32 = 1;
/// Maximum length of a seal in bytes. It has a few hundred bytes and a path.
const MAX_SEAL_BYTES: u64 = 1 << 16;
/// File created with the directory. Its time marks the beginning of sealing.
const SINCE: &str = "since";
/// Number of seals at which a write first removes the seals of files that no longer exist.
const MANY: usize = 512;

/// Attributes of a file that the kernel reports.
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

/// A seal in its stored form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Seal {
    format: u32,
    /// Path of the sealed file.
    path: PathBuf,
    /// Digest of the file.
    pub(crate) code: Digest,
    /// Digest of its record.
    pub(crate) record: Digest,
    /// Attributes of the file when it was last hashed.
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
    /// Time when the directory was created.
    since: (i64, i64),
}

impl Seals {
    /// Returns the default path, or `None` if the user has no home directory.
    pub(crate) fn default_path() -> Option<PathBuf> {
        ProjectDirs::from("", "", "glovebox").map(|dirs| dirs.data_local_dir().join("seals"))
    }

    /// Opens or creates the directory.
    pub(crate) fn open(path: &Path) -> Result<Self, CacheError> {
        let dir = TrustedDir::open(path, Guarded::Seals)?;
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

    /// Returns `true` if a file was last changed before the directory was created. A file's time of change cannot be
    /// set back.
    pub(crate) fn predates(&self, file: &FileState) -> bool {
        file.changed < self.since
    }

    /// Reads the seal of a file. Damaged seals and those of other versions are ignored.
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

    /// Removes a file's seal, if there is one.
    pub(crate) fn remove(&self, path: &Path) -> Result<(), CacheError> {
        self.dir.remove(&name_of(path)).map(drop)
    }

    /// Removes seals of files that no longer exist. Temporary caches, for example those of tests, leave many.
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

/// Returns the name of a file's seal. It depends on the path, because two caches can have files of the same name.
fn name_of(path: &Path) -> String {
    let digest = Digest::of(path.as_os_str().as_encoded_bytes()).to_string();
    format!("{}.json", digest.chars().take(32).collect::<String>())
}
