//! Prepared images on disk. Each consists of compiled code and a record, stored atomically.
//!
//! The record (`<key>.json`) is written last and contains the name of the code's file, which includes the code's
//! digest. The code of every record therefore exists, even if a writer was killed. Preparing an image again replaces
//! the record in one step, and then removes the old code.
//!
//! The code is read-only and sealed (see `seal.rs`). The seal is also written before the record, so that every record
//! has a seal.

use glovebox_vfs::escaped;
use std::fs::{File, Metadata, TryLockError};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::fetch::DoneOnDrop;
use crate::seal::{Seal, Seals};
use crate::trusted_dir::{TEMP_PREFIX, TrustedDir};
use crate::{
    Artefact, ArtefactKey, CacheDir, CacheError, CacheKind, Digest, ImageRecord, KeyParts, ListedArtefact, NewArtefact,
    NoProgress, Progress, prepared_bundle::PreparedBundle,
};

/// The version of the record format. A record with a different version is ignored, and its image is prepared again.
const FORMAT: u32 = 2;

/// The suffix of a record's file name. The preceding text is the key, which is also the name of the lock.
pub(crate) const RECORD_SUFFIX: &str = ".json";

/// Maximum length of a record in bytes. Typical records have a few hundred bytes.
pub(crate) const MAX_RECORD_BYTES: u64 = 1 << 20;

/// Maximum number of attempts to lock a file that an eviction has locked. Evictions hold a lock for milliseconds.
const CLAIM_ATTEMPTS: u32 = 500;
/// Interval between attempts to lock a file.
const CLAIM_POLL: Duration = Duration::from_millis(2);

/// Errors from opening, storing, listing or removing prepared images.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PreparedError {
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The code on disk differs from the code that was written.
    #[error(
        "`{}` is damaged: expected {expected}, got {got}; run `glovebox runtimes remove` for its runtime and prepare it again",
        escaped(path)
    )]
    Corrupt {
        /// The path of the file.
        path: PathBuf,
        /// The recorded length or digest.
        expected: String,
        /// The actual length or digest.
        got: String,
    },
}

/// Errors from opening an image or building a missing one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError<E> {
    /// The cache cannot be used.
    #[error(transparent)]
    Store(#[from] PreparedError),
    /// The caller's build function failed. Nothing was stored.
    #[error("{0}")]
    Build(E),
}

/// A record as it is stored.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SerializedRecord {
    format: u32,
    pub(crate) key: KeyParts,
    pub(crate) aot_file: String,
    pub(crate) aot_bytes: u64,
    pub(crate) aot_sha256: Digest,
    pub(crate) record: ImageRecord,
}

impl SerializedRecord {
    /// Parses a record. Returns `None` if the record is damaged or has a different format version.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let stored: Option<Self> = serde_json::from_slice(text).ok();
        stored.filter(|stored| stored.format == FORMAT && is_code_name(&stored.aot_file))
    }
}

/// The prepared images, or other ahead-of-time compiled code, in one cache directory. Several threads and processes can
/// use a store concurrently. Each method that returns a `Result` fails if the cache cannot be used.
#[derive(Debug)]
pub struct PreparedStore<'a> {
    cache: &'a CacheDir,
    kind: CacheKind,
    bundles: &'a [PreparedBundle],
}

impl<'a> PreparedStore<'a> {
    pub(crate) fn new(cache: &'a CacheDir, kind: CacheKind, bundles: &'a [PreparedBundle]) -> Self {
        Self { cache, kind, bundles }
    }

    /// Opens the image with this key, after checking its owner, mode and length. Returns `None` if the image is missing
    /// or has no valid seal. Does not update the time of the image's last use.
    ///
    /// The code is hashed only if the file has changed since it was last hashed.
    ///
    /// # Errors
    /// Returns [`PreparedError::Corrupt`] if the code's length differs from its record, or if the code has changed and
    /// its digest differs.
    pub fn open(&self, key: &ArtefactKey) -> Result<Option<Artefact>, PreparedError> {
        self.dir()?.open(key)
    }

