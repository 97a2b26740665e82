//! Tests the contract that every store must fulfil, whatever its storage.

mod crashing;
mod locking;
mod paging;
mod pruning;

use glovebox_sessions::{
    ExpectedVersion, Pages, SessionLock, SessionRecord, SessionStore, StoreError, StoredEntry, StoredSession,
    StoredVersion, block_on,
};
use serde_json::json;

use super::{
    support::id,
    test_store::{TestStore, on_each_store},
};

on_each_store![
    a_session_is_stored_replaced_and_removed,
    every_write_gets_a_new_version,
    write_depends_on_the_expected_version,
    recreated_session_is_a_different_one,
    damaged_session_is_overwritten_only_unconditionally,
    lock_permits_writes_to_its_session_only,
    states_of_many_sizes_round_trip,
];

fn record(name: &str, updated_ms: i64, bytes: usize) -> SessionRecord {
    let time = |ms: i64| glovebox::Timestamp::from_unix_ms(ms.try_into().unwrap()).to_string();
    let record = json!({
        "id": name, "created_at": time(1_000), "updated_at": time(updated_ms), "language": "python", "runtime": "python-3.12",
        "version": "3.12.0", "image_sha256": "ab".repeat(32), "executions": 3, "generation": 4, "files": 2, "bytes": bytes,
    });
    serde_json::from_value(record).unwrap()
}

