//! Seals: the state of a compiled file when it was last compared with its digest.
//!
//! Anyone who can write a file in the cache can make Glovebox run native code. The cache's owner can do that anyhow.
//! The threat is somebody who can write these files and nothing else: a guest that was given the directory by a mount
//! that the guard did not recognise (see [`guard`](crate::guard)), another sandbox or container that shares the cache,
//! a backup restored wrongly. The evidence that a file is unchanged is therefore outside the cache, in a separate
//! directory that no guest is given either: by default `~/.local/share/glovebox/seals`. A seal in the cache could be
//! written together with the file.
//!
//! A seal contains the digests of the file and its record, and the result of `fstat` on the file: device, inode,
//! length, times of modification and change. Only the kernel sets the time of change, so an unchanged result means that
//! nobody has written to the file since, and a start costs reading one small file. With another result (a restored
//! backup, a new link) the whole file is hashed: it is resealed if its digest matches, and refused otherwise.
//!
//! A file without a seal was made before there were seals here, or by somebody else. It is hashed and sealed if it was
//! last changed before the seals' directory was created; a later one is rebuilt.
//!
//! Not protected: against code that runs as this user, or that maps the file to write to it (the kernel records such
//! writes late, and on tmpfs never; no guest can map a file); between the check of a file and its last use, because it
//! is not copied; on a machine where no such directory can be created. There, owner, mode and length are checked, as
//! for everything in the cache.

use std::fs::Metadata;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use directories::ProjectDirs;
use serde::{Deserialize, Serialize};

use crate::guard::Guarded;
use crate::trusted::TrustedDir;
use crate::{CacheError, Digest};

/// The version of a seal's format. A seal of another version is ignored.
const FORMAT: u32 = 1;
/// A seal has a few hundred bytes and a path; a longer one is not read.
const MAX_SEAL_BYTES: u64 = 1 << 16;
/// Created with the directory: its own time says since when there are seals.
const SINCE: &str = "since";
/// From this number of seals on, those of files that no longer exist are removed before another is written.
const MANY: usize = 512;

/// The attributes of a file that the kernel reports.
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

/// A seal as stored on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Seal {
    format: u32,
    /// The sealed file.
    path: PathBuf,
    /// The file's digest.
    pub(crate) code: Digest,
    /// Its record's digest.
    pub(crate) record: Digest,
    /// The file's attributes when it was last hashed.
    pub(crate) file: FileState,
}

impl Seal {
    pub(crate) fn new(path: &Path, code: Digest, record: Digest, metadata: &Metadata) -> Self {
        Self { format: FORMAT, path: path.to_owned(), code, record, file: metadata.into() }
    }
}

/// The directory of the seals.
#[derive(Debug)]
pub(crate) struct Seals {
    dir: TrustedDir,
    /// When it was created.
    since: (i64, i64),
}

impl Seals {
    /// The default path; `None` if the user has no home directory.
    pub(crate) fn default_path() -> Option<PathBuf> {
        ProjectDirs::from("", "", "glovebox").map(|dirs| dirs.data_local_dir().join("seals"))
    }

    /// Opens the directory and creates what is missing.
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

    /// Whether a file was last changed before there were seals here. Its time of change cannot be set back.
    pub(crate) fn predates(&self, file: &FileState) -> bool {
        file.changed < self.since
    }

    /// The seal of a file. One that is damaged or of another version is ignored.
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

    /// Removes a file's seal, if it has one.
    pub(crate) fn remove(&self, path: &Path) -> Result<(), CacheError> {
        self.dir.remove(&name_of(path)).map(drop)
    }

    /// Caches come and go, especially those of tests.
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

/// By its path: two caches can have files of the same name.
fn name_of(path: &Path) -> String {
    let digest = Digest::of(path.as_os_str().as_encoded_bytes()).to_string();
    format!("{}.json", digest.chars().take(32).collect::<String>())
}
