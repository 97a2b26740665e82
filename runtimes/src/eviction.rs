//! What the cache holds, and what of it goes to make room.
//!
//! Compiled code is evicted by age and by bytes, never while it is in use: whoever opens it holds a shared lock on its file as long
//! as the file is open or mapped, and who prepares it holds its key's lock. The record goes first and the code after it, so
//! that killing the process in between leaves nothing that could be taken for an image; what it leaves goes the next time.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use crate::prepared::{RECORD_SUFFIX, Shelf, is_code_name};
use crate::{ArtefactKey, CacheError, PreparedError, Runtimes};

/// How often, and how long after each other, code is asked for its lock: a child that a thread is just starting has all of its
/// parent's files open until it runs its own program.
const LOCK_ATTEMPTS: u32 = 4;
const LOCK_POLL: Duration = Duration::from_millis(2);

/// What the cache keeps apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CacheKind {
    /// Binaries of interpreters and tools, as they were fetched.
    Binaries,
    /// Wheels of the bundled packages, as they were fetched.
    Packages,
    /// Prepared images, compiled.
    Images,
    /// Prepared modules, as WebAssembly.
    Modules,
    /// Compiled components.
    Components,
}

impl CacheKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Binaries, Self::Packages, Self::Images, Self::Modules, Self::Components];

    /// Those that can be made again without the network, which [`Runtimes::evict`] may remove.
    pub const EVICTABLE: [Self; 3] = [Self::Images, Self::Modules, Self::Components];

    /// The directory in the cache.
    pub(crate) fn directory(self) -> &'static str {
        match self {
            Self::Binaries => "binaries",
            Self::Packages => "packages",
            Self::Images => "prepared",
            Self::Modules => "modules",
            Self::Components => "components",
        }
    }
}

/// One thing in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheEntry {
    /// What it is.
    pub kind: CacheKind,
    /// How its files' names begin, or its file's name.
    pub name: String,
    /// What it takes on disk.
    pub bytes: u64,
    /// When it was last used. Of binaries and packages as far as the file system notes when a file is read.
    pub last_used: SystemTime,
    /// Whether a process has it open, or is making it. Always `false` for binaries and packages, which are read and closed.
    pub in_use: bool,
}

/// What is to be evicted. Nothing by default.
#[derive(Clone, Debug, Default)]
pub struct Eviction<'a> {
    /// What has not been used for so long.
    pub max_age: Option<Duration>,
    /// What was used longest ago, until the rest takes at most so many bytes.
    pub max_bytes: Option<u64>,
    /// Stays in any case, of each kind, so that there may be more than `max_bytes`.
    pub keep: Option<&'a ArtefactKey>,
    /// Removes nothing and reports what would be removed.
    pub dry_run: bool,
}

/// What an eviction removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evicted {
    /// What went, or would go, the longest unused first.
    pub removed: Vec<CacheEntry>,
    /// What would have gone but is in use, or was used while this ran.
    pub in_use: Vec<CacheEntry>,
}

/// The files of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Group {
    has_record: bool,
    code: Vec<String>,
    bytes: u64,
    last_used: Option<SystemTime>,
}

impl Runtimes {
    /// What the cache holds of these kinds, the longest unused first.
    pub fn cached(&self, kinds: &[CacheKind]) -> Result<Vec<CacheEntry>, PreparedError> {
        let mut entries = self.entries(kinds)?;
        for entry in entries.iter_mut().filter(|entry| CacheKind::EVICTABLE.contains(&entry.kind)) {
            entry.in_use = self.claim(entry)?.is_none();
        }
        Ok(entries)
    }

