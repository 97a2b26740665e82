//! Pruning by age, count and bytes.

use std::time::Duration;

use super::*;
use crate::Timestamp;

/// Sessions `s1` to `s5`, last written at 1,000 to 5,000 seconds, each state as many hundred bytes as its number says.
fn five() -> Fixture {
    let fixture = Fixture::new();
    for n in 1..=5_u64 {
        fixture.put(&format!("s{n}"), n * 1_000_000, &vec![0; 100 * usize::try_from(n).unwrap()]);
    }
    fixture
}

fn now() -> Timestamp {
    Timestamp::from_unix_ms(6_000_000)
}

fn ids(report: &PruneReport) -> Vec<&str> {
    report.deleted.iter().map(|pruned| pruned.id.as_str()).collect()
}

fn left(fixture: &Fixture) -> Vec<String> {
    fixture.store.list().unwrap().into_iter().map(|entry| entry.id.to_string()).collect()
}

#[test]
fn nothing_asked_nothing_removed() {
    let fixture = five();
    let report = Prune::default().run(&fixture.store, now()).unwrap();
    assert_eq!(report, PruneReport::default());
    assert_eq!(left(&fixture).len(), 5);
}

#[test]
fn by_age() {
    // `s3` is 3,000 seconds old.
    for (seconds, expected) in [(3_001, vec!["s1", "s2"]), (3_000, vec!["s1", "s2"]), (2_999, vec!["s1", "s2", "s3"])] {
        let fixture = five();
        let prune = Prune { older_than: Some(Duration::from_secs(seconds)), ..Prune::default() };
        let report = prune.run(&fixture.store, now()).unwrap();
        assert_eq!(ids(&report), expected, "{seconds}");
        assert!(report.deleted.iter().all(|pruned| pruned.reason == PruneReason::Age));
        assert_eq!(left(&fixture).len(), 5 - expected.len());
    }
}

#[test]
fn by_count() {
    for (most, expected) in [(6, 0), (5, 0), (4, 1), (0, 5)] {
        let fixture = five();
        let report = Prune { max_count: Some(most), ..Prune::default() }.run(&fixture.store, now()).unwrap();
        assert_eq!(ids(&report), ["s1", "s2", "s3", "s4", "s5"][..expected], "{most}");
        assert!(report.deleted.iter().all(|pruned| pruned.reason == PruneReason::Count));
    }
}

#[test]
fn by_bytes() {
    let fixture = five();
    let listed = fixture.store.list().unwrap();
    let sizes: Vec<u64> = listed.iter().map(|entry| entry.stored_bytes).collect();
    assert!(listed.iter().all(|entry| entry.stored_bytes > entry.record.as_ref().unwrap().bytes), "with their records");
    let newest_two = sizes[4] + sizes[3];
    for (most, expected) in [(newest_two + 1, 3), (newest_two, 3), (newest_two - 1, 4), (0, 5)] {
        let report = Prune { max_bytes: Some(most), dry_run: true, ..Prune::default() };
        let report = report.run(&fixture.store, now()).unwrap();
        let fit_later = most == newest_two - 1;
        if fit_later {
            // What is smaller than the one that does not fit may still.
            assert_eq!(ids(&report).last(), Some(&"s4"));
        } else {
            assert_eq!(ids(&report), ["s1", "s2", "s3", "s4", "s5"][..expected], "{most}");
        }
        assert_eq!(report.reclaimed_bytes, report.deleted.iter().map(|pruned| pruned.bytes).sum::<u64>());
        assert!(sizes.iter().sum::<u64>() - report.reclaimed_bytes <= most, "{most}");
    }
}

#[test]
fn a_dry_run_says_the_same_and_does_nothing() {
    let fixture = five();
    let prune = Prune { older_than: Some(Duration::from_secs(4_500)), max_count: Some(3), ..Prune::default() };
    let dry = Prune { dry_run: true, ..prune.clone() }.run(&fixture.store, now()).unwrap();
    assert_eq!(left(&fixture).len(), 5);
    let real = prune.run(&fixture.store, now()).unwrap();
    assert!(dry.dry_run && !real.dry_run);
    assert_eq!(PruneReport { dry_run: false, ..dry }, real);
    let reasons: Vec<PruneReason> = real.deleted.iter().map(|pruned| pruned.reason).collect();
    assert_eq!((ids(&real), reasons), (vec!["s1", "s2"], vec![PruneReason::Age, PruneReason::Count]));
    assert_eq!(left(&fixture), ["s3", "s4", "s5"]);
    assert!(real.reclaimed_bytes > 300);
}