    /// Opens the image with this key and marks it as used. If the image does not exist, takes it from a prepared
    /// bundle, or else builds it with `build`. If several processes call this method concurrently, one builds the
    /// image and the others wait for it. Fails if `build` fails.
    pub fn open_or_build<E>(
        &self,
        key: &ArtefactKey,
        progress: &dyn Progress,
        build: impl FnOnce() -> Result<NewArtefact, E>,
    ) -> Result<Artefact, BuildError<E>> {
        let store_dir = self.dir()?;
        if let Some(artefact) = store_dir.open_used(key)? {
            return Ok(artefact);
        }
        let _done = DoneOnDrop(progress);
        self.build(&store_dir, key, progress, build)
    }

    /// Opens the image with this key and marks it as used. If the image does not exist, takes it from a prepared
    /// bundle. Returns `None` without waiting if no bundle contains the image or another process is adding the image.
    pub fn open_or_unpack(&self, key: &ArtefactKey) -> Result<Option<Artefact>, PreparedError> {
        let store_dir = self.dir()?;
        if let Some(artefact) = store_dir.open_used(key)? {
            return Ok(Some(artefact));
        }
        let Some(_lock) = self.cache.try_lock(&key.stem())? else { return Ok(None) };
        if let Some(artefact) = store_dir.open(key)? {
            return Ok(Some(artefact));
        }
        self.bundled(key).map(|(new, sha256)| store_dir.store(key, &new, sha256)).transpose()
    }

    fn bundled(&self, key: &ArtefactKey) -> Option<(NewArtefact, Digest)> {
        self.bundles.iter().find_map(|bundle| bundle.take(self.kind, key))
    }

    fn build<E>(
        &self,
        store_dir: &StoreDir<'_>,
        key: &ArtefactKey,
        progress: &dyn Progress,
        build: impl FnOnce() -> Result<NewArtefact, E>,
    ) -> Result<Artefact, BuildError<E>> {
        let _lock = self.cache.lock(&key.stem(), progress).map_err(PreparedError::from)?;
        if let Some(artefact) = store_dir.open(key)? {
            return Ok(artefact);
        }
        store_dir.dir.remove_leftovers().map_err(PreparedError::from)?;
        let (new, sha256) = match self.bundled(key) {
            Some(taken) => taken,
            None => {
                let new = build().map_err(BuildError::Build)?;
                let sha256 = Digest::of(&new.aot);
                (new, sha256)
            }
        };
        Ok(store_dir.store(key, &new, sha256)?)
    }

    /// Stores an image, replacing any image with the same key. Fails if the cache cannot be written.
    pub fn store(&self, key: &ArtefactKey, new: &NewArtefact) -> Result<Artefact, PreparedError> {
        let _lock = self.cache.lock(&key.stem(), &NoProgress)?;
        self.dir()?.store(key, new, Digest::of(&new.aot))
    }

    /// Returns the text of the record with this key, without checking it.
    pub(crate) fn record_text(&self, key: &ArtefactKey) -> Result<Vec<u8>, CacheError> {
        let (store_dir, name) = (StoreDir::of(self.cache, self.kind)?, record_name(key));
        store_dir.read_text(&name)?.ok_or_else(|| store_dir.missing(&name))
    }

    /// Compares the digest of an image's code with the recorded digest. Fails if they differ or the code is unreadable.
    pub fn verify(&self, artefact: &Artefact) -> Result<(), PreparedError> {
        let name = artefact.aot_path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let missing = || CacheError::io("open", &artefact.aot_path, io::ErrorKind::NotFound.into());
        let (mut file, _) = self.dir()?.dir.open_file(name)?.ok_or_else(missing)?;
        check_digest(&artefact.aot_path, &mut file, artefact.aot_sha256)
    }

