//! The cache of compiled code: filling, measuring and pruning.

use std::{cell::Cell, collections::BTreeMap, time::Duration};

use glovebox_runtimes::{Artefact, ArtefactKey, BuildError, CacheEntry, CacheKind, Eviction, NewArtefact};
use serde::Serialize;

use crate::{CacheLimits, Engine, RuntimeError, Timestamp, engine::EngineInner};

impl CacheLimits {
    /// Groups of kinds, each with the limit that the group shares.
    fn shared(&self) -> [(&'static [CacheKind], u64); 2] {
        [
            (&[CacheKind::Code, CacheKind::Images, CacheKind::Modules], self.image_bytes),
            (&[CacheKind::Components], self.component_bytes),
        ]
    }
}

/// Usage of the cache by entries of one kind.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CacheUsage {
    /// Kind of the entries.
    pub kind: CacheKind,
    /// Number of entries, for any version and settings.
    pub count: u64,
    /// Number of entries that some process has open now. Binaries and packages are never counted, because they are
    /// closed once they are read.
    pub in_use: u64,
    /// Size on disk, in bytes.
    pub bytes: u64,
    /// Time of the last use of an entry. For binaries and packages, the file system's access time.
    pub last_used: Option<Timestamp>,
}

/// Selects compiled code to remove from the cache. Start from `default()`, which applies the engine's [`CacheLimits`],
/// and change individual fields.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct CachePrune {
    /// Removes entries that were not used for this long. If this or `max_bytes` is set, the engine's own limits do not
    /// apply.
    pub older_than: Option<Duration>,
    /// Removes the least recently used code until all kinds together take at most this many bytes.
    pub max_bytes: Option<u64>,
    /// Removes nothing, and reports the entries that would be removed.
    pub dry_run: bool,
}

/// A cache entry that was pruned, or is in use.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CachePruned {
    /// Kind of the entry.
    pub kind: CacheKind,
    /// Common prefix of the names of its files.
    pub name: String,
    /// Size on disk, in bytes.
    pub bytes: u64,
    /// Time of its last use.
    pub last_used: Timestamp,
}

/// Result of pruning.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct CachePruneReport {
    /// Entries that were removed, or would be in a dry run.
    pub removed: Vec<CachePruned>,
    /// Entries that would have been removed, but are in use.
    pub in_use: Vec<CachePruned>,
    /// Bytes freed on disk, or the bytes that would be freed in a dry run.
    pub freed_bytes: u64,
    /// `true` for a dry run: nothing was removed.
    pub dry_run: bool,
}

impl From<CacheEntry> for CachePruned {
    fn from(entry: CacheEntry) -> Self {
        Self { kind: entry.kind, name: entry.name, bytes: entry.bytes, last_used: entry.last_used.into() }
    }
}

impl Engine {
    /// Returns the usage of the cache, kind by kind.
    pub fn cache_usage(&self) -> Result<Vec<CacheUsage>, RuntimeError> {
        let empty = |kind| (kind, CacheUsage { kind, count: 0, in_use: 0, bytes: 0, last_used: None });
        let mut usages: BTreeMap<CacheKind, CacheUsage> = CacheKind::ALL.into_iter().map(empty).collect();
        for entry in self.0.runtimes.cached(&CacheKind::ALL)? {
            let Some(usage) = usages.get_mut(&entry.kind) else { continue };
            usage.count += 1;
            usage.in_use += u64::from(entry.in_use);
            usage.bytes = usage.bytes.saturating_add(entry.bytes);
            usage.last_used = usage.last_used.max(Some(entry.last_used.into()));
        }
        Ok(usages.into_values().collect())
    }

    /// Removes compiled code from the cache: prepared images, prepared modules and compiled components. Code that is in
    /// use, here or in another process, stays. Removed code is rebuilt at its next use, without the network.
    pub fn prune_cache(&self, prune: &CachePrune) -> Result<CachePruneReport, RuntimeError> {
        let CachePrune { older_than, max_bytes, dry_run } = *prune;
        let evict = |kinds: &[CacheKind], max_age, max_bytes| {
            self.0.runtimes.evict(kinds, &Eviction { max_age, max_bytes, keep: None, dry_run })
        };
        let limits = &self.0.cache;
        let evicted = match (older_than, max_bytes) {
            (None, None) => {
                let shared = limits.shared();
                let each = shared.iter().map(|(kinds, bytes)| evict(kinds, Some(limits.max_age), Some(*bytes)));
                each.collect::<Result<Vec<_>, _>>()?
            }
            _ => vec![evict(&CacheKind::EVICTABLE, older_than, max_bytes)?],
        };
        let mut report = CachePruneReport { dry_run, ..CachePruneReport::default() };
        for evicted in evicted {
            report.removed.extend(evicted.removed.into_iter().map(CachePruned::from));
            report.in_use.extend(evicted.in_use.into_iter().map(CachePruned::from));
        }
        report.freed_bytes = report.removed.iter().fold(0, |sum, pruned| sum.saturating_add(pruned.bytes));
        Ok(report)
    }
}

impl EngineInner {
    /// Returns the artefact with this key from the cache, and builds it first if it is missing. Only a new artefact
    /// makes room, because making room reads the whole cache directory.
    pub(crate) fn open_or_build<E>(
        &self,
        kind: CacheKind,
        key: &ArtefactKey,
        build: impl FnOnce() -> Result<NewArtefact, E>,
    ) -> Result<Artefact, BuildError<E>> {
        let is_new = Cell::new(false);
        let artefact = self.runtimes.compiled(kind).open_or_build(key, &*self.progress, || {
            is_new.set(true);
            build()
        })?;
        if is_new.get() {
            self.make_room(kind, key);
        }
        Ok(artefact)
    }

    fn make_room(&self, kind: CacheKind, keep: &ArtefactKey) {
        let shared = self.cache.shared().into_iter().find(|(kinds, _)| kinds.contains(&kind));
        let Some((kinds, max_bytes)) = shared else { return };
        let eviction = Eviction {
            max_age: Some(self.cache.max_age),
            max_bytes: Some(max_bytes),
            keep: Some(keep),
            dry_run: false,
        };
        // The artefact is open already, so a failure here has no effect on the caller.
        if let Err(error) = self.runtimes.evict(kinds, &eviction) {
            tracing::warn!(error = &error as &dyn std::error::Error, "the cache cannot make room");
        }
    }
}
