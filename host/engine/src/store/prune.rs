//! Removing sessions that nobody needs any more.

use std::{collections::BTreeMap, time::Duration};

use super::{
    PruneError, PruneReason, PruneReport, PruneSkip, Pruned, SessionStore, SkipReason, StoreError, StoredEntry,
};
use crate::{Timestamp, events};

/// Which sessions to remove: those over any of the limits that are set. Default: none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prune {
    /// Those that were last written longer ago than this.
    pub older_than: Option<Duration>,
    /// All but so many of those written last.
    pub max_count: Option<usize>,
    /// Those that do not fit so many bytes any more, counted from the one written last.
    pub max_bytes: Option<u64>,
    /// Only find out what would be removed.
    pub dry_run: bool,
}

impl Prune {
    /// Removes sessions from a store. One that is in use is left alone. Damaged ones go by the time of their file, as do
    /// those whose record names a time to come.
    pub fn run(&self, store: &dyn SessionStore, now: Timestamp) -> Result<PruneReport, StoreError> {
        let mut report = PruneReport { dry_run: self.dry_run, ..PruneReport::default() };
        for (entry, reason) in self.choose(store.list()?, now) {
            let id = entry.id.clone();
            match self.remove(store, &entry) {
                Ok(None) => {
                    report.reclaimed_bytes = report.reclaimed_bytes.saturating_add(entry.stored_bytes);
                    let pruned = Pruned { id, bytes: entry.stored_bytes, reason };
                    events::pruned(&pruned, self.dry_run);
                    report.deleted.push(pruned);
                }
                Ok(Some(reason)) => report.skipped.push(PruneSkip { id, reason }),
                Err(error) => report.errors.push(PruneError { id, message: error.to_string() }),
            }
        }
        events::prune_complete(&report);
        Ok(report)
    }

    /// The sessions over a limit, the oldest first.
    fn choose(&self, entries: Vec<StoredEntry>, now: Timestamp) -> Vec<(StoredEntry, PruneReason)> {
        // By time and name: the same choice every time.
        let by_time: BTreeMap<_, _> =
            entries.into_iter().map(|entry| ((written_at(&entry, now), entry.id.clone()), entry)).collect();
        let (mut count, mut bytes) = (0_usize, 0_u64);
        let mut chosen = Vec::new();
        for ((updated_at, _), entry) in by_time.into_iter().rev() {
            let with = bytes.saturating_add(entry.stored_bytes);
            let reason = if self.older_than.is_some_and(|most| now.since(updated_at) > most) {
                PruneReason::Age
            } else if self.max_count.is_some_and(|most| count >= most) {
                PruneReason::Count
            } else if self.max_bytes.is_some_and(|most| with > most) {
                PruneReason::Bytes
            } else {
                (count, bytes) = (count + 1, with);
                continue;
            };
            chosen.push((entry, reason));
        }
        chosen.reverse();
        chosen
    }

    fn remove(&self, store: &dyn SessionStore, entry: &StoredEntry) -> Result<Option<SkipReason>, StoreError> {
        let Some(lock) = store.try_lock(&entry.id)? else { return Ok(Some(SkipReason::InUse)) };
        let is_as_listed = match store.record(&entry.id) {
            Ok(record) => record == entry.record,
            Err(StoreError::Damaged { .. }) => entry.record.is_none(),
            // What cannot even be opened is not known to be anything else.
            Err(error) if entry.record.is_some() => return Err(error),
            Err(_) => true,
        };
        if !is_as_listed {
            return Ok(Some(SkipReason::Changed));
        }
        if !self.dry_run {
            store.remove(&lock)?;
        }
        Ok(None)
    }
}

/// When a session was last written. A record that names a time to come is wrong, and would never grow old: the store knows
/// better.
fn written_at(entry: &StoredEntry, now: Timestamp) -> Timestamp {
    let updated_at = entry.updated_at();
    if updated_at > now { entry.stored_at.min(now) } else { updated_at }
}
