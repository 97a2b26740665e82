//! The directory's lock files.

use super::*;

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
fn what_is_no_lock_file_harms_its_own_session_only() {
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
    assert!(!at(".lock-left").exists(), "the others are still looked at");
    for name in ["dir", "link", "shared"] {
        assert!(block_on(store.try_lock(&id(name))).is_err(), "{name}");
    }
    assert!(block_on(store.try_lock(&id("good"))).unwrap().is_some());
}

#[test]
fn whoever_lost_a_lock_takes_none_from_the_next_holder() {
    let fixture = Fixture::new();
    let lost = lock(&fixture.store, "a");
    fs::remove_file(fixture.store.path().join(".lock-a")).unwrap();
    let held = lock(&fixture.store, "a");
    drop(lost);
    assert!(block_on(fixture.store.try_lock(&id("a"))).unwrap().is_none());
    drop(held);
    assert!(fixture.names().is_empty());
}
