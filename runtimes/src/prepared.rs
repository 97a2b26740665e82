//! Prepared images on disk: compiled code and a record, both there or neither.
//!
//! The record (`<key>.json`) is written last and names the file that holds the code by its checksum, so
//! whoever finds a record finds its code, whenever the writer was killed. Preparing again replaces the
//! record in one step; the old code goes after that.
//!
//! The code is read-only, and sealed (see `seal.rs`): written before the record, too, a seal is there when its record is.

use glovebox_vfs::escaped;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::seal::{Seal, Seals};
use crate::trusted::{TEMP_PREFIX, TrustedDir};
use crate::{
    Artefact, ArtefactKey, CacheDir, CacheError, Digest, ImageRecord, KeyParts, Listed, NewArtefact, Progress, Quiet,
};

/// The version of the record's format. Another one is as good as none: the image is prepared again.
const FORMAT: u32 = 1;

/// How a record's name ends; before it stands the key, and so the name of the lock.
const RECORD_SUFFIX: &str = ".json";

/// A record has a few hundred bytes; nothing longer is read.
const MAX_RECORD_BYTES: u64 = 1 << 20;

/// Why a prepared image could not be opened or stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PreparedError {
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The code on disk is not what was written.
    #[error(
        "`{}` is damaged: expected {expected}, got {got}; type `glovebox runtimes remove` for its runtime and prepare it again",
        escaped(path)
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Length or checksum as recorded.
        expected: String,
        /// As found.
        got: String,
    },
}

/// Why an image that was not there could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError<E> {
    /// The cache failed.
    #[error(transparent)]
    Store(#[from] PreparedError),
    /// The caller's own step failed; nothing was stored.
    #[error("{0}")]
    Build(E),
}

/// The record as it stands on disk.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    format: u32,
    key: KeyParts,
    aot_file: String,
    aot_bytes: u64,
    aot_sha256: Digest,
    record: ImageRecord,
}

/// The prepared images of one cache directory, or other code compiled ahead of time. Safe to use from several threads and
/// processes at once.
#[derive(Debug)]
pub struct PreparedStore<'a> {
    cache: &'a CacheDir,
    /// The directory in it.
    name: &'static str,
}

impl<'a> PreparedStore<'a> {
    pub(crate) fn new(cache: &'a CacheDir, name: &'static str) -> Self {
        Self { cache, name }
    }

    /// The image with this key, if it is there and made by this user's Glovebox: owner, mode and length are checked. The code is
    /// hashed only if it is not as it was when it was last hashed; where it then is another, that is
    /// [`PreparedError::Corrupt`].
    pub fn open(&self, key: &ArtefactKey) -> Result<Option<Artefact>, PreparedError> {
        self.shelf()?.open(key)
    }

    /// The image with this key, made by `build` if it is not there. Of several processes one builds; the
    /// others wait and use what it made.
    pub fn open_or_build<E>(
        &self,
        key: &ArtefactKey,
        progress: &dyn Progress,
        build: impl FnOnce() -> Result<NewArtefact, E>,
    ) -> Result<Artefact, BuildError<E>> {
        let shelf = self.shelf()?;
        if let Some(artefact) = shelf.open(key)? {
            return Ok(artefact);
        }
        let made = self.build(&shelf, key, progress, build);
        progress.done();
        made
    }

    fn build<E>(
        &self,
        shelf: &Shelf,
        key: &ArtefactKey,
        progress: &dyn Progress,
        build: impl FnOnce() -> Result<NewArtefact, E>,
    ) -> Result<Artefact, BuildError<E>> {
        let _lock = self.cache.lock(&key.stem(), progress).map_err(PreparedError::from)?;
        if let Some(artefact) = shelf.open(key)? {
            return Ok(artefact);
        }
        shelf.dir.remove_leftovers().map_err(PreparedError::from)?;
        let new = build().map_err(BuildError::Build)?;
        Ok(shelf.store(key, &new)?)
    }

    /// Stores an image, replacing the one with the same key.
    pub fn store(&self, key: &ArtefactKey, new: &NewArtefact) -> Result<Artefact, PreparedError> {
        let _lock = self.cache.lock(&key.stem(), &Quiet)?;
        self.shelf()?.store(key, new)
    }

