//! Listing and evicting entries of the cache.
//!
//! Compiled code is evicted by age and by size, but never while it is in use. Users hold a shared lock on a file while
//! it is open or mapped; preparation holds the lock of its key. The record is removed before the code, so an eviction
//! that is killed in between leaves no image without code. The next eviction removes the remaining files.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::time::{Duration, SystemTime};

use crate::prepared::{RECORD_SUFFIX, StoreDir, is_code_name};
use crate::{ArtefactKey, CacheError, CacheKind, PreparedError, Runtimes};

/// Number and interval of attempts to lock code. A child process that is being started has its parent's files open
/// until it runs its own program.
const LOCK_ATTEMPTS: u32 = 4;
const LOCK_POLL: Duration = Duration::from_millis(2);

/// An entry of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheEntry {
    /// Kind of the entry.
    pub kind: CacheKind,
    /// Common prefix of the entry's file names, or the name of its only file.
    pub name: String,
    /// Size on disk in bytes.
    pub bytes: u64,
    /// Time of the last use. For binaries and packages, as far as the file system records reads.
    pub last_used: SystemTime,
    /// A process has the entry open, or is building it. Always `false` for binaries and packages, which are closed
    /// after reading.
    pub in_use: bool,
}

/// Criteria of an eviction. The default evicts nothing.
#[derive(Clone, Debug, Default)]
pub struct Eviction<'a> {
    /// Evicts entries that have not been used for this long.
    pub max_age: Option<Duration>,
    /// Evicts the least recently used entries until the others take at most this many bytes.
    pub max_bytes: Option<u64>,
    /// Never evicts entries of this key, of any kind, even if that exceeds `max_bytes`.
    pub keep: Option<&'a ArtefactKey>,
    /// Reports the entries that would be removed, without removing them.
    pub dry_run: bool,
}

/// Result of an eviction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evicted {
    /// Entries that were removed, or would be with `dry_run`, least recently used first.
    pub removed: Vec<CacheEntry>,
    /// Entries that stayed because they are in use, or were used since they were listed.
    pub in_use: Vec<CacheEntry>,
}

/// Files of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Group {
    has_record: bool,
    code: Vec<String>,
    bytes: u64,
    last_used: Option<SystemTime>,
}

impl Runtimes {
    /// Returns the entries of these kinds, least recently used first.
    ///
    /// `CacheEntry::in_use` is determined for the kinds that can be evicted.
    pub fn cached(&self, kinds: &[CacheKind]) -> Result<Vec<CacheEntry>, PreparedError> {
        let mut entries = self.entries(kinds)?;
        for entry in entries.iter_mut().filter(|entry| CacheKind::EVICTABLE.contains(&entry.kind)) {
            entry.in_use = self.claim(entry)?.is_none();
        }
        Ok(entries)
    }

    /// Evicts entries of these kinds. Entries in use stay, whatever their age, and so do binaries and packages.
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
            // An entry with a time in the future has age zero.
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

    /// Claims an entry for removal. Returns `None` if it is in use, being built, or has been used since it was listed.
    fn claim(&self, entry: &CacheEntry) -> Result<Option<Claimed<'_>>, PreparedError> {
        let Some(lock) = self.cache().try_lock(&entry.name)? else { return Ok(None) };
        let store_dir = StoreDir::of(self.cache(), entry.kind)?;
        let Some(group) = groups(&store_dir, Some(&entry.name))?.remove(&entry.name) else { return Ok(None) };
        if group.last_used != Some(entry.last_used) {
            return Ok(None);
        }
        let mut held = Vec::new();
        for name in &group.code {
            // A file that is gone, or that this process cannot open either, is unused.
            let Ok(Some((file, _))) = store_dir.dir.open_file(name) else { continue };
            match lock_unused(&file) {
                Ok(true) => held.push(file),
                Ok(false) => return Ok(None),
                Err(error) => return Err(CacheError::io("lock", &store_dir.dir.path_of(name), error).into()),
            }
        }
        Ok(Some(Claimed { store_dir, group, _held: held, _lock: lock }))
    }
}

/// Locks unused code. Returns `false` if it is in use.
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

/// An entry that is not in use. Its locks prevent new uses.
struct Claimed<'a> {
    store_dir: StoreDir<'a>,
    group: Group,
    _held: Vec<File>,
    _lock: crate::CacheLock,
}

impl Claimed<'_> {
    fn remove(self, name: &str) -> Result<(), PreparedError> {
        // The record first: code without a record is ignored, but a record without code would be an error.
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

/// Groups a directory's records and code by key, for all keys or only one. Includes code without a record, which a
/// killed process left, and records of other versions.
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
            // Opening the code updates this time.
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

/// Lists a directory's files, each as a group of its own.
fn files(store_dir: &StoreDir<'_>) -> Result<BTreeMap<String, Group>, CacheError> {
    let mut files = BTreeMap::new();
    for name in store_dir.dir.names()?.into_iter().filter(|name| !name.starts_with('.')) {
        let last_used = Some(store_dir.modified(&name).max(store_dir.accessed(&name)));
        files.insert(name.clone(), Group { bytes: store_dir.bytes_of(&name), last_used, ..Group::default() });
    }
    Ok(files)
}