/// Acquires the session's lock. If a killed process held it, waits until that lease expires.
fn lock(store: &dyn SessionStore, name: &str) -> SessionLock {
    let begun = std::time::Instant::now();
    loop {
        if let Some(lock) = block_on(store.try_lock(&id(name))).unwrap() {
            return lock;
        }
        assert!(begun.elapsed().as_secs() < 60, "`{name}` stays locked");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

fn put(
    store: &dyn SessionStore,
    lock: &SessionLock,
    expected: &ExpectedVersion,
    state: &[u8],
) -> Result<StoredVersion, StoreError> {
    block_on(store.put(lock, expected, &record(lock.id().as_str(), 5_000, state.len()), state))
}

/// Writes a session. Replaces an existing session with this name.
fn store_session(store: &dyn SessionStore, name: &str, updated_ms: i64, state: &[u8]) -> StoredVersion {
    let lock = lock(store, name);
    block_on(store.put(&lock, &ExpectedVersion::Any, &record(name, updated_ms, state.len()), state)).unwrap()
}

fn get(store: &dyn SessionStore, name: &str) -> Option<StoredSession> {
    block_on(store.get(&id(name))).unwrap()
}

fn listed(store: &dyn SessionStore) -> Vec<StoredEntry> {
    let mut pages = Pages::new(store);
    let mut all = Vec::new();
    while let Some(entries) = block_on(pages.next()).unwrap() {
        all.extend(entries);
    }
    all
}

fn is_fenced<T>(result: Result<T, StoreError>, name: &str) -> bool {
    matches!(result, Err(StoreError::Fenced { id: fenced }) if fenced == id(name))
}

fn a_session_is_stored_replaced_and_removed(place: &dyn TestStore) {
    let (store, other) = (place.open(), place.open());
    assert_eq!(get(&*store, "a"), None);
    assert_eq!(block_on(store.record(&id("a"))).unwrap(), None);
    let first = store_session(&*store, "a", 5_000, b"first\nstate");
    let stored = get(&*other, "a").unwrap();
    assert_eq!(
        (&stored.record, &stored.version, &stored.state[..]),
        (&record("a", 5_000, 11), &first, &b"first\nstate"[..])
    );
    let found = block_on(other.record(&id("a"))).unwrap().unwrap();
    assert_eq!((found.record, found.version), (stored.record.clone(), first.clone()));
    let entries = listed(&*other);
    assert_eq!((entries.len(), &entries[0].id), (1, &id("a")));
    assert_eq!((entries[0].record.as_ref(), entries[0].version.as_ref()), (Some(&stored.record), Some(&first)));
    assert!(entries[0].stored_bytes >= 11 && entries[0].damage.is_none());

    let second = store_session(&*other, "a", 6_000, b"");
    let stored = get(&*store, "a").unwrap();
    assert_eq!((stored.version, &stored.state[..]), (second, &b""[..]));
    let lock = lock(&*store, "a");
    assert!(block_on(store.remove(&lock, &ExpectedVersion::Any)).unwrap());
    assert!(!block_on(store.remove(&lock, &ExpectedVersion::Any)).unwrap());
    drop(lock);
    assert_eq!((get(&*other, "a"), listed(&*other)), (None, vec![]));
}

fn every_write_gets_a_new_version(place: &dyn TestStore) {
    let store = place.open();
    let lock = lock(&*store, "a");
    let mut seen = std::collections::HashSet::new();
    let mut expected = ExpectedVersion::Absent;
    for _ in 0..20 {
        let version = put(&*store, &lock, &expected, b"the same").unwrap();
        assert!(seen.insert(version.clone()), "version {version} was used by another write");
        expected = ExpectedVersion::Version(version);
    }
}

fn write_depends_on_the_expected_version(place: &dyn TestStore) {
    let store = place.open();
    let lock = lock(&*store, "a");
    let remove = |expected: &ExpectedVersion| block_on(store.remove(&lock, expected));
    let nothing = |expected: &ExpectedVersion| {
        // The session does not exist, so nothing can be removed.
        assert!(!remove(expected).unwrap(), "{expected:?}");
        assert_eq!(get(&*store, "a"), None, "{expected:?}");
    };
    let never = ExpectedVersion::Version(StoredVersion::random());
    [&ExpectedVersion::Absent, &ExpectedVersion::Any, &never].into_iter().for_each(nothing);
    assert!(is_fenced(put(&*store, &lock, &never, b"x"), "a"));
    assert_eq!(get(&*store, "a"), None);

    let first = ExpectedVersion::Version(put(&*store, &lock, &ExpectedVersion::Absent, b"first").unwrap());
    let second = ExpectedVersion::Version(put(&*store, &lock, &first, b"second").unwrap());
    for stale in [&ExpectedVersion::Absent, &never, &first] {
        let before = get(&*store, "a");
        assert!(is_fenced(put(&*store, &lock, stale, b"late"), "a"), "{stale:?}");
        assert!(is_fenced(remove(stale), "a"), "{stale:?}");
        assert_eq!(get(&*store, "a"), before, "{stale:?}");
    }
    put(&*store, &lock, &second, b"third").unwrap();
    let fourth = ExpectedVersion::Version(put(&*store, &lock, &ExpectedVersion::Any, b"fourth").unwrap());
    assert_eq!(get(&*store, "a").unwrap().state, b"fourth");
    assert!(remove(&fourth).unwrap());
    nothing(&fourth);
    put(&*store, &lock, &ExpectedVersion::Any, b"fifth").unwrap();
    assert!(remove(&ExpectedVersion::Any).unwrap());
}

fn recreated_session_is_a_different_one(place: &dyn TestStore) {
    let (store, other) = (place.open(), place.open());
    let first = ExpectedVersion::Version(store_session(&*store, "a", 5_000, b"equal"));
    let taken = lock(&*other, "a");
    assert!(block_on(other.remove(&taken, &ExpectedVersion::Any)).unwrap());
    let second = put(&*other, &taken, &ExpectedVersion::Absent, b"equal").unwrap();
    drop(taken);
    assert_ne!(first, ExpectedVersion::Version(second.clone()));
    let lock = lock(&*store, "a");
    assert!(is_fenced(put(&*store, &lock, &first, b"late"), "a"));
    assert!(is_fenced(block_on(store.remove(&lock, &first)), "a"));
    let stored = get(&*store, "a").unwrap();
    assert_eq!((stored.version, &stored.state[..]), (second, &b"equal"[..]));
}

fn damaged_session_is_overwritten_only_unconditionally(place: &dyn TestStore) {
    let store = place.open();
    let version = ExpectedVersion::Version(store_session(&*store, "bad", 5_000, b"state"));
    store_session(&*store, "good", 5_000, b"state");
    place.damage(&id("bad"));
    let check = || {
        assert!(matches!(block_on(store.get(&id("bad"))), Err(StoreError::Damaged { .. })));
        assert!(matches!(block_on(store.record(&id("bad"))), Err(StoreError::Damaged { .. })));
        let entries = listed(&*store);
        assert_eq!(entries.iter().map(|entry| entry.id.as_str()).collect::<Vec<_>>(), ["bad", "good"]);
        assert!(entries[0].damage.is_some() && entries[0].record.is_none() && entries[0].version.is_none());
        assert!(entries[1].damage.is_none() && entries[1].record.is_some() && entries[1].version.is_some());
        assert_eq!(block_on(store.count(10)).unwrap(), 2);
    };
    check();
    let bad = lock(&*store, "bad");
    for expected in [&ExpectedVersion::Absent, &version] {
        put(&*store, &bad, expected, b"late").unwrap_err();
        block_on(store.remove(&bad, expected)).unwrap_err();
        check();
    }
    put(&*store, &bad, &ExpectedVersion::Any, b"again").unwrap();
    assert_eq!(get(&*store, "bad").unwrap().state, b"again");
    place.damage(&id("bad"));
    assert!(block_on(store.remove(&bad, &ExpectedVersion::Any)).unwrap());
    assert_eq!(listed(&*store).len(), 1);
}

fn lock_permits_writes_to_its_session_only(place: &dyn TestStore) {
    let store = place.open();
    let lock = lock(&*store, "a");
    assert_eq!(lock.id(), &id("a"));
    let error = block_on(store.put(&lock, &ExpectedVersion::Any, &record("b", 1, 1), b"x")).unwrap_err();
    assert!(matches!(error, StoreError::NotLocked { .. }), "{error}");
    // The length in the record differs from the length of the state.
    for bytes in [0, 2] {
        block_on(store.put(&lock, &ExpectedVersion::Any, &record("a", 1, bytes), b"x")).unwrap_err();
    }
    assert_eq!(listed(&*store), []);
}

fn states_of_many_sizes_round_trip(place: &dyn TestStore) {
    let store = place.open();
    let lock = lock(&*store, "a");
    for bytes in [0, 1, 4_095, 4_096, 4_097, (1 << 20) - 1, 1 << 20, (5 << 20) + 1] {
        let state: Vec<u8> = (0..bytes).map(|at: usize| (at * 31 + at / 251) as u8).collect();
        put(&*store, &lock, &ExpectedVersion::Any, &state).unwrap();
        assert!(get(&*store, "a").unwrap().state == state, "{bytes} bytes");
    }
}
