//! Seals: what a compiled file was when it was last compared with its digest.
//!
//! Whoever can write a file in the cache makes us run native code. The cache's owner can do that anyhow. The threat is
//! somebody who can write these files and nothing else: a guest that was given the directory by a mount that the guard
//! did not see (see [`guard`](crate::guard)), another sandbox or container that shares the cache, a backup put back wrongly.
//! So what tells whether a file is unchanged lies outside the cache, in a directory of its own that no guest is given
//! either: by default `~/.local/share/glovebox/seals`. A seal in the cache could be written together with the file.
//!
//! A seal names the file's digest and its record's, and what `fstat` said of the file: device, inode, length, times of
//! modification and change. The time of change is set by the kernel alone, so an unchanged answer means that nobody wrote to the file
//! since, and a start costs one small file to read. With another answer (a restored backup, a link made) the whole file is hashed: it is
//! sealed anew where it is what it was, and refused where it is not.
//!
//! A file without a seal was made before there were seals here, or by somebody else. It is hashed and sealed if it was last changed
//! before the seals' directory was made; any later one is made again.
//!
//! Not protected: against code that runs as this user, or that maps the file to write to it (the kernel notes such writes late, and on
//! tmpfs never; no guest can map a file); between the look at a file and its last use, as nobody copies it; on a
//! machine where no such directory can be had. There, owner, mode and length are checked, as for everything in the cache.

use std::fs::Metadata;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use directories::ProjectDirs;
use serde::{Deserialize, Serialize};

use crate::guard::Guarded;
use crate::trusted::TrustedDir;
use crate::{CacheError, Digest};

/// The version of a seal's format. Another one is as good as none.
const FORMAT: u32 = 1;
/// A seal has a few hundred bytes and a path; nothing longer is read.
const MAX_SEAL_BYTES: u64 = 1 << 16;
/// Made with the directory: its own time says since when there are seals.
const SINCE: &str = "since";
/// From so many seals on, those of files that are gone are removed before another is written.
const MANY: usize = 512;

/// What the kernel says of a file.
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

/// A seal as it stands on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Seal {
    format: u32,
    /// The sealed file.
    path: PathBuf,
    /// What the file hashes to.
    pub(crate) code: Digest,
    /// What its record hashes to.
    pub(crate) record: Digest,
    /// The file when it was last hashed.
    pub(crate) file: FileState,
}

impl Seal {
    pub(crate) fn new(path: &Path, code: Digest, record: Digest, metadata: &Metadata) -> Self {
        Self { format: FORMAT, path: path.to_owned(), code, record, file: metadata.into() }
    }
}

/// The directory that the seals are in.
#[derive(Debug)]
pub(crate) struct Seals {
    dir: TrustedDir,
    /// When it was made.
    since: (i64, i64),
}

impl Seals {
    /// Where they are by default; none where the user has no home.
    pub(crate) fn default_path() -> Option<PathBuf> {
        ProjectDirs::from("", "", "glovebox").map(|dirs| dirs.data_local_dir().join("seals"))
    }

    /// Opens the directory, making what is missing.
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

    /// The seal of a file. One that is damaged or of another version is none.
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

    /// Caches come and go, those of tests above all.
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