    /// Returns the images of all versions and machines, sorted by file name. Fails if the cache cannot be read.
    pub fn list(&self) -> Result<Vec<ListedArtefact>, PreparedError> {
        let store_dir = self.dir()?;
        let mut listed = Vec::new();
        for name in store_dir.records()? {
            let Some(stored) = store_dir.read_record(&name)? else { continue };
            if store_dir.dir.open_file(&stored.aot_file)?.is_some() {
                listed.push(ListedArtefact {
                    aot_path: store_dir.dir.path_of(&stored.aot_file),
                    parts: stored.key,
                    aot_bytes: stored.aot_bytes,
                    record: stored.record,
                });
            }
        }
        Ok(listed)
    }

    /// Removes the images of a binary, for all versions and machines. Returns the number of freed bytes.
    ///
    /// Engines that have loaded an image can still use it, because only the file's name is removed. Fails if the cache
    /// cannot be read, or a file cannot be removed.
    pub fn remove(&self, runtime: &Digest) -> Result<u64, PreparedError> {
        self.remove_where(|stored| stored.key.runtime == *runtime)
    }

    /// Removes all images with this label. Returns the number of freed bytes. Fails like [`remove`](Self::remove).
    pub fn remove_labelled(&self, label: &str) -> Result<u64, PreparedError> {
        self.remove_where(|stored| stored.key.label == label)
    }

    /// Removes all images, and code without a record. Returns the number of freed bytes. Fails like `remove`.
    pub fn clear(&self) -> Result<u64, PreparedError> {
        let mut freed = self.remove_where(|_| true)?;
        let store_dir = self.dir()?;
        for name in store_dir.dir.names()?.iter().filter(|name| !name.starts_with(TEMP_PREFIX)) {
            // Wait for any process that is storing this image.
            let stem = name.strip_suffix(".cwasm").and_then(|name| Some(name.rsplit_once('-')?.0));
            let _lock = self.cache.lock(stem.unwrap_or(name.trim_end_matches(RECORD_SUFFIX)), &NoProgress)?;
            if stem.is_some_and(|stem| store_dir.dir.path_of(&format!("{stem}{RECORD_SUFFIX}")).exists()) {
                continue;
            }
            freed = freed.saturating_add(store_dir.bytes_of(name));
            store_dir.remove(name)?;
        }
        Ok(freed)
    }

    /// Returns the size of all images on disk, in bytes. Fails if the cache cannot be read.
    pub fn size_bytes(&self) -> Result<u64, PreparedError> {
        let store_dir = self.dir()?;
        Ok(store_dir.dir.names()?.iter().fold(0, |sum, name| sum.saturating_add(store_dir.bytes_of(name))))
    }

    fn remove_where(&self, wanted: impl Fn(&SerializedRecord) -> bool) -> Result<u64, PreparedError> {
        let store_dir = self.dir()?;
        let mut freed = 0u64;
        for name in store_dir.records()? {
            if !store_dir.read_record(&name)?.is_some_and(|stored| wanted(&stored)) {
                continue;
            }
            // Wait for any process that is building this image, because this loop could otherwise remove the code that
            // the process has just stored.
            let _lock = self.cache.lock(name.trim_end_matches(RECORD_SUFFIX), &NoProgress)?;
            let Some(stored) = store_dir.read_record(&name)? else { continue };
            freed =
                freed.saturating_add(store_dir.bytes_of(&name)).saturating_add(store_dir.bytes_of(&stored.aot_file));
            // Remove the record first: code without a record is ignored, but a record without code would be an error.
            store_dir.remove(&name)?;
            store_dir.remove(&stored.aot_file)?;
        }
        Ok(freed)
    }

    /// Opens the directory and checks its owner and mode. Every operation repeats the check, because an engine can run
    /// for months.
    fn dir(&self) -> Result<StoreDir<'a>, PreparedError> {
        Ok(StoreDir::of(self.cache, self.kind)?)
    }
}

/// The directory for one kind of image.
pub(crate) struct StoreDir<'a> {
    pub(crate) dir: TrustedDir,
    real_path: PathBuf,
    seals: Option<&'a Seals>,
}

