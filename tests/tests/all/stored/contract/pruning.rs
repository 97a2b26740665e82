//! Tests pruning by age, count and size.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use glovebox::Timestamp;
use glovebox_sessions::{
    PageRequest, PruneLimits, PruneReason, PruneReport, SessionId, SkipReason, StoredPage, StoredRecord,
};

use super::*;

on_each_store![
    pruning_without_limits_removes_nothing,
    prunes_by_age,
    prunes_by_count,
    prunes_by_bytes,
    dry_run_reports_without_removing,
    sessions_in_use_are_left_alone,
    damaged_sessions_are_removed,
    more_than_a_page_is_pruned,
    pruning_skips_changed_sessions_and_failures,
];

/// Writes the sessions `s1` to `s5`, updated at 1,000 to 5,000 seconds, with states of 100 to 500 bytes.
fn five(place: &dyn TestStore) -> Arc<dyn SessionStore> {
    let store = place.open();
    for n in 1..=5_i64 {
        store_session(&*store, &format!("s{n}"), n * 1_000_000, &vec![0; 100 * usize::try_from(n).unwrap()]);
    }
    store
}

fn prune(edit: impl FnOnce(&mut PruneLimits)) -> PruneLimits {
    let mut prune = PruneLimits::default();
    edit(&mut prune);
    prune
}

fn run(prune: &PruneLimits, store: &dyn SessionStore) -> PruneReport {
    block_on(prune.run(store, Timestamp::from_unix_ms(6_000_000))).unwrap()
}

fn ids(report: &PruneReport) -> Vec<&str> {
    report.deleted.iter().map(|pruned| pruned.id.as_str()).collect()
}

fn left(store: &dyn SessionStore) -> Vec<String> {
    listed(store).into_iter().map(|entry| entry.id.to_string()).collect()
}

/// Removes all sessions before the next round.
fn clear(store: &dyn SessionStore) {
    assert!(run(&prune(|prune| prune.max_count = Some(0)), store).errors.is_empty());
    assert_eq!(left(store), Vec::<String>::new());
}

fn pruning_without_limits_removes_nothing(place: &dyn TestStore) {
    let store = five(place);
    assert_eq!(run(&PruneLimits::default(), &*store), PruneReport::default());
    assert_eq!(left(&*store).len(), 5);
}

fn prunes_by_age(place: &dyn TestStore) {
    // `s3` is 3,000 seconds old.
    for (seconds, expected) in [(3_001, vec!["s1", "s2"]), (3_000, vec!["s1", "s2"]), (2_999, vec!["s1", "s2", "s3"])] {
        let store = five(place);
        let report = run(&prune(|prune| prune.older_than = Some(Duration::from_secs(seconds))), &*store);
        assert_eq!(ids(&report), expected, "{seconds}");
        assert!(report.deleted.iter().all(|pruned| pruned.reason == PruneReason::Age));
        assert_eq!(left(&*store).len(), 5 - expected.len());
        clear(&*store);
    }
}

fn prunes_by_count(place: &dyn TestStore) {
    for (max, expected) in [(6, 0), (5, 0), (4, 1), (0, 5)] {
        let store = five(place);
        let report = run(&prune(|prune| prune.max_count = Some(max)), &*store);
        assert_eq!(ids(&report), ["s1", "s2", "s3", "s4", "s5"][..expected], "{max}");
        assert!(report.deleted.iter().all(|pruned| pruned.reason == PruneReason::Count));
        clear(&*store);
    }
}

fn prunes_by_bytes(place: &dyn TestStore) {
    let store = five(place);
    let sizes: Vec<u64> = listed(&*store).iter().map(|entry| entry.stored_bytes).collect();
    let newest_two = sizes[4] + sizes[3];
    for (max, expected) in [(newest_two + 1, 3), (newest_two, 3), (newest_two - 1, 4), (0, 5)] {
        let report = run(&prune(|prune| (prune.max_bytes, prune.dry_run) = (Some(max), true)), &*store);
        if max == newest_two - 1 {
            // A smaller session may still fit after a larger one does not.
            assert_eq!(ids(&report).last(), Some(&"s4"));
        } else {
            assert_eq!(ids(&report), ["s1", "s2", "s3", "s4", "s5"][..expected], "{max}");
        }
        assert_eq!(report.reclaimed_bytes, report.deleted.iter().map(|pruned| pruned.bytes).sum::<u64>());
        assert!(sizes.iter().sum::<u64>() - report.reclaimed_bytes <= max, "{max}");
    }
}

