//! The cache directory: location, layout, trust rules, locks between processes, and eviction.

use std::{
    collections::BTreeMap,
    fs::{File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use directories::ProjectDirs;
use glovebox_vfs::escaped;
use serde::Serialize;

use crate::{
    ArtefactKey, PreparedError, Progress, Runtimes,
    guard::GuardedDirectory,
    prepared::{RECORD_SUFFIX, StoreDir, is_code_name},
    seal::Seals,
    trusted_dir::{FileLock, TrustedDir},
};

/// The directory of the lock files.
const LOCKS: &str = "locks";
const LOCK_SUFFIX: &str = ".lock";

/// Polling interval of a process that waits for a lock. Each poll retries the lock and checks for cancellation.
const LOCK_POLL: Duration = Duration::from_millis(20);
/// Minimum duration of a lock wait before it is reported. Unpacking a prepared bundle takes less time.
const MIN_REPORTED_WAIT: Duration = Duration::from_secs(1);

/// Categories of files in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CacheKind {
    /// Downloaded binaries of interpreters and tools.
    Binaries,
    /// Wheels of the bundled packages.
    Packages,
    /// The compiled code of runtimes, shared by all images of a runtime.
    Code,
    /// Prepared images: the memory of booted runtimes.
    Images,
    /// Prepared modules, as WebAssembly.
    Modules,
    /// Compiled components.
    Components,
}

impl CacheKind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Binaries, Self::Packages, Self::Code, Self::Images, Self::Modules, Self::Components];

    /// Kinds that [`Runtimes::evict`](crate::Runtimes::evict) may remove. They can be rebuilt without the network.
    pub const EVICTABLE: [Self; 4] = [Self::Code, Self::Images, Self::Modules, Self::Components];

    pub(crate) fn directory(self) -> &'static str {
        match self {
            Self::Binaries => "binaries",
            Self::Packages => "packages",
            Self::Code => "code",
            Self::Images => "prepared",
            Self::Modules => "modules",
            Self::Components => "components",
        }
    }
}

/// The directory for downloaded binaries and prepared images.
///
/// Code is loaded from this directory, so it must belong to the user and must not be writable by other users. A new
/// directory has mode 0700. Several threads and processes may use the cache concurrently.
#[derive(Debug)]
pub struct CacheDir {
    root: TrustedDir,
    /// The path of the root with all links resolved. Seals identify files by this path.
    real_path: PathBuf,
    seals: Option<Seals>,
}

