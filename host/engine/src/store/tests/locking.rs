//! One holder at a time, in all threads and processes.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::*;

#[test]
fn one_holder_at_a_time() {
    let fixture = Fixture::new();
    let other = DirectoryStore::open(fixture.store.path()).unwrap();
    let lock = fixture.store.try_lock(&id("a")).unwrap().unwrap();
    assert_eq!(lock.id(), &id("a"));
    assert!(fixture.store.try_lock(&id("a")).unwrap().is_none());
    assert!(other.try_lock(&id("a")).unwrap().is_none());
    let beside = other.try_lock(&id("b")).unwrap().unwrap();
    drop(lock);
    let again = other.try_lock(&id("a")).unwrap().unwrap();
    drop((again, beside));
    assert!(fixture.names().is_empty());
}

#[test]
fn opening_a_store_takes_no_lock_from_its_holder() {
    let fixture = Fixture::new();
    let lock = fixture.store.try_lock(&id("a")).unwrap().unwrap();
    let other = DirectoryStore::open(fixture.store.path()).unwrap();
    assert_eq!(fixture.names(), [".lock-a"]);
    assert!(other.try_lock(&id("a")).unwrap().is_none());
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
    assert_eq!(store.list().unwrap().len(), 1);
    assert!(!at(".lock-left").exists(), "the others are still looked at");
    for name in ["dir", "link", "shared"] {
        assert!(store.try_lock(&id(name)).is_err(), "{name}");
    }
    assert!(store.try_lock(&id("good")).unwrap().is_some());
}

#[test]
fn many_threads_never_hold_it_together() {
    let fixture = Fixture::new();
    let held = AtomicBool::new(false);
    let taken = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let store = DirectoryStore::open(fixture.store.path()).unwrap();
                for _ in 0..500 {
                    if let Some(lock) = store.try_lock(&id("a")).unwrap() {
                        assert!(!held.swap(true, Ordering::SeqCst), "two hold it");
                        std::hint::spin_loop();
                        held.store(false, Ordering::SeqCst);
                        taken.fetch_add(1, Ordering::SeqCst);
                        drop(lock);
                    }
                }
            });
        }
    });
    assert!(taken.into_inner() > 0);
    assert!(fixture.names().is_empty());
}
