//! Tests of the directory store. `tests/tests/all/stored` tests the behaviour that all stores share.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use glovebox::{
    Language, Timestamp,
    mount::{GuardedDirectory, MountError},
};
use tempfile::{TempDir, tempdir};

use super::*;

fn id(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

fn record(name: &str, updated_ms: u64, bytes: usize) -> SessionRecord {
    SessionRecord {
        id: id(name),
        created_at: Timestamp::from_unix_ms(1_000),
        updated_at: Timestamp::from_unix_ms(updated_ms),
        language: Language::Python,
        runtime: "python-3.12".into(),
        version: Some("3.12.0".into()),
        image_sha256: "ab".repeat(32),
        executions: 3,
        generation: 4,
        files: Some(2),
        workspace: None,
        bytes: bytes as u64,
    }
}

struct Fixture {
    dir: TempDir,
    store: DirectoryStore,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempdir().unwrap();
        let store = DirectoryStore::open(dir.path().join("sessions")).unwrap();
        Self { dir, store }
    }

    fn put(&self, name: &str, updated_ms: u64, state: &[u8]) -> StoredVersion {
        let lock = lock(&self.store, name);
        block_on(self.store.put(&lock, &ExpectedVersion::Any, &record(name, updated_ms, state.len()), state)).unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.store.path().join(format!("{name}.session"))
    }

    fn names(&self) -> Vec<String> {
        names(self.store.path())
    }
}

fn lock(store: &DirectoryStore, name: &str) -> SessionLock {
    block_on(store.try_lock(&id(name))).unwrap().unwrap()
}

fn listed(store: &DirectoryStore) -> Vec<StoredEntry> {
    let mut pages = Pages::new(store);
    let mut all = Vec::new();
    while let Some(entries) = block_on(pages.next()).unwrap() {
        all.extend(entries);
    }
    all
}

fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn session_is_stored_in_one_file() {
    let fixture = Fixture::new();
    fixture.put("a", 5_000, b"first\nstate");
    fixture.put("a", 6_000, b"");
    assert_eq!(fixture.names(), ["a.session"], "no lock files and no temporary files remain");
    let lock = lock(&fixture.store, "a");
    let fenced =
        block_on(fixture.store.put(&lock, &ExpectedVersion::Absent, &record("a", 7_000, 1), b"x")).unwrap_err();
    assert!(matches!(fenced, StoreError::Fenced { .. }), "{fenced}");
    assert_eq!(fixture.names(), [".lock-a", "a.session"], "the rejected write left a file");
    assert!(block_on(fixture.store.remove(&lock, &ExpectedVersion::Any)).unwrap());
    drop(lock);
    assert!(fixture.names().is_empty());
}

#[test]
fn the_record_is_text_at_the_head_of_the_file() {
    let fixture = Fixture::new();
    fixture.put("a", 5_000, b"\xff\x00");
    let file = fs::read(fixture.file("a")).unwrap();
    let text = String::from_utf8_lossy(&file).into_owned();
    let mut lines = text.lines();
    assert!(lines.next().unwrap().starts_with("glovebox-session 2 "));
    let record: serde_json::Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    let expected = serde_json::json!({
        "id": "a", "created_at": "1970-01-01T00:00:01.000Z", "updated_at": "1970-01-01T00:00:05.000Z",
        "language": "python", "runtime": "python-3.12", "version": "3.12.0", "image_sha256": "ab".repeat(32),
        "executions": 3, "generation": 4, "files": 2, "bytes": 2,
    });
    assert_eq!(record, expected);
}

#[test]
fn each_write_has_a_new_version() {
    let fixture = Fixture::new();
    let lock = lock(&fixture.store, "a");
    let put =
        |expected: &ExpectedVersion| block_on(fixture.store.put(&lock, expected, &record("a", 5_000, 5), b"state"));
    let version = ExpectedVersion::Version(put(&ExpectedVersion::Absent).unwrap());
    put(&version).unwrap();
    assert!(matches!(put(&version), Err(StoreError::Fenced { .. })), "even with the same record");
}