/// A lock that excludes other holders, in this and other processes. Released on drop and when the process ends.
#[derive(Debug)]
pub struct CacheLock(#[expect(dead_code, reason = "dropping the field releases the lock")] FileLock);

impl CacheDir {
    /// Returns the platform's cache directory: `$XDG_CACHE_HOME/glovebox` or `~/.cache/glovebox` on Linux. Fails if the
    /// user has no home directory.
    pub fn default_path() -> Result<PathBuf, CacheError> {
        let dirs = ProjectDirs::from("", "", "glovebox").ok_or(CacheError::NoHome)?;
        Ok(dirs.cache_dir().to_owned())
    }

    /// Opens or creates the cache at `path` and checks the trust rules.
    ///
    /// Seals of compiled files are stored in the user's data directory (`$XDG_DATA_HOME/glovebox/seals` or
    /// `~/.local/share/glovebox/seals` on Linux). If that directory is unavailable, only the owner, mode and length of
    /// compiled files are checked.
    ///
    /// # Errors
    /// Fails if the directory cannot be opened or created, or does not meet the trust rules.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CacheError> {
        let mut cache = Self::unsealed(path.as_ref())?;
        if let Some(path) = Seals::default_path() {
            match Seals::open(&path) {
                Ok(seals) => cache.seals = Some(seals),
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "cannot store seals, so compiled files are not sealed");
                }
            }
        }
        Ok(cache)
    }

    /// Like [`open`](Self::open), but stores the seals in the directory `seals`. Other users who can write to the cache
    /// must not be able to write to `seals`.
    ///
    /// # Errors
    /// Fails if either directory cannot be used.
    pub fn open_sealed(path: impl AsRef<Path>, seals: impl AsRef<Path>) -> Result<Self, CacheError> {
        let cache = Self::unsealed(path.as_ref())?;
        Ok(Self { seals: Some(Seals::open(seals.as_ref())?), ..cache })
    }

    pub(crate) fn unsealed(path: &Path) -> Result<Self, CacheError> {
        let root = TrustedDir::open(path, GuardedDirectory::Cache)?;
        let real_path = std::fs::canonicalize(path).map_err(|e| CacheError::io("find", path, e))?;
        Ok(Self { root, real_path, seals: None })
    }

    pub(crate) fn seals(&self) -> Option<&Seals> {
        self.seals.as_ref()
    }

    /// Returns a subdirectory's path, with all links resolved.
    pub(crate) fn real_path_of(&self, name: &str) -> PathBuf {
        self.real_path.join(name)
    }

    /// Returns the path of the cache.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// Acquires the lock called `name` (letters, digits, `.`, `-`, `_`), and waits while another holder has it.
    ///
    /// Locks belong to open files, so they also exclude other threads of the same process.
    ///
    /// # Errors
    /// [`CacheError::Cancelled`] if `progress` is cancelled during the wait. Also fails if the lock's file cannot be
    /// opened.
    pub fn lock(&self, name: &str, progress: &dyn Progress) -> Result<CacheLock, CacheError> {
        let locks = Arc::new(self.root.subdir(LOCKS)?);
        let name = lock_name(name);
        let (begun, mut is_reported) = (Instant::now(), false);
        loop {
            if let Some(lock) = FileLock::try_take(&locks, &name)? {
                return Ok(CacheLock(lock));
            }
            if progress.cancelled() {
                return Err(CacheError::Cancelled { path: locks.path_of(&name) });
            }
            if !is_reported && begun.elapsed() >= MIN_REPORTED_WAIT {
                progress.message("waiting for another process to fetch or prepare the same file");
                is_reported = true;
            }
            std::thread::sleep(LOCK_POLL);
        }
    }

    /// Like [`lock`](Self::lock), but returns `None` if another holder has the lock.
    pub(crate) fn try_lock(&self, name: &str) -> Result<Option<CacheLock>, CacheError> {
        Ok(FileLock::try_take(&Arc::new(self.root.subdir(LOCKS)?), &lock_name(name))?.map(CacheLock))
    }

    /// Removes lock files that killed processes left behind.
    pub(crate) fn remove_stale_locks(&self) -> Result<(), CacheError> {
        let locks = Arc::new(self.root.subdir(LOCKS)?);
        for name in locks.names()?.iter().filter(|name| name.ends_with(LOCK_SUFFIX)) {
            // Acquiring and releasing a lock removes its file. A file that remains affects only its own key.
            if let Err(error) = FileLock::try_take(&locks, name) {
                tracing::debug!(%error, "a lock file was not removed");
            }
        }
        Ok(())
    }

    pub(crate) fn subdir(&self, name: &str) -> Result<TrustedDir, CacheError> {
        self.root.subdir(name)
    }
}

fn lock_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '_' };
    format!("{}{LOCK_SUFFIX}", name.chars().map(plain).collect::<String>())
}

/// Errors from the cache directory and Glovebox's other directories.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The path is a symbolic link. Following the link would mean trusting its creator.
    #[error("`{}` is a symbolic link; remove it, or use its target", escaped(path))]
    Symlink {
        /// The path of the link.
        path: PathBuf,
    },
    /// The directory or file belongs to another user.
    #[error("`{}` belongs to user {owner}, not to you ({user}), so its contents are not trusted; use another directory, or check them and run `chown {user} {}` as root", escaped(path), escaped(&quoted(path)))]
    Owner {
        /// The path of the directory or file.
        path: PathBuf,
        /// User ID of the owner.
        owner: u32,
        /// The effective user ID of this process.
        user: u32,
    },
    /// Other users can write to the directory or file.
    #[error("`{}` is writable by other users (mode {mode:04o}), so its contents are not trusted; check them and run `chmod go-w {}`, or use another directory", escaped(path), escaped(&quoted(path)))]
    Writable {
        /// The path of the directory or file.
        path: PathBuf,
        /// Permission bits.
        mode: u32,
    },
    /// The path is not a directory.
    #[error("`{}` is not a directory; remove it, or use another directory", escaped(path))]
    NotADirectory {
        /// The path of the existing file.
        path: PathBuf,
    },
    /// The path is not a regular file.
    #[error("`{}` is not a regular file; remove it", escaped(path))]
    NotAFile {
        /// The path of the existing directory or special file.
        path: PathBuf,
    },
    /// The user has no home directory.
    #[error(
        "cannot determine the cache directory: the user has no home directory; set a cache directory (`--cache-dir`, `GLOVEBOX_CACHE_DIR` or `EngineConfig::cache_dir`)"
    )]
    NoHome,
    /// The operation was cancelled while it waited for a lock.
    #[error("cancelled while waiting for another process to release `{}`", escaped(path))]
    Cancelled {
        /// The path of the lock.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("cannot {action} `{}`: {source}", escaped(path))]
    Io {
        /// The name of the operation.
        action: &'static str,
        /// The path passed to the operation.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

impl CacheError {
    /// Creates the error for a failed system call.
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }
}

/// Quotes a path for use in a shell command.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

// Listing and evicting cache entries.
//
// Compiled code is evicted by age and by size, but never while it is in use. A process that uses a file holds a shared
// lock on it for as long as the file is open or mapped. A process that prepares an image holds the lock of its key. The
// record is removed before the code, so an interrupted eviction never leaves a record without code. The next eviction
// removes the remaining code.

/// Maximum number of attempts to lock a code file. Attempts are repeated because a newly forked child process shares
/// its parent's open files, and their locks, until it calls `exec`.
const LOCK_ATTEMPTS: u32 = 4;
/// Interval between attempts to lock a code file.
const CODE_LOCK_POLL: Duration = Duration::from_millis(2);

/// An entry of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheEntry {
    /// The kind of the entry.
    pub kind: CacheKind,
    /// The common prefix of the entry's file names, or the name of its only file.
    pub name: String,
    /// The size on disk in bytes.
    pub bytes: u64,
    /// The time of the last use. For binaries and packages, the time of the last read if the file system records reads.
    pub last_used: SystemTime,
    /// `true` if a process has the entry open or is building it. Always `false` for binaries and packages, which are
    /// closed after reading.
    pub in_use: bool,
}