fn dry_run_reports_without_removing(place: &dyn TestStore) {
    let store = five(place);
    let criteria = prune(|prune| (prune.older_than, prune.max_count) = (Some(Duration::from_secs(4_500)), Some(3)));
    let mut trial = criteria.clone();
    trial.dry_run = true;
    let trial = run(&trial, &*store);
    assert_eq!(left(&*store).len(), 5);
    let real = run(&criteria, &*store);
    assert!(trial.dry_run && !real.dry_run);
    assert_eq!((&trial.deleted, trial.reclaimed_bytes), (&real.deleted, real.reclaimed_bytes));
    let reasons: Vec<PruneReason> = real.deleted.iter().map(|pruned| pruned.reason).collect();
    assert_eq!((ids(&real), reasons), (vec!["s1", "s2"], vec![PruneReason::Age, PruneReason::Count]));
    assert_eq!(left(&*store), ["s3", "s4", "s5"]);
    assert!(real.reclaimed_bytes >= 300);
}

fn sessions_in_use_are_left_alone(place: &dyn TestStore) {
    let store = five(place);
    let lock = lock(&*store, "s2");
    for dry_run in [true, false] {
        let report = run(&prune(|prune| (prune.max_count, prune.dry_run) = (Some(3), dry_run)), &*store);
        assert_eq!(ids(&report), ["s1"]);
        assert_eq!(report.skipped.len(), 1);
        assert_eq!((&report.skipped[0].id, report.skipped[0].reason), (&id("s2"), SkipReason::InUse));
    }
    drop(lock);
    assert_eq!(left(&*store), ["s2", "s3", "s4", "s5"]);
}

fn damaged_sessions_are_removed(place: &dyn TestStore) {
    let store = five(place);
    place.damage(&id("s3"));
    let report = run(&prune(|prune| prune.max_count = Some(0)), &*store);
    assert_eq!((report.deleted.len(), report.errors.len()), (5, 0), "{report:?}");
    assert_eq!(left(&*store), Vec::<String>::new());
}

/// A store with short pages, in which other processes may write at any time.
#[derive(Debug)]
struct ChangingStore {
    store: Arc<dyn SessionStore>,
    page_limit: usize,
    is_busy: bool,
}

#[async_trait]
impl SessionStore for ChangingStore {
    async fn list(&self, page: &PageRequest) -> Result<StoredPage, StoreError> {
        let short = PageRequest::new(page.limit().min(self.page_limit)).unwrap();
        let listed = self.store.list(&short.after(page.begins_after().cloned())).await?;
        if self.is_busy {
            let lock = self.store.try_lock(&id("s1")).await?.unwrap();
            self.store.put(&lock, &ExpectedVersion::Any, &record("s1", 5_999_000, 1), b"x").await?;
        }
        Ok(listed)
    }

    async fn remove(&self, lock: &SessionLock, expected: &ExpectedVersion) -> Result<bool, StoreError> {
        match lock.id().as_str() {
            "s2" if self.is_busy => return Err(StoreError::Other("the disk is on fire".into())),
            // A process that has lost its lock writes after the listing.
            "s3" if self.is_busy => {
                self.store.put(lock, &ExpectedVersion::Any, &record("s3", 5_999_000, 1), b"x").await?;
            }
            _ => {}
        }
        self.store.remove(lock, expected).await
    }

    async fn try_lock(&self, id: &SessionId) -> Result<Option<SessionLock>, StoreError> {
        self.store.try_lock(id).await
    }

    async fn put(
        &self,
        lock: &SessionLock,
        expected: &ExpectedVersion,
        record: &SessionRecord,
        state: &[u8],
    ) -> Result<StoredVersion, StoreError> {
        self.store.put(lock, expected, record, state).await
    }

    async fn get(&self, id: &SessionId) -> Result<Option<StoredSession>, StoreError> {
        self.store.get(id).await
    }

    async fn record(&self, id: &SessionId) -> Result<Option<StoredRecord>, StoreError> {
        self.store.record(id).await
    }
}

fn more_than_a_page_is_pruned(place: &dyn TestStore) {
    let store = ChangingStore { store: five(place), page_limit: 2, is_busy: false };
    for max in [0, 1, 2, 4, 5, 6] {
        assert_eq!(block_on(store.count(max)).unwrap(), max.min(5), "{max}");
    }
    assert_eq!(ids(&run(&prune(|prune| prune.max_count = Some(1)), &store)), ["s1", "s2", "s3", "s4"]);
    assert_eq!(left(&store), ["s5"]);
}

fn pruning_skips_changed_sessions_and_failures(place: &dyn TestStore) {
    let store = ChangingStore { store: five(place), page_limit: 1_000, is_busy: true };
    let report = run(&prune(|prune| prune.max_count = Some(1)), &store);
    assert_eq!(ids(&report), ["s4"]);
    let skipped: Vec<(&str, SkipReason)> =
        report.skipped.iter().map(|skipped| (skipped.id.as_str(), skipped.reason)).collect();
    assert_eq!(skipped, [("s1", SkipReason::Changed), ("s3", SkipReason::Changed)]);
    assert_eq!((report.errors.len(), &report.errors[0].id), (1, &id("s2")));
    assert_eq!(left(&*store.store), ["s1", "s2", "s3", "s5"]);
}