#[test]
fn store_files_are_private() {
    let fixture = Fixture::new();
    fixture.put("a", 5_000, b"x");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(fixture.store.path()), 0o700);
    assert_eq!(mode(&fixture.file("a")), 0o600);

    fs::set_permissions(fixture.store.path(), fs::Permissions::from_mode(0o770)).unwrap();
    let error = DirectoryStore::open(fixture.store.path()).unwrap_err();
    assert!(error.to_string().contains("is writable by other users"), "{error}");
    let link = fixture.dir.path().join("link");
    symlink(fixture.store.path(), &link).unwrap();
    let error = DirectoryStore::open(&link).unwrap_err();
    assert!(error.to_string().contains("symbolic link"), "{error}");
}

#[test]
fn link_instead_of_a_session_is_not_followed() {
    let fixture = Fixture::new();
    let outside = fixture.dir.path().join("precious");
    fs::write(&outside, "precious").unwrap();
    symlink(&outside, fixture.file("a")).unwrap();
    assert!(block_on(fixture.store.get(&id("a"))).is_err());
    let listed = listed(&fixture.store);
    assert!(listed[0].damage.as_deref().unwrap().contains("symbolic link"), "{listed:?}");
    fixture.put("a", 5_000, b"x");
    assert_eq!(fs::read(&outside).unwrap(), b"precious");
    assert_eq!(block_on(fixture.store.get(&id("a"))).unwrap().unwrap().state, b"x");
}

#[test]
fn every_damaged_header_byte_is_detected() {
    let fixture = Fixture::new();
    fixture.put("bad", 5_000, b"state");
    fixture.put("good", 5_000, b"state");
    let whole = fs::read(fixture.file("bad")).unwrap();
    let state_begins = whole.len() - 5;
    let check = |bytes: &[u8], what: &str| {
        fs::write(fixture.file("bad"), bytes).unwrap();
        let error = block_on(fixture.store.get(&id("bad"))).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{what}: {error}");
        assert!(block_on(fixture.store.record(&id("bad"))).is_err(), "{what}");
        let listed = listed(&fixture.store);
        assert_eq!(listed.len(), 2, "{what}");
        assert!(listed[0].record.is_none() && listed[0].damage.is_some(), "{what}");
        assert_eq!(listed[0].stored_bytes, bytes.len() as u64, "{what}");
        assert!(listed[1].record.is_some(), "{what}");
    };
    for at in 0..state_begins {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        check(&damaged, &format!("byte {at}"));
    }
    for length in 0..whole.len() {
        check(&whole[..length], &format!("cut at {length}"));
    }
    check(&[&whole[..], b"x"].concat(), "longer");
    check(&vec![b'\n'; 1 << 20], "long and empty");
    check(&fs::read(fixture.file("good")).unwrap(), "another session's");
    let newer = String::from_utf8(whole.clone()).unwrap().replacen("session 2 ", "session 3 ", 1);
    fs::write(fixture.file("bad"), newer).unwrap();
    let error = block_on(fixture.store.get(&id("bad"))).unwrap_err();
    assert!(matches!(error, StoreError::Format { found: 3, known: 2, .. }), "{error}");
    assert!(error.to_string().ends_with("use the Glovebox version that wrote the session"), "{error}");
    assert!(listed(&fixture.store)[0].damage.as_deref().unwrap().contains("format version 3"));

    // A damaged session can be overwritten and removed.
    fixture.put("bad", 6_000, b"again");
    assert_eq!(block_on(fixture.store.get(&id("bad"))).unwrap().unwrap().state, b"again");
    fs::write(fixture.file("bad"), "damaged").unwrap();
    let lock = lock(&fixture.store, "bad");
    let version = ExpectedVersion::Version(StoredVersion::random());
    for expected in [&ExpectedVersion::Absent, &version] {
        block_on(fixture.store.put(&lock, expected, &record("bad", 7_000, 1), b"x")).unwrap_err();
        block_on(fixture.store.remove(&lock, expected)).unwrap_err();
    }
    assert_eq!(fs::read(fixture.file("bad")).unwrap(), b"damaged");
    assert!(block_on(fixture.store.remove(&lock, &ExpectedVersion::Any)).unwrap());
    assert_eq!(listed(&fixture.store).len(), 1);
}