/// A parsed record and its digest.
struct ParsedRecord {
    stored: SerializedRecord,
    sha256: Digest,
}

impl<'a> StoreDir<'a> {
    pub(crate) fn of(cache: &'a CacheDir, kind: CacheKind) -> Result<Self, CacheError> {
        let directory = kind.directory();
        Ok(Self { dir: cache.subdir(directory)?, real_path: cache.real_path_of(directory), seals: cache.seals() })
    }
}

impl StoreDir<'_> {
    /// Opens an image and marks it as used.
    fn open_used(&self, key: &ArtefactKey) -> Result<Option<Artefact>, PreparedError> {
        let opened = self.open(key)?;
        if opened.is_some() {
            // Ignore errors: if the file system refuses the update, the image may only be evicted too early.
            let _ = self.dir.touch(&record_name(key));
        }
        Ok(opened)
    }

    fn open(&self, key: &ArtefactKey) -> Result<Option<Artefact>, PreparedError> {
        let name = record_name(key);
        // Retry, because another process may replace both files after the record is read and before the code is opened.
        for _ in 0..3 {
            let Some(recorded) = self.find_record(&name)?.filter(|recorded| recorded.stored.key == *key.parts()) else {
                return Ok(None);
            };
            if let Some(artefact) = self.open_code(recorded)? {
                return Ok(Some(artefact));
            }
        }
        Ok(None)
    }

    /// Stores an image whose code has the digest `aot_sha256`. The caller must hold the key's lock.
    fn store(&self, key: &ArtefactKey, new: &NewArtefact, aot_sha256: Digest) -> Result<Artefact, PreparedError> {
        let name = record_name(key);
        let stored = SerializedRecord {
            format: FORMAT,
            key: key.parts().clone(),
            aot_file: format!("{}-{}.cwasm", key.stem(), aot_sha256.short()),
            aot_bytes: u64::try_from(new.aot.len()).unwrap_or(u64::MAX),
            aot_sha256,
            record: new.record.clone(),
        };
        let text = serde_json::to_vec_pretty(&stored).map_err(|e| self.failed("write", &name, e.into()))?;
        self.write(&stored.aot_file, &new.aot, true)?;
        let gone = || self.missing(&stored.aot_file);
        if let Some(seals) = self.seals {
            let (file, _) = self.dir.open_file(&stored.aot_file)?.ok_or_else(gone)?;
            let metadata = file.metadata().map_err(|e| self.failed("examine", &stored.aot_file, e))?;
            let path = self.real_path.join(&stored.aot_file);
            seals.write(&Seal::new(&path, aot_sha256, Digest::of(&text), &metadata))?;
        }
        self.write(&name, &text, false)?;
        // Remove the key's previous code, and code from writers that were killed before they wrote a record.
        let begin = format!("{}-", key.stem());
        for old in self.dir.names()? {
            if old.starts_with(&begin) && is_code_name(&old) && old != stored.aot_file {
                self.remove(&old)?;
            }
        }
        let recorded = self.find_record(&name)?.ok_or_else(gone)?;
        let opened = self.open_code(recorded)?.ok_or_else(gone)?;
        Ok(Artefact { is_new: true, ..opened })
    }

    fn open_code(&self, recorded: ParsedRecord) -> Result<Option<Artefact>, PreparedError> {
        let ParsedRecord { stored, sha256 } = recorded;
        let Some((mut aot, bytes)) = self.dir.open_file(&stored.aot_file)? else { return Ok(None) };
        let aot_path = self.dir.path_of(&stored.aot_file);
        if !try_lock_code(&aot) {
            return Ok(None);
        }
        if bytes != stored.aot_bytes {
            let (expected, got) = (format!("{} bytes", stored.aot_bytes), format!("{bytes} bytes"));
            return Err(PreparedError::Corrupt { path: aot_path, expected, got });
        }
        if !self.is_sealed(&stored, sha256, &mut aot)? {
            tracing::warn!(file = %escaped(&aot_path), "not sealed by this user's Glovebox; preparing it again");
            return Ok(None);
        }
        let SerializedRecord { record, aot_sha256, .. } = stored;
        Ok(Some(Artefact { aot, aot_path, aot_bytes: bytes, record, is_new: false, aot_sha256 }))
    }

    /// Returns `true` if the code is unchanged since it was written with this record (see `seal.rs`). Renews the seal
    /// after hashing the code.
    fn is_sealed(&self, stored: &SerializedRecord, record: Digest, aot: &mut File) -> Result<bool, PreparedError> {
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
            // Ignore the error: without a new seal, the file is hashed again when it is next opened.
            tracing::debug!(error = &error as &dyn std::error::Error, "a compiled file could not be sealed");
        }
        Ok(true)
    }

    /// Removes a file and its seal.
    pub(crate) fn remove(&self, name: &str) -> Result<(), CacheError> {
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

    /// Reads a record. Ignores records that are damaged or have a different format version.
    fn read_record(&self, name: &str) -> Result<Option<SerializedRecord>, CacheError> {
        Ok(self.find_record(name)?.map(|recorded| recorded.stored))
    }

    fn find_record(&self, name: &str) -> Result<Option<ParsedRecord>, CacheError> {
        let Some(text) = self.read_text(name)? else { return Ok(None) };
        Ok(SerializedRecord::parse(&text).map(|stored| ParsedRecord { stored, sha256: Digest::of(&text) }))
    }

    fn read_text(&self, name: &str) -> Result<Option<Vec<u8>>, CacheError> {
        let Some((file, _)) = self.dir.open_file(name)? else { return Ok(None) };
        let mut text = Vec::new();
        Read::take(&file, MAX_RECORD_BYTES).read_to_end(&mut text).map_err(|e| self.failed("read", name, e))?;
        Ok(Some(text))
    }

    fn write(&self, name: &str, bytes: &[u8], read_only: bool) -> Result<(), CacheError> {
        let mut file = self.dir.create()?;
        if read_only {
            file.read_only()?;
        }
        file.write_sparse(bytes).map_err(|e| self.failed("write", name, e))?;
        file.persist(name)?;
        Ok(())
    }

    pub(crate) fn bytes_of(&self, name: &str) -> u64 {
        self.metadata(name).map_or(0, |metadata| metadata.len())
    }

    /// Returns the time when the file was last written or touched.
    pub(crate) fn modified(&self, name: &str) -> SystemTime {
        self.metadata(name).and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// Returns the time when the file was last read, if the file system records access times.
    pub(crate) fn accessed(&self, name: &str) -> SystemTime {
        self.metadata(name).and_then(|metadata| metadata.accessed()).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    fn metadata(&self, name: &str) -> io::Result<Metadata> {
        std::fs::symlink_metadata(self.dir.path_of(name))
    }

    fn missing(&self, name: &str) -> CacheError {
        self.failed("open", name, io::ErrorKind::NotFound.into())
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

pub(crate) fn record_name(key: &ArtefactKey) -> String {
    format!("{}{RECORD_SUFFIX}", key.stem())
}

/// Takes a shared lock on a code file, which prevents its eviction. The kernel releases the lock when the file is
/// neither open nor mapped. Returns `false` if the code is being evicted.
fn try_lock_code(code: &File) -> bool {
    for _ in 0..CLAIM_ATTEMPTS {
        match code.try_lock_shared() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(CLAIM_POLL),
            // If the file system does not support locks, evictions fail and remove nothing.
            Ok(()) | Err(TryLockError::Error(_)) => return true,
        }
    }
    false
}

/// Returns `true` if a file name from a record is a plain name of a code file. Records are checked even though only the
/// current user can write them.
pub(crate) fn is_code_name(name: &str) -> bool {
    name.ends_with(".cwasm")
        && !name.starts_with('.')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c))
}
