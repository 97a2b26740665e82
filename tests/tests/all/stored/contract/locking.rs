//! Tests that a lock has one holder at a time, and that a holder which has lost its lock is fenced.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;

on_each_store![
    one_holder_at_a_time,
    one_of_many_threads_holds_the_lock,
    no_write_is_lost_among_many_writers,
    later_write_fences_a_lost_lock,
    one_of_two_believed_holders_writes,
];

fn one_holder_at_a_time(place: &dyn TestStore) {
    let (one, other) = (place.open(), place.open());
    let taken = block_on(one.try_lock(&id("a"))).unwrap().unwrap();
    assert!(block_on(one.try_lock(&id("a"))).unwrap().is_none());
    assert!(block_on(other.try_lock(&id("a"))).unwrap().is_none());
    let beside = block_on(other.try_lock(&id("b"))).unwrap().unwrap();
    // Opening the store again does not release a held lock.
    assert!(block_on(place.open().try_lock(&id("a"))).unwrap().is_none());
    drop(taken);
    let again = lock(&*other, "a");
    assert!(block_on(one.try_lock(&id("a"))).unwrap().is_none());
    drop((again, beside));
    assert_eq!(listed(&*one), [], "a lock must not be listed as a session");
}

const THREADS: usize = 6;

fn one_of_many_threads_holds_the_lock(place: &dyn TestStore) {
    let held = AtomicBool::new(false);
    let taken = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let store = place.open();
                for _ in 0..100 {
                    if let Some(lock) = block_on(store.try_lock(&id("a"))).unwrap() {
                        assert!(!held.swap(true, Ordering::SeqCst), "two callers hold the lock");
                        std::thread::yield_now();
                        held.store(false, Ordering::SeqCst);
                        taken.fetch_add(1, Ordering::SeqCst);
                        drop(lock);
                    }
                }
            });
        }
    });
    assert!(taken.into_inner() > 0);
}

fn no_write_is_lost_among_many_writers(place: &dyn TestStore) {
    const EACH: usize = 10;
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let store = place.open();
                for _ in 0..EACH {
                    let lock = lock(&*store, "a");
                    let (expected, count) = match get(&*store, "a") {
                        Some(stored) => (ExpectedVersion::Version(stored.version), number(&stored.state)),
                        None => (ExpectedVersion::Absent, 0),
                    };
                    put(&*store, &lock, &expected, (count + 1).to_string().as_bytes()).unwrap();
                }
            });
        }
    });
    assert_eq!(number(&get(&*place.open(), "a").unwrap().state), THREADS * EACH);
}

fn number(state: &[u8]) -> usize {
    str::from_utf8(state).unwrap().parse().unwrap()
}

fn later_write_fences_a_lost_lock(place: &dyn TestStore) {
    let (one, other) = (place.open(), place.open());
    let lost = lock(&*one, "a");
    let first = ExpectedVersion::Version(put(&*one, &lost, &ExpectedVersion::Absent, b"first").unwrap());
    place.lose_lock(&id("a"));
    let held = lock(&*other, "a");
    put(&*other, &held, &first, b"second").unwrap();
    assert!(is_fenced(put(&*one, &lost, &first, b"late"), "a"));
    assert!(is_fenced(block_on(one.remove(&lost, &first)), "a"));
    // Dropping a lost lock does not release its new holder's lock.
    drop(lost);
    assert!(block_on(one.try_lock(&id("a"))).unwrap().is_none());
    assert_eq!(get(&*one, "a").unwrap().state, b"second");
    // A removal by the new holder fences the old one, as a write does.
    assert!(block_on(other.remove(&held, &ExpectedVersion::Any)).unwrap());
    drop(held);
    let late = lock(&*one, "a");
    assert!(is_fenced(put(&*one, &late, &first, b"late"), "a"));
    assert_eq!(get(&*one, "a"), None);
}

fn one_of_two_believed_holders_writes(place: &dyn TestStore) {
    let (one, other) = (place.open(), place.open());
    for round in 0..10 {
        let name = format!("s{round}");
        let lost = lock(&*one, &name);
        let expected = ExpectedVersion::Version(put(&*one, &lost, &ExpectedVersion::Absent, b"first").unwrap());
        place.lose_lock(&id(&name));
        let held = lock(&*other, &name);
        // Alternates the order of the two writes.
        let late = || put(&*one, &lost, &expected, b"late");
        let new = || put(&*other, &held, &expected, b"new");
        let (late, new) = if round % 2 == 0 {
            let late = late();
            (late, new())
        } else {
            let new = new();
            (late(), new)
        };
        let wrote = if late.is_ok() { b"late" } else { &b"new"[..] };
        assert!(late.is_ok() != new.is_ok(), "round {round}: {late:?}, {new:?}");
        assert_eq!(get(&*one, &name).unwrap().state, wrote, "round {round}");
    }
}