    /// Hashes an image's code and compares it with its record.
    pub fn verify(&self, artefact: &Artefact) -> Result<(), PreparedError> {
        let name = artefact.aot_path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let missing = || CacheError::io("open", &artefact.aot_path, io::ErrorKind::NotFound.into());
        let (mut file, _) = self.shelf()?.dir.open_file(name)?.ok_or_else(missing)?;
        check_digest(&artefact.aot_path, &mut file, artefact.aot_sha256)
    }

    /// Every image there is, for any version and machine, sorted by file name.
    pub fn list(&self) -> Result<Vec<Listed>, PreparedError> {
        let shelf = self.shelf()?;
        let mut listed = Vec::new();
        for name in shelf.records()? {
            let Some(stored) = shelf.read_record(&name)? else {
                continue;
            };
            if shelf.dir.open_file(&stored.aot_file)?.is_some() {
                listed.push(Listed {
                    aot_path: shelf.dir.path_of(&stored.aot_file),
                    parts: stored.key,
                    aot_bytes: stored.aot_bytes,
                    record: stored.record,
                });
            }
        }
        Ok(listed)
    }

    /// Removes the images made from a binary, for any version and machine, and returns the bytes freed.
    ///
    /// An engine that has one loaded keeps it: only the name goes.
    pub fn remove(&self, runtime: &Digest) -> Result<u64, PreparedError> {
        self.remove_where(|stored| stored.key.runtime == *runtime)
    }

    /// Removes every image, also those that no record names any more, and returns the bytes freed.
    pub fn clear(&self) -> Result<u64, PreparedError> {
        let mut freed = self.remove_where(|_| true)?;
        let shelf = self.shelf()?;
        for name in shelf.dir.names()?.iter().filter(|name| !name.starts_with(TEMP_PREFIX)) {
            freed = freed.saturating_add(shelf.bytes_of(name));
            shelf.remove(name)?;
        }
        Ok(freed)
    }

    /// What all images take on disk.
    pub fn size_bytes(&self) -> Result<u64, PreparedError> {
        let shelf = self.shelf()?;
        Ok(shelf.dir.names()?.iter().fold(0, |sum, name| sum.saturating_add(shelf.bytes_of(name))))
    }

    /// Removes what was used longest ago until the rest takes at most `most_bytes`, and returns the bytes freed. What has
    /// the key `keep` stays, and so may be more than that. Used is what was stored or [touched](Artefact::touch).
    ///
    /// An engine that has one loaded keeps it: only the name goes.
    pub fn shrink(&self, most_bytes: u64, keep: &ArtefactKey) -> Result<u64, PreparedError> {
        let shelf = self.shelf()?;
        let mut total = self.size_bytes()?;
        let mut oldest = Vec::new();
        for name in shelf.records()? {
            if let Some(stored) = shelf.read_record(&name)?.filter(|stored| stored.key != *keep.parts()) {
                oldest.push((shelf.used(&name), stored.key));
            }
        }
        oldest.sort_by_key(|(used, _)| *used);
        let mut freed = 0u64;
        for (_, key) in oldest {
            if total <= most_bytes {
                break;
            }
            let bytes = self.remove_where(|stored| stored.key == key)?;
            total = total.saturating_sub(bytes);
            freed = freed.saturating_add(bytes);
        }
        Ok(freed)
    }

    fn remove_where(&self, wanted: impl Fn(&Stored) -> bool) -> Result<u64, PreparedError> {
        let shelf = self.shelf()?;
        let mut freed = 0u64;
        for name in shelf.records()? {
            if !shelf.read_record(&name)?.is_some_and(|stored| wanted(&stored)) {
                continue;
            }
            // Who is making this image finishes first: it would find its code gone.
            let _lock = self.cache.lock(name.trim_end_matches(RECORD_SUFFIX), &Quiet)?;
            let Some(stored) = shelf.read_record(&name)? else {
                continue;
            };
            freed = freed.saturating_add(shelf.bytes_of(&name)).saturating_add(shelf.bytes_of(&stored.aot_file));
            // The record first: code without a record is unused, a record without code would be a lie.
            shelf.remove(&name)?;
            shelf.remove(&stored.aot_file)?;
        }
        Ok(freed)
    }