    /// Evicts compiled code. What is in use stays, whatever its age, and so do binaries and packages.
    pub fn evict(&self, kinds: &[CacheKind], eviction: &Eviction<'_>) -> Result<Evicted, PreparedError> {
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
        let mut evicted = Evicted::default();
        for entry in entries.into_iter().filter(|entry| keep.as_ref() != Some(&entry.name)) {
            // What is from the future is not old.
            let age = now.duration_since(entry.last_used).unwrap_or_default();
            let is_due = eviction.max_age.is_some_and(|most| age >= most)
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
            let shelf = Shelf::of(self.cache(), *kind)?;
            let groups = match kind {
                CacheKind::Binaries | CacheKind::Packages => files(&shelf)?,
                _ => groups(&shelf, None)?,
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

    /// Takes an entry for its removal; `None` while somebody uses it or is making it, or where it was used since it was listed.
    fn claim(&self, entry: &CacheEntry) -> Result<Option<Claimed<'_>>, PreparedError> {
        let Some(lock) = self.cache().try_lock(&entry.name)? else { return Ok(None) };
        let shelf = Shelf::of(self.cache(), entry.kind)?;
        let Some(group) = groups(&shelf, Some(&entry.name))?.remove(&entry.name) else { return Ok(None) };
        if group.last_used != Some(entry.last_used) {
            return Ok(None);
        }
        let mut held = Vec::new();
        for name in &group.code {
            // What is gone, or cannot be opened by us either, is in nobody's use.
            let Ok(Some((file, _))) = shelf.dir.open_file(name) else { continue };
            match lock_unused(&file) {
                Ok(true) => held.push(file),
                Ok(false) => return Ok(None),
                Err(error) => return Err(CacheError::io("lock", &shelf.dir.path_of(name), error).into()),
            }
        }
        Ok(Some(Claimed { shelf, group, _held: held, _lock: lock }))
    }
}

/// Locks code that nobody uses; `false` while somebody does.
fn lock_unused(code: &File) -> io::Result<bool> {
    for _ in 0..LOCK_ATTEMPTS {
        match code.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_POLL),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(false)
}

/// An entry that nobody uses and nobody can begin to use.
struct Claimed<'a> {
    shelf: Shelf<'a>,
    group: Group,
    _held: Vec<File>,
    _lock: crate::CacheLock,
}

impl Claimed<'_> {
    fn remove(self, name: &str) -> Result<(), PreparedError> {
        // The record first: code without a record is unused, a record without code would be a lie.
        if self.group.has_record {
            self.shelf.dir.remove(&format!("{name}{RECORD_SUFFIX}"))?;
        }
        for code in &self.group.code {
            self.shelf.remove(code)?;
        }
        tracing::debug!(name, bytes = self.group.bytes, "evicted from the cache");
        Ok(())
    }
}

/// A directory's records and code by key, all or those of one: also code without a record, which a killed process left, and
/// records of other versions.
fn groups(shelf: &Shelf<'_>, only: Option<&str>) -> Result<BTreeMap<String, Group>, CacheError> {
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for name in shelf.dir.names()? {
        let record = name.strip_suffix(RECORD_SUFFIX).filter(|stem| !stem.starts_with('.'));
        let code = name.strip_suffix(".cwasm").and_then(|name| Some(name.rsplit_once('-')?.0));
        let Some(stem) = record.or(code.filter(|_| is_code_name(&name))) else { continue };
        if only.is_some_and(|only| only != stem) {
            continue;
        }
        let group = groups.entry(stem.to_owned()).or_default();
        group.bytes = group.bytes.saturating_add(shelf.bytes_of(&name));
        if record.is_some() {
            // What opens the code notes it here.
            group.has_record = true;
            group.last_used = Some(shelf.modified(&name));
        } else {
            if !group.has_record {
                group.last_used = group.last_used.max(Some(shelf.modified(&name)));
            }
            group.code.push(name);
        }
    }
    Ok(groups)
}

/// A directory's files, each by itself.
fn files(shelf: &Shelf<'_>) -> Result<BTreeMap<String, Group>, CacheError> {
    let mut files = BTreeMap::new();
    for name in shelf.dir.names()?.into_iter().filter(|name| !name.starts_with('.')) {
        let last_used = Some(shelf.modified(&name).max(shelf.accessed(&name)));
        files.insert(name.clone(), Group { bytes: shelf.bytes_of(&name), last_used, ..Group::default() });
    }
    Ok(files)
}