/// The criteria of an eviction. The default evicts nothing.
#[derive(Clone, Debug, Default)]
pub struct Eviction<'a> {
    /// Evicts entries that were last used at least this long ago.
    pub max_age: Option<Duration>,
    /// Maximum total size of the remaining entries, in bytes. The least recently used entries are evicted first.
    pub max_bytes: Option<u64>,
    /// A key whose entries of all kinds are never evicted, even if the cache exceeds `max_bytes`.
    pub keep: Option<&'a ArtefactKey>,
    /// `true` to report the entries that would be removed, without removing them.
    pub dry_run: bool,
}

/// The result of an eviction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvictionReport {
    /// Entries that were removed, least recently used first. With `dry_run`, the entries that would be removed.
    pub removed: Vec<CacheEntry>,
    /// Entries that were not removed because they are in use, or were used after they were listed.
    pub in_use: Vec<CacheEntry>,
}

/// The record and code files of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Group {
    has_record: bool,
    code: Vec<String>,
    bytes: u64,
    last_used: Option<SystemTime>,
}

impl Runtimes {
    /// Returns the entries of these kinds, least recently used first. Fails if the cache cannot be read.
    ///
    /// `CacheEntry::in_use` is determined only for the kinds in [`CacheKind::EVICTABLE`].
    pub fn cached(&self, kinds: &[CacheKind]) -> Result<Vec<CacheEntry>, PreparedError> {
        let mut entries = self.entries(kinds)?;
        for entry in entries.iter_mut().filter(|entry| CacheKind::EVICTABLE.contains(&entry.kind)) {
            entry.in_use = self.claim(entry)?.is_none();
        }
        Ok(entries)
    }

    /// Evicts entries of these kinds. Never evicts entries in use, binaries or packages. Fails if the cache cannot be
    /// read, or an entry cannot be removed. Entries removed before a failure stay removed.
    pub fn evict(&self, kinds: &[CacheKind], eviction: &Eviction<'_>) -> Result<EvictionReport, PreparedError> {
        let kinds: Vec<_> = CacheKind::EVICTABLE.into_iter().filter(|kind| kinds.contains(kind)).collect();
        if !eviction.dry_run {
            self.cache().remove_stale_locks()?;
            for kind in &kinds {
                self.cache().subdir(kind.directory())?.remove_leftovers()?;
            }
        }
        let entries = self.entries(&kinds)?;
        let mut left = entries.iter().fold(0u64, |sum, entry| sum.saturating_add(entry.bytes));
        let (keep, now) = (eviction.keep.map(ArtefactKey::stem), SystemTime::now());
        let mut evicted = EvictionReport::default();
        for entry in entries.into_iter().filter(|entry| keep.as_ref() != Some(&entry.name)) {
            // An entry with a time in the future has age zero.
            let age = now.duration_since(entry.last_used).unwrap_or_default();
            let is_due = eviction.max_age.is_some_and(|max| age >= max)
                || eviction.max_bytes.is_some_and(|max_bytes| left > max_bytes);
            if !is_due {
                continue;
            }
            let Some(claimed) = self.claim(&entry)? else {
                evicted.in_use.push(CacheEntry { in_use: true, ..entry });
                continue;
            };
            if !eviction.dry_run {
                claimed.remove(&entry.name)?;
            }
            left = left.saturating_sub(entry.bytes);
            evicted.removed.push(entry);
        }
        Ok(evicted)
    }

