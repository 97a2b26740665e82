//! Pruning by the times of a directory's files.

use std::time::Duration;

use super::*;

/// Sessions `s1` to `s5`, last written at 1,000 to 5,000 seconds. The state of session N has N hundred bytes.
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
    listed(&fixture.store).into_iter().map(|entry| entry.id.to_string()).collect()
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
    assert_eq!(ids(&block_on(prune.run(&fixture.store, now())).unwrap()), Vec::<&str>::new());
    set(1_000);
    assert_eq!(ids(&block_on(prune.run(&fixture.store, now())).unwrap()), ["s5"]);
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
        let chosen =
            [by_age, by_count].map(|prune| ids(&block_on(prune.run(&fixture.store, now())).unwrap()).join(" "));
        assert_eq!(chosen, if stands { ["", "s1"] } else { ["s0", "s0"] }, "{at}");
    }
}