#[test]
fn foreign_files_are_left_alone() {
    let fixture = Fixture::new();
    for name in ["notes.txt", ".session", "a b.session", ".hidden.session", "session"] {
        fs::write(fixture.store.path().join(name), "mine").unwrap();
    }
    fs::create_dir(fixture.store.path().join("dir.session")).unwrap();
    let before = fixture.names();
    fixture.put("a", 5_000, b"x");
    let store = DirectoryStore::open(fixture.store.path()).unwrap();
    let listed = listed(&store);
    let ids: Vec<&str> = listed.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids, ["a", "dir"]);
    assert!(listed[1].damage.is_some(), "a directory is not a session");
    assert_eq!(fixture.names().len(), before.len() + 1);
}

#[test]
fn files_of_killed_writers_are_removed() {
    let fixture = Fixture::new();
    fixture.put("a", 5_000, b"x");
    let old = std::time::SystemTime::now() - Duration::from_secs(120);
    let leave = |name: &str| {
        let file = fs::File::create(fixture.store.path().join(name)).unwrap();
        file.set_modified(old).unwrap();
    };
    leave(".tmp-1-2-3");
    leave(".lock-a");
    leave(".lock-gone");
    fs::write(fixture.store.path().join(".tmp-new"), "being written").unwrap();
    DirectoryStore::open(fixture.store.path()).unwrap();
    assert_eq!(fixture.names(), [".tmp-new", "a.session"]);
}

#[test]
fn ten_thousand_sessions_are_listed_in_a_second() {
    let fixture = Fixture::new();
    let state = vec![7; 2_000];
    for n in 0..10_000 {
        let stored = record(&format!("session-{n:05}"), n, state.len());
        let file = [directory::encode_head(&stored, &StoredVersion::random()), state.clone()].concat();
        fs::write(fixture.file(stored.id.as_str()), file).unwrap();
    }
    let list = || {
        let begun = Instant::now();
        let listed = listed(&fixture.store);
        assert!(listed.len() == 10_000 && listed.iter().all(|entry| entry.record.is_some()));
        begun.elapsed()
    };
    let read = || {
        let begun = Instant::now();
        for name in fixture.names() {
            fs::read(fixture.store.path().join(name)).unwrap();
        }
        begun.elapsed()
    };
    // Take the best of several runs, because the machine may be busy. Compare with the time for reading the files,
    // because the machine may be slow.
    let (took, plain) =
        (0..5).map(|_| (list(), read())).reduce(|best, next| (best.0.min(next.0), best.1.min(next.1))).unwrap();
    println!("10,000 sessions listed in {took:?} and read in {plain:?}");
    assert!(took < Duration::from_secs(1).max(10 * plain), "{took:?} {plain:?}");
}

#[test]
fn directory_with_an_open_store_is_not_mounted() {
    let dir = tempdir().unwrap();
    let store = DirectoryStore::open(dir.path().join("a/sessions")).unwrap();
    for path in ["a", "a/sessions"] {
        let refused = glovebox::mount::check_directory(dir.path().join(path)).unwrap_err();
        assert!(
            matches!(refused, MountError::Guarded { guarded: GuardedDirectory::Sessions, .. }),
            "{path}: {refused}"
        );
    }
    drop(store);
    glovebox::mount::check_directory(dir.path().join("a/sessions")).unwrap();
}

