use std::path::Path;

use glovebox_sessions::{DirectoryStore, SessionStore};
use serde_json::{json, value::RawValue};
use tempfile::TempDir;

use super::*;

const TTL: Duration = Duration::from_secs(1);

fn at(ms: u64) -> Timestamp {
    Timestamp::from_unix_ms(1_800_000_000_000 + ms)
}

fn open(dir: &Path, max: usize, max_bytes: u64) -> SuspendedStore {
    let store: Arc<dyn SessionStore> = Arc::new(DirectoryStore::open(dir).unwrap());
    SuspendedStore::new(BoundedStore::new(store, max_bytes), max, SessionKey::new(&[7; 32]).ok(), "me".to_owned())
}

fn store(max: usize) -> (TempDir, SuspendedStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), max, u64::MAX);
    (dir, store)
}

fn execution() -> StoredExecution {
    let request = SuspendedRequest {
        tools: RawValue::from_string("[]".to_owned()).unwrap(),
        policy: None,
        return_files: Vec::new(),
        session: None,
        ttl_ms: 1_000,
        files: Vec::new(),
    };
    let calls = vec![serde_json::from_value(json!({"id": 0, "name": "ask", "arguments": "{}"})).unwrap()];
    StoredExecution { request, calls, generation: None, in_fleet: false, suspended: b"execution".to_vec() }
}

fn add(store: &SuspendedStore, now: Timestamp) -> Result<SuspendedId, ServiceError> {
    store.write(store.reserve(now, TTL, 4_096)?, &execution())
}

fn read(store: &SuspendedStore, id: &SuspendedId, now: Timestamp) -> Result<ReadEntry, ServiceError> {
    store.read(id.clone(), now, |_| Ok(())).map(|(entry, ())| entry)
}

fn code<T>(result: Result<T, ServiceError>) -> &'static str {
    result.map(|_| "done").unwrap_or_else(|error| error.code())
}

fn ids(store: &SuspendedStore, now: Timestamp) -> Vec<SuspendedId> {
    let page = store.list(now, &PageRequest::default()).unwrap();
    page.entries.into_iter().map(|(id, _)| id).collect()
}

#[test]
fn ids_sort_by_expiry_and_have_one_form() {
    let [first, second] = [1, 2].map(|ms| SuspendedId::new(at(ms)).unwrap());
    assert!(first.id < second.id);
    assert_eq!((first.expires(), SuspendedId::parse(first.as_str())), (at(1), Some(first.clone())));
    let upper = first.as_str().to_uppercase();
    let text = first.as_str();
    for other in ["", "-", "s", &upper, &text[1..], &format!("{text}0"), &text.replace('-', "."), &format!("0{text}")] {
        assert_eq!(SuspendedId::parse(other), None, "{other}");
    }
    assert_ne!(SuspendedId::new(at(1)), SuspendedId::new(at(1)), "128 bits are random");
}

#[test]
fn one_of_many_claims_succeeds() {
    let (dir, first) = store(10);
    let second = open(dir.path(), 10, u64::MAX);
    for _ in 0..20 {
        let id = add(&first, at(0)).unwrap();
        let version = read(&second, &id, at(0)).unwrap().version;
        let claims = thread::scope(|scope| {
            let (id, version) = (&id, &version);
            let claim = |store| scope.spawn(move || code(SuspendedStore::claim(store, id, version.clone(), None)));
            [&first, &second, &first, &second].map(claim).map(|thread| thread.join().unwrap())
        });
        assert_eq!(claims.iter().filter(|claim| **claim == "done").count(), 1, "{claims:?}");
        assert!(claims.iter().all(|claim| ["done", "not-found"].contains(claim)), "{claims:?}");
        assert_eq!(code(read(&second, &id, at(0))), "not-found");
        assert_eq!(code(first.claim(&id, version, None)), "not-found");
    }
}

#[test]
fn locked_entry_can_only_be_claimed_by_the_lock_holder() {
    let (dir, first) = store(10);
    let second = open(dir.path(), 10, u64::MAX);
    let id = add(&first, at(0)).unwrap();
    let version = read(&first, &id, at(0)).unwrap().version;
    let lock = first.lock_entry(&id).unwrap();
    for store in [&first, &second] {
        assert_eq!(code(store.lock(&id, Duration::ZERO)), "execution-busy");
        assert_eq!(read(store, &id, at(0)).unwrap().version, version, "it can be read");
    }
    first.claim(&id, version, Some(lock)).unwrap();
    assert_eq!(code(second.check_stored(&id)), "not-found");
    assert_eq!(code(second.lock(&id, Duration::ZERO)), "done", "the lock is released");
}