    fn entries(&self, kinds: &[CacheKind]) -> Result<Vec<CacheEntry>, PreparedError> {
        let mut entries = Vec::new();
        for kind in kinds {
            let store_dir = StoreDir::of(self.cache(), *kind)?;
            let groups = match kind {
                CacheKind::Binaries | CacheKind::Packages => files(&store_dir)?,
                _ => groups(&store_dir, None)?,
            };
            entries.extend(groups.into_iter().map(|(name, group)| CacheEntry {
                kind: *kind,
                name,
                bytes: group.bytes,
                last_used: group.last_used.unwrap_or(SystemTime::UNIX_EPOCH),
                in_use: false,
            }));
        }
        entries.sort_by_key(|entry| entry.last_used);
        Ok(entries)
    }

    /// Claims an entry for removal. Returns `None` if the entry is in use, is being built, or was used after it was
    /// listed.
    fn claim(&self, entry: &CacheEntry) -> Result<Option<ClaimedEntry<'_>>, PreparedError> {
        let Some(lock) = self.cache().try_lock(&entry.name)? else { return Ok(None) };
        let store_dir = StoreDir::of(self.cache(), entry.kind)?;
        let Some(group) = groups(&store_dir, Some(&entry.name))?.remove(&entry.name) else { return Ok(None) };
        if group.last_used != Some(entry.last_used) {
            return Ok(None);
        }
        let mut held = Vec::new();
        for name in &group.code {
            // A file that no longer exists, or that this process cannot open, is treated as unused.
            let Ok(Some((file, _))) = store_dir.dir.open_file(name) else { continue };
            match lock_unused(&file) {
                Ok(true) => held.push(file),
                Ok(false) => return Ok(None),
                Err(error) => return Err(CacheError::io("lock", &store_dir.dir.path_of(name), error).into()),
            }
        }
        Ok(Some(ClaimedEntry { store_dir, group, _held: held, _lock: lock }))
    }
}

/// Locks a code file. Returns `false` if a process uses the file.
fn lock_unused(code: &File) -> io::Result<bool> {
    for _ in 0..LOCK_ATTEMPTS {
        match code.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => std::thread::sleep(CODE_LOCK_POLL),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(false)
}

/// An unused entry, locked so that no process can start to use it.
struct ClaimedEntry<'a> {
    store_dir: StoreDir<'a>,
    group: Group,
    _held: Vec<File>,
    _lock: CacheLock,
}

impl ClaimedEntry<'_> {
    fn remove(self, name: &str) -> Result<(), PreparedError> {
        // Remove the record first: code without a record is ignored, but a record without code would be an error.
        if self.group.has_record {
            self.store_dir.dir.remove(&format!("{name}{RECORD_SUFFIX}"))?;
        }
        for code in &self.group.code {
            self.store_dir.remove(code)?;
        }
        tracing::debug!(name, bytes = self.group.bytes, "evicted from the cache");
        Ok(())
    }
}

/// Groups a directory's records and code by key, for all keys or only for the key `only`. Includes records of other
/// versions, and code that a killed process left without a record.
fn groups(store_dir: &StoreDir<'_>, only: Option<&str>) -> Result<BTreeMap<String, Group>, CacheError> {
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for name in store_dir.dir.names()? {
        let record = name.strip_suffix(RECORD_SUFFIX).filter(|stem| !stem.starts_with('.'));
        let code = name.strip_suffix(".cwasm").and_then(|name| Some(name.rsplit_once('-')?.0));
        let Some(stem) = record.or(code.filter(|_| is_code_name(&name))) else { continue };
        if only.is_some_and(|only| only != stem) {
            continue;
        }
        let group = groups.entry(stem.to_owned()).or_default();
        group.bytes = group.bytes.saturating_add(store_dir.bytes_of(&name));
        if record.is_some() {
            // Opening the code updates the modification time of its record.
            group.has_record = true;
            group.last_used = Some(store_dir.modified(&name));
        } else {
            if !group.has_record {
                group.last_used = group.last_used.max(Some(store_dir.modified(&name)));
            }
            group.code.push(name);
        }
    }
    Ok(groups)
}

/// Lists a directory's files, each in a separate group.
fn files(store_dir: &StoreDir<'_>) -> Result<BTreeMap<String, Group>, CacheError> {
    let mut files = BTreeMap::new();
    for name in store_dir.dir.names()?.into_iter().filter(|name| !name.starts_with('.')) {
        let last_used = Some(store_dir.modified(&name).max(store_dir.accessed(&name)));
        files.insert(name.clone(), Group { bytes: store_dir.bytes_of(&name), last_used, ..Group::default() });
    }
    Ok(files)
}