#[test]
fn opening_a_store_takes_no_lock_from_its_holder() {
    let fixture = Fixture::new();
    let lock = lock(&fixture.store, "a");
    let other = DirectoryStore::open(fixture.store.path()).unwrap();
    assert_eq!(fixture.names(), [".lock-a"]);
    assert!(block_on(other.try_lock(&id("a"))).unwrap().is_none());
    drop(lock);
}

#[test]
fn invalid_lock_file_affects_only_its_session() {
    let fixture = Fixture::new();
    fixture.put("good", 5_000, b"x");
    let at = |name: &str| fixture.store.path().join(name);
    fs::create_dir(at(".lock-dir")).unwrap();
    symlink(at("good.session"), at(".lock-link")).unwrap();
    fs::write(at(".lock-shared"), "").unwrap();
    fs::set_permissions(at(".lock-shared"), fs::Permissions::from_mode(0o660)).unwrap();
    fs::write(at(".lock-left"), "").unwrap();
    fs::set_permissions(at(".lock-left"), fs::Permissions::from_mode(0o600)).unwrap();
    let store = DirectoryStore::open(fixture.store.path()).unwrap();
    assert_eq!(listed(&store).len(), 1);
    assert!(!at(".lock-left").exists(), "the other lock files are still cleaned up");
    for name in ["dir", "link", "shared"] {
        assert!(block_on(store.try_lock(&id(name))).is_err(), "{name}");
    }
    assert!(block_on(store.try_lock(&id("good"))).unwrap().is_some());
}

#[test]
fn lost_lock_does_not_affect_the_next_holder() {
    let fixture = Fixture::new();
    let lost = lock(&fixture.store, "a");
    fs::remove_file(fixture.store.path().join(".lock-a")).unwrap();
    let held = lock(&fixture.store, "a");
    drop(lost);
    assert!(block_on(fixture.store.try_lock(&id("a"))).unwrap().is_none());
    drop(held);
    assert!(fixture.names().is_empty());
}

/// Returns a store with sessions `s1` to `s5`, last written at 1,000 to 5,000 s, with states of 100 to 500 bytes.
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
fn damaged_sessions_use_their_file_time() {
    let fixture = five();
    let path = fixture.file("s5");
    fs::write(&path, "damaged").unwrap();
    let set = |ms: u64| {
        let time = std::time::UNIX_EPOCH + Duration::from_millis(ms);
        fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    };
    let prune = PruneLimits { older_than: Some(Duration::from_secs(5_500)), ..PruneLimits::default() };
    set(5_000_000);
    assert_eq!(ids(&block_on(prune.run(&fixture.store, now())).unwrap()), Vec::<&str>::new());
    set(1_000);
    assert_eq!(ids(&block_on(prune.run(&fixture.store, now())).unwrap()), ["s5"]);
    assert_eq!(left(&fixture), ["s1", "s2", "s3", "s4"]);
}

#[test]
fn future_time_does_not_prevent_pruning() {
    let far = 253_370_764_800_000; // The year 9999.
    for (at, stands) in [(6_000_000, true), (6_000_001, false), (far, false)] {
        let fixture = five();
        fixture.put("s0", at, b"x");
        let time = std::time::UNIX_EPOCH + Duration::from_secs(500);
        fs::File::options().write(true).open(fixture.file("s0")).unwrap().set_modified(time).unwrap();
        let by_age =
            PruneLimits { older_than: Some(Duration::from_secs(5_250)), dry_run: true, ..PruneLimits::default() };
        let by_count = PruneLimits { max_count: Some(5), dry_run: true, ..PruneLimits::default() };
        let chosen =
            [by_age, by_count].map(|prune| ids(&block_on(prune.run(&fixture.store, now())).unwrap()).join(" "));
        assert_eq!(chosen, if stands { ["", "s1"] } else { ["s0", "s0"] }, "{at}");
    }
}