#[test]
fn sessions_in_use_are_left_alone() {
    let fixture = five();
    let lock = fixture.store.try_lock(&id("s2")).unwrap().unwrap();
    for dry_run in [true, false] {
        let prune = Prune { max_count: Some(3), dry_run, ..Prune::default() };
        let report = prune.run(&fixture.store, now()).unwrap();
        assert_eq!(ids(&report), ["s1"]);
        assert_eq!(report.skipped, [PruneSkip { id: id("s2"), reason: SkipReason::InUse }]);
    }
    drop(lock);
    assert_eq!(left(&fixture), ["s2", "s3", "s4", "s5"]);
}

#[test]
fn damaged_sessions_go_by_their_files_time() {
    let fixture = five();
    let path = fixture.file("s5");
    fs::write(&path, "damaged").unwrap();
    let set = |ms: u64| {
        let time = std::time::UNIX_EPOCH + Duration::from_millis(ms);
        fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    };
    let prune = Prune { older_than: Some(Duration::from_secs(5_500)), ..Prune::default() };
    set(5_000_000);
    assert_eq!(ids(&prune.run(&fixture.store, now()).unwrap()), Vec::<&str>::new());
    set(1_000);
    assert_eq!(ids(&prune.run(&fixture.store, now()).unwrap()), ["s5"]);
    assert_eq!(left(&fixture), ["s1", "s2", "s3", "s4"]);
}

#[test]
fn a_time_to_come_keeps_no_session_young() {
    let far = 253_370_764_800_000; // The year 9999.
    for (at, stands) in [(6_000_000, true), (6_000_001, false), (far, false)] {
        let fixture = five();
        fixture.put("s0", at, b"x");
        let time = std::time::UNIX_EPOCH + Duration::from_secs(500);
        fs::File::options().write(true).open(fixture.file("s0")).unwrap().set_modified(time).unwrap();
        let by_age = Prune { older_than: Some(Duration::from_secs(5_250)), dry_run: true, ..Prune::default() };
        let by_count = Prune { max_count: Some(5), dry_run: true, ..Prune::default() };
        let chosen = [by_age, by_count].map(|prune| ids(&prune.run(&fixture.store, now()).unwrap()).join(" "));
        assert_eq!(chosen, if stands { ["", "s1"] } else { ["s0", "s0"] }, "{at}");
    }
}

/// A store whose sessions are written again as soon as they have been listed.
#[derive(Debug)]
struct Busy(DirectoryStore);

impl SessionStore for Busy {
    fn list(&self) -> Result<Vec<StoredEntry>, StoreError> {
        let listed = self.0.list()?;
        let lock = self.0.try_lock(&id("s1"))?.unwrap();
        self.0.put(&lock, &record("s1", 5_999_000, 1), b"x")?;
        Ok(listed)
    }

    fn remove(&self, lock: &SessionLock) -> Result<bool, StoreError> {
        if lock.id().as_str() == "s2" {
            return Err(StoreError::Other("the disk is on fire".into()));
        }
        self.0.remove(lock)
    }

    fn try_lock(&self, id: &SessionId) -> Result<Option<SessionLock>, StoreError> {
        self.0.try_lock(id)
    }

    fn put(&self, lock: &SessionLock, record: &SessionRecord, state: &[u8]) -> Result<(), StoreError> {
        self.0.put(lock, record, state)
    }

    fn get(&self, id: &SessionId) -> Result<Option<StoredSession>, StoreError> {
        self.0.get(id)
    }

    fn record(&self, id: &SessionId) -> Result<Option<SessionRecord>, StoreError> {
        self.0.record(id)
    }
}

#[test]
fn what_changed_meanwhile_stays_and_one_failure_does_not_stop_the_rest() {
    let fixture = five();
    let busy = Busy(DirectoryStore::open(fixture.store.path()).unwrap());
    let report = Prune { max_count: Some(1), ..Prune::default() }.run(&busy, now()).unwrap();
    assert_eq!(ids(&report), ["s3", "s4"]);
    assert_eq!(report.skipped, [PruneSkip { id: id("s1"), reason: SkipReason::Changed }]);
    assert_eq!(report.errors[0].id, id("s2"));
    assert_eq!(left(&fixture), ["s1", "s2", "s5"]);
}