#[test]
fn entry_is_unusable_when_it_expires() {
    let (_dir, store) = store(10);
    let [first, second] = [0, 500].map(|ms| add(&store, at(ms)).unwrap());
    assert_eq!(ids(&store, at(999)), [first.clone(), second.clone()]);
    assert_eq!(read(&store, &first, at(999)).unwrap().execution.suspended, b"execution");
    assert_eq!(code(read(&store, &first, at(1_000))), "not-found");
    assert_eq!(ids(&store, at(1_000)), std::slice::from_ref(&second));
    assert!(!store.delete(&first).unwrap(), "it was deleted");
    assert!(ids(&store, at(1_500)).is_empty());
    assert!(!store.delete(&second).unwrap(), "listing has deleted it");
}

#[test]
fn expired_entries_do_not_count() {
    let max = 2 * CHECKED;
    let (_dir, store) = store(max);
    for _ in 0..max {
        add(&store, at(0)).unwrap();
    }
    assert_eq!(code(add(&store, at(999))), "quota-exceeded");
    assert_eq!(code(store.check_room(at(999))), "quota-exceeded");
    store.check_room(at(1_000)).unwrap();
    add(&store, at(1_000)).unwrap();
    assert_eq!(ids(&store, at(1_000)).len(), 1);
}

#[test]
fn longer_entry_needs_room_for_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 10, 4_096);
    let reserve = || store.reserve(at(0), TTL, 16).unwrap();
    let longer = StoredExecution { suspended: vec![0; 4_096], ..execution() };
    assert_eq!(code(store.write(reserve(), &longer)), "quota-exceeded");
    assert!(ids(&store, at(0)).is_empty());
    store.write(reserve(), &execution()).unwrap();
    assert_eq!(ids(&store, at(0)).len(), 1);
}

#[test]
fn reserved_entries_count() {
    let (_dir, store) = store(2);
    let reserve = || store.reserve(at(0), TTL, 4_096);
    let (first, second) = (reserve().unwrap(), reserve().unwrap());
    assert_eq!(code(reserve()), "quota-exceeded");
    drop(second);
    let id = store.write(first, &execution()).unwrap();
    let third = reserve().unwrap();
    assert_eq!(code(reserve()), "quota-exceeded");
    drop(third);
    assert!(store.delete(&id).unwrap());
    assert!(ids(&store, at(0)).is_empty());
}

#[test]
fn bytes_of_entries_are_limited() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 10, 10_000);
    let reserve = |now| store.reserve(now, TTL, 6_000);
    let first = store.write(reserve(at(0)).unwrap(), &execution()).unwrap();
    // The entry itself is shorter than the bytes that were reserved for it.
    let second = store.write(reserve(at(0)).unwrap(), &execution()).unwrap();
    let held = reserve(at(0)).unwrap();
    assert_eq!(code(reserve(at(0))), "quota-exceeded");
    drop(held);
    assert_eq!(code(store.reserve(at(0), TTL, 11_000)), "quota-exceeded");
    assert_eq!(ids(&store, at(0)).len(), 2, "{first:?} {second:?}");
}

#[test]
fn other_names_in_the_directory_are_ignored() {
    let (dir, store) = store(10);
    let id = add(&store, at(0)).unwrap();
    let path = |name: &str| dir.path().join(format!("{name}.session"));
    std::fs::copy(path(id.as_str()), path("other")).unwrap();
    assert_eq!(ids(&store, at(0)), std::slice::from_ref(&id));
    // A copy under another ID is rejected: its record and its seal contain the original ID.
    let copied = SuspendedId::new(at(1_000)).unwrap();
    std::fs::copy(path(id.as_str()), path(copied.as_str())).unwrap();
    assert_eq!(code(read(&store, &copied, at(0))), "unavailable");
    let other_tenant = SuspendedStore { tenant: "you".to_owned(), ..open(dir.path(), 10, u64::MAX) };
    assert_eq!(code(read(&other_tenant, &id, at(0))), "invalid-argument");
}