    /// Opened, and its owner and mode checked, for each operation: an engine may live for months.
    fn shelf(&self) -> Result<Shelf<'a>, PreparedError> {
        let dir = self.cache.subdir(self.name)?;
        Ok(Shelf { dir, real_path: self.cache.real_path_of(self.name), seals: self.cache.seals() })
    }
}

/// The directory that the images are in.
struct Shelf<'a> {
    dir: TrustedDir,
    real_path: PathBuf,
    seals: Option<&'a Seals>,
}

/// A record that was read.
struct Recorded {
    stored: Stored,
    file: File,
    sha256: Digest,
}

impl Shelf<'_> {
    fn open(&self, key: &ArtefactKey) -> Result<Option<Artefact>, PreparedError> {
        let name = record_name(key);
        // Between reading the record and opening the code, another process may have replaced both; the
        // new record then says where the new code is.
        for _ in 0..3 {
            let Some(recorded) = self.recorded(&name)?.filter(|recorded| recorded.stored.key == *key.parts()) else {
                return Ok(None);
            };
            if let Some(artefact) = self.open_code(recorded)? {
                return Ok(Some(artefact));
            }
        }
        Ok(None)
    }

    /// Only under the key's lock.
    fn store(&self, key: &ArtefactKey, new: &NewArtefact) -> Result<Artefact, PreparedError> {
        let name = record_name(key);
        let aot_sha256 = Digest::of(&new.aot);
        let stored = Stored {
            format: FORMAT,
            key: key.parts().clone(),
            aot_file: format!("{}-{}.cwasm", key.stem(), aot_sha256.short()),
            aot_bytes: u64::try_from(new.aot.len()).unwrap_or(u64::MAX),
            aot_sha256,
            record: new.record.clone(),
        };
        let text = serde_json::to_vec_pretty(&stored).map_err(|e| self.failed("write", &name, e.into()))?;
        self.write(&stored.aot_file, &new.aot, true)?;
        let gone = || self.failed("open", &stored.aot_file, io::ErrorKind::NotFound.into());
        if let Some(seals) = self.seals {
            let (file, _) = self.dir.open_file(&stored.aot_file)?.ok_or_else(gone)?;
            let metadata = file.metadata().map_err(|e| self.failed("examine", &stored.aot_file, e))?;
            let path = self.real_path.join(&stored.aot_file);
            seals.write(&Seal::new(&path, aot_sha256, Digest::of(&text), &metadata))?;
        }
        self.write(&name, &text, false)?;
        // What the key had before, and what writers left that were killed before they had written a record.
        let begin = format!("{}-", key.stem());
        for old in self.dir.names()? {
            if old.starts_with(&begin) && is_code_name(&old) && old != stored.aot_file {
                self.remove(&old)?;
            }
        }
        let recorded = self.recorded(&name)?.ok_or_else(gone)?;
        self.open_code(recorded)?.ok_or_else(|| gone().into())
    }

    fn open_code(&self, recorded: Recorded) -> Result<Option<Artefact>, PreparedError> {
        let Recorded { stored, file: record_file, sha256 } = recorded;
        let Some((mut aot, bytes)) = self.dir.open_file(&stored.aot_file)? else {
            return Ok(None);
        };
        let aot_path = self.dir.path_of(&stored.aot_file);
        if bytes != stored.aot_bytes {
            let (expected, got) = (format!("{} bytes", stored.aot_bytes), format!("{bytes} bytes"));
            return Err(PreparedError::Corrupt { path: aot_path, expected, got });
        }
        if !self.is_sealed(&stored, sha256, &mut aot)? {
            tracing::warn!(file = %escaped(&aot_path), "not sealed by this user's Glovebox; it is made again");
            return Ok(None);
        }
        let Stored { record, aot_sha256, .. } = stored;
        Ok(Some(Artefact { aot, aot_path, aot_bytes: bytes, record, aot_sha256, record_file }))
    }

    /// Whether the code is what was written here with this record; see `seal.rs`. Seals it anew where it was hashed.
    fn is_sealed(&self, stored: &Stored, record: Digest, aot: &mut File) -> Result<bool, PreparedError> {
        let Some(seals) = self.seals else { return Ok(true) };
        let failed = |action, e| self.failed(action, &stored.aot_file, e);
        let metadata = aot.metadata().map_err(|e| failed("examine", e))?;
        let seal = Seal::new(&self.real_path.join(&stored.aot_file), stored.aot_sha256, record, &metadata);
        match seals.read(&self.real_path.join(&stored.aot_file))? {
            Some(last) if last == seal => return Ok(true),
            Some(last) if (last.code, last.record) != (seal.code, seal.record) => return Ok(false),
            Some(_) => {}
            None if seals.predates(&seal.file) => {}
            None => return Ok(false),
        }
        check_digest(&self.dir.path_of(&stored.aot_file), aot, stored.aot_sha256)?;
        aot.rewind().map_err(|e| failed("read", e))?;
        if let Err(error) = seals.write(&seal) {
            // It is hashed again next time.
            tracing::debug!(error = &error as &dyn std::error::Error, "a compiled file could not be sealed");
        }
        Ok(true)
    }

    /// Removes a file and its seal.
    fn remove(&self, name: &str) -> Result<(), CacheError> {
        self.dir.remove(name)?;
        match self.seals {
            Some(seals) if is_code_name(name) => seals.remove(&self.real_path.join(name)),
            _ => Ok(()),
        }
    }

    fn records(&self) -> Result<Vec<String>, CacheError> {
        let mut names = self.dir.names()?;
        names.retain(|name| name.ends_with(RECORD_SUFFIX));
        Ok(names)
    }

    /// A record that another version wrote, or nobody did, is no record.
    fn read_record(&self, name: &str) -> Result<Option<Stored>, CacheError> {
        Ok(self.recorded(name)?.map(|recorded| recorded.stored))
    }

    fn recorded(&self, name: &str) -> Result<Option<Recorded>, CacheError> {
        let Some((file, _)) = self.dir.open_file(name)? else {
            return Ok(None);
        };
        let mut text = Vec::new();
        Read::take(&file, MAX_RECORD_BYTES).read_to_end(&mut text).map_err(|e| self.failed("read", name, e))?;
        let stored: Option<Stored> = serde_json::from_slice(&text).ok();
        let stored = stored.filter(|stored| stored.format == FORMAT && is_code_name(&stored.aot_file));
        Ok(stored.map(|stored| Recorded { stored, file, sha256: Digest::of(&text) }))
    }

    fn write(&self, name: &str, bytes: &[u8], read_only: bool) -> Result<(), CacheError> {
        let mut file = self.dir.create()?;
        if read_only {
            file.read_only()?;
        }
        file.write_all(bytes).map_err(|e| self.failed("write", name, e))?;
        file.persist(name)?;
        Ok(())
    }

    fn bytes_of(&self, name: &str) -> u64 {
        std::fs::symlink_metadata(self.dir.path_of(name)).map_or(0, |metadata| metadata.len())
    }

    /// When what has this record was last stored or touched.
    fn used(&self, name: &str) -> SystemTime {
        let modified = std::fs::symlink_metadata(self.dir.path_of(name)).and_then(|metadata| metadata.modified());
        modified.unwrap_or(SystemTime::UNIX_EPOCH)
    }

    fn failed(&self, action: &'static str, name: &str, source: io::Error) -> CacheError {
        CacheError::io(action, &self.dir.path_of(name), source)
    }
}

fn check_digest(path: &Path, file: &mut File, expected: Digest) -> Result<(), PreparedError> {
    let (got, _) = Digest::of_reader(file).map_err(|e| CacheError::io("read", path, e))?;
    if got == expected {
        return Ok(());
    }
    let (expected, got) = (format!("sha256 {expected}"), format!("sha256 {got}"));
    Err(PreparedError::Corrupt { path: path.to_owned(), expected, got })
}

fn record_name(key: &ArtefactKey) -> String {
    format!("{}{RECORD_SUFFIX}", key.stem())
}

/// A record is ours alone to write, but a name from a file is looked at before it is opened or removed.
fn is_code_name(name: &str) -> bool {
    name.ends_with(".cwasm")
        && !name.starts_with('.')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c))
}
