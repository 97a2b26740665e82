//! Tests concurrent writes, removals and reads of a session, in every order, with failures and crashes at any point.

use std::{cell::RefCell, time::Instant};

use glovebox_sessions::{
    ExpectedVersion, PageRequest, RecordError, SessionId, SessionLock, SessionRecord, SessionStore as _, StoreError,
    StoredVersion, block_on,
};

use super::model::{Run, Task, at_random, exhaustively};
use crate::{
    ObjectStore,
    bucket::ObjectContents,
    entry::{Entry, MAX_ANCESTORS},
    lease::{Holder, StoreClock},
};

/// An operation and its result.
#[derive(Debug)]
struct RecordedWrite {
    expected: ExpectedVersion,
    /// The written state. `None` for a removal.
    state: Option<String>,
    result: Result<Option<StoredVersion>, StoreError>,
}

fn id() -> SessionId {
    SessionId::new("a").unwrap()
}

/// Returns a lock without a lease, as if the lease had expired, so that only the expected version prevents conflicts.
fn lock() -> SessionLock {
    SessionLock::new(id(), Holder::default())
}

fn record(bytes: usize) -> SessionRecord {
    let record = serde_json::json!({
        "id": "a", "created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-01-01T00:00:00.000Z", "language": "python",
        "runtime": "python-3.12", "version": null, "image_sha256": "", "executions": 0, "generation": 0, "files": null, "bytes": bytes,
    });
    serde_json::from_value(record).unwrap()
}

async fn put(
    run: &Run,
    lock: &SessionLock,
    expected: &ExpectedVersion,
    state: &str,
) -> Result<StoredVersion, StoreError> {
    run.store.put(lock, expected, &record(state.len()), state.as_bytes()).await
}

/// Returns the stored version and state.
fn stored(run: &Run) -> Option<(StoredVersion, String)> {
    let stored = block_on(run.store.get(&id())).unwrap()?;
    Some((stored.version, String::from_utf8(stored.state).unwrap()))
}

fn first(run: &Run) -> ExpectedVersion {
    ExpectedVersion::Version(block_on(put(run, &lock(), &ExpectedVersion::Absent, "first")).unwrap())
}

/// Performs `writes` writes. The first write expects `from`, and each later write expects the last accepted version.
/// Stops when a write is fenced. After any other error, continues with the next state.
fn writer<'a>(
    run: &'a Run,
    name: &'a str,
    from: &ExpectedVersion,
    writes: usize,
    done: &'a RefCell<Vec<RecordedWrite>>,
) -> Task<'a> {
    let mut expected = from.clone();
    Box::pin(async move {
        let lock = lock();
        for write in 0..writes {
            let state = format!("{name}{write}");
            let result = put(run, &lock, &expected, &state).await.map(Some);
            let next = result.as_ref().ok().cloned().flatten();
            let is_fenced = matches!(result, Err(StoreError::Fenced { .. }));
            done.borrow_mut().push(RecordedWrite { expected: expected.clone(), state: Some(state), result });
            match next {
                Some(version) => expected = ExpectedVersion::Version(version),
                None if is_fenced => return,
                None => {}
            }
        }
    })
}

/// Removes the expected version, then creates the session again.
fn remover<'a>(run: &'a Run, from: &ExpectedVersion, done: &'a RefCell<Vec<RecordedWrite>>) -> Task<'a> {
    let expected = from.clone();
    Box::pin(async move {
        let lock = lock();
        let removed = run.store.remove(&lock, &expected).await;
        let goes_on = removed.is_ok();
        done.borrow_mut().push(RecordedWrite { expected, state: None, result: removed.map(|_| None) });
        if goes_on {
            let result = put(run, &lock, &ExpectedVersion::Absent, "anew").await.map(Some);
            done.borrow_mut().push(RecordedWrite {
                expected: ExpectedVersion::Absent,
                state: Some("anew".into()),
                result,
            });
        }
    })
}

/// Checks that at most one of the writes with the same expected version was accepted. The store must contain the last
/// accepted write, or a write with an unknown outcome. Fenced writers must leave no objects behind.
fn check(run: &Run, done: &[RecordedWrite], faults: usize, context: &str) {
    let found = stored(run);
    for (index, one) in done.iter().enumerate() {
        let is_fenced = matches!(one.result, Err(StoreError::Fenced { .. }));
        if faults == 0 {
            assert!(one.result.is_ok() || is_fenced, "{context}: {one:?}");
        }
        if is_fenced {
            assert!(found.as_ref().map(|(_, state)| state) != one.state.as_ref(), "{context}: {done:?}");
        }
        if let (Ok(_), ExpectedVersion::Version(_)) = (&one.result, &one.expected) {
            let others =
                done[index + 1..].iter().filter(|other| other.result.is_ok() && other.expected == one.expected);
            assert_eq!(others.count(), 0, "{context}: two writes on the same base were accepted: {done:?}");
        }
    }
    let accepted: Vec<&RecordedWrite> = done.iter().filter(|one| one.result.is_ok()).collect();
    // Select the accepted writes on which no other accepted write is based.
    let version = |one: &RecordedWrite| one.result.as_ref().ok().cloned().flatten().map(ExpectedVersion::Version);
    let tops: Vec<&&RecordedWrite> = accepted
        .iter()
        .filter(|one| !accepted.iter().any(|other| Some(&other.expected) == version(one).as_ref()))
        .collect();
    if faults == 0 {
        let expected = tops.iter().rev().find_map(|top| top.state.clone());
        if !tops.is_empty() {
            assert_eq!(found.map(|(_, state)| state), expected, "{context}: {done:?}");
        }
    } else if let Some(top) = tops.iter().find(|top| top.state.is_some()) {
        // The store contains the top write, or a later write with an unknown outcome.
        let is_unknown =
            |state: &str| done.iter().any(|one| one.result.is_err() && one.state.as_deref() == Some(state));
        let is_it = match &found {
            Some((_, state)) => Some(state) == top.state.as_ref() || is_unknown(state) || !is_recorded(done, state),
            None => done.iter().any(|one| one.state.is_none()),
        };
        assert!(is_it, "{context}: {found:?} after {done:?}");
    }
    // In every case, the session can be written again, and the write removes leftovers.
    block_on(put(run, &lock(), &ExpectedVersion::Any, "last")).unwrap();
    assert_eq!(stored(run).unwrap().1, "last", "{context}");
    let names: Vec<String> = run.memory.objects.lock().unwrap().keys().cloned().collect();
    assert_eq!(names.iter().filter(|name| name.starts_with("records/")).count(), 1, "{context}: {names:?}");
    if faults == 0 {
        assert_eq!(names.iter().filter(|name| name.starts_with("states/")).count(), 1, "{context}: {names:?}");
    }
}

/// Returns `true` if the writer recorded this state before a crash.
fn is_recorded(done: &[RecordedWrite], state: &str) -> bool {
    done.iter().any(|one| one.state.as_deref() == Some(state))
}

/// An unlimited number of switches.
const ANY: usize = usize::MAX;

fn contend(switches: usize, faults: usize, writes: [usize; 2]) -> usize {
    exhaustively(faults, |run| {
        let from = first(run);
        let done = RefCell::default();
        let [one, other] = writes;
        run.interleave(switches, vec![writer(run, "a", &from, one, &done), writer(run, "b", &from, other, &done)]);
        let done = done.take();
        if faults == 0 {
            assert_eq!(
                done.iter().filter(|done| matches!(done.result, Err(StoreError::Fenced { .. }))).count(),
                1,
                "{done:?}"
            );
        }
        check(run, &done, faults, "");
    })
}

#[test]
fn one_of_two_writers_is_accepted() {
    let runs = contend(ANY, 0, [1, 1]);
    assert!(runs > 1_000, "{runs}");
}

#[test]
fn stale_writer_is_fenced() {
    let runs = contend(4, 0, [1, 3]);
    assert!(runs > 1_000, "{runs}");
}

#[test]
fn one_of_two_writers_is_accepted_despite_a_failure() {
    let runs = contend(2, 1, [1, 1]);
    assert!(runs > 1_000, "{runs}");
}

#[test]
fn concurrent_creation_makes_one_session() {
    exhaustively(0, |run| {
        let done = RefCell::default();
        let tasks = ["a", "b"].map(|name| writer(run, name, &ExpectedVersion::Absent, 1, &done));
        run.interleave(ANY, tasks.into());
        let done = done.take();
        assert_eq!(done.iter().filter(|done| done.result.is_ok()).count(), 1, "{done:?}");
        check(run, &done, 0, "");
    });
}

#[test]
fn one_of_writer_and_remover_is_accepted() {
    for faults in [0, 1] {
        exhaustively(faults, |run| {
            let from = first(run);
            let done = RefCell::<Vec<RecordedWrite>>::default();
            let lock = lock();
            let removal: Task<'_> = Box::pin(async {
                let removed = run.store.remove(&lock, &from).await.map(|was_there| {
                    assert!(was_there);
                    None
                });
                done.borrow_mut().push(RecordedWrite { expected: from.clone(), state: None, result: removed });
            });
            run.interleave(4 - 2 * faults, vec![writer(run, "a", &from, 1, &done), removal]);
            if faults == 0 {
                let accepted = done.borrow().iter().filter(|done| done.result.is_ok()).count();
                assert_eq!(accepted, 1, "{:?}", done.borrow());
            }
            check(run, &done.take(), faults, "");
        });
    }
}

#[test]
fn recreated_session_fences_writers_of_the_removed_one() {
    let runs = exhaustively(0, |run| {
        let from = first(run);
        let done = RefCell::default();
        run.interleave(4, vec![writer(run, "a", &from, 1, &done), remover(run, &from, &done)]);
        let done = done.take();
        assert!(done.iter().any(|done| matches!(done.result, Err(StoreError::Fenced { .. }))), "{done:?}");
        check(run, &done, 0, "");
    });
    assert!(runs > 1_000, "{runs}");
}

#[test]
fn reader_sees_only_accepted_writes() {
    exhaustively(0, |run| {
        let from = first(run);
        let done = RefCell::<Vec<RecordedWrite>>::default();
        let seen = RefCell::new(Vec::new());
        let reader: Task<'_> = Box::pin(async {
            for _ in 0..2 {
                let before = done.borrow().len();
                let stored = run.store.get(&id()).await.unwrap().expect("the session always exists");
                seen.borrow_mut().push((before, String::from_utf8(stored.state).unwrap()));
            }
        });
        run.interleave(4, vec![writer(run, "a", &from, 2, &done), reader]);
        let order = ["first", "a0", "a1"];
        let at = |state: &str| order.iter().position(|other| *other == state).unwrap();
        let seen = seen.take();
        for (acknowledged, state) in &seen {
            assert!(at(state) >= *acknowledged, "{seen:?}");
        }
        assert!(at(&seen[0].1) <= at(&seen[1].1), "{seen:?}");
    });
}

#[test]
fn write_with_a_lost_response_is_applied_once() {
    let runs = exhaustively(2, |run| {
        let first = first(run);
        let accepted = RefCell::new("first");
        let writer: Task<'_> = Box::pin(async {
            let (lock, mut expected) = (lock(), first);
            for state in ["a", "b"] {
                // Three attempts are enough for all faults and one success.
                for attempt in 0..3 {
                    match put(run, &lock, &expected, state).await {
                        Ok(version) => {
                            expected = ExpectedVersion::Version(version);
                            *accepted.borrow_mut() = state;
                            break;
                        }
                        Err(error) => assert!(matches!(error, StoreError::Remote { .. }) && attempt < 2, "{error}"),
                    }
                }
            }
        });
        run.interleave(0, vec![writer]);
        let found = stored(run).unwrap().1;
        let accepted = accepted.take();
        // A writer that crashed may have written the next state.
        assert!(found == accepted || found.as_str() > accepted || accepted == "first", "{found} after {accepted}");
        check(run, &[], 2, "");
    });
    assert!(runs > 500, "{runs}");
}

#[test]
fn writes_stay_consistent_under_random_faults() {
    at_random(1_000, 3, |run, seed| {
        let from = first(run);
        let done = RefCell::default();
        let mut tasks: Vec<Task<'_>> =
            ["a", "b", "c"].into_iter().map(|name| writer(run, name, &from, 3, &done)).collect();
        tasks.push(remover(run, &from, &done));
        tasks.push(Box::pin(async {
            for _ in 0..4 {
                // A fault may cause an error, but a successful read must be complete.
                if let Err(error) = run.store.get(&id()).await {
                    assert!(matches!(error, StoreError::Remote { .. }), "{seed}: {error}");
                }
            }
        }));
        run.interleave(ANY, tasks);
        check(run, &done.take(), 3, &format!("seed {seed}"));
    });
}

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

fn objects(run: &Run, dir: &str) -> usize {
    run.memory.objects.lock().unwrap().keys().filter(|name| name.starts_with(dir)).count()
}

#[test]
fn tombstone_is_removed_after_a_week_under_the_lease() {
    let runs = exhaustively(0, |run| {
        let from = first(run);
        assert!(block_on(run.store.remove(&lock(), &from)).unwrap());
        // A crashed writer left this state behind.
        block_on(run.store.bucket.try_create("states/a!/crashed", "x".into())).unwrap();
        for (days, stays) in [(6, true), (8, false)] {
            let clock = StoreClock { seen_ms: days * DAY_MS, seen_at: Instant::now() };
            let store = ObjectStore { clock, ..run.store.clone() };
            run.memory.deleted.lock().unwrap().clear();
            *run.memory.now_ms.lock().unwrap() = days * DAY_MS;
            assert!(block_on(store.list(&PageRequest::default())).unwrap().entries.is_empty());
            assert_eq!((objects(run, "records/") == 1, objects(run, "states/") == 1), (stays, stays), "{days}");
        }
        let deleted = run.memory.deleted.lock().unwrap().clone();
        let of_the_session: Vec<&(String, bool)> =
            deleted.iter().filter(|(name, _)| !name.starts_with("leases/")).collect();
        assert_eq!(of_the_session.len(), 2, "{deleted:?}");
        assert!(of_the_session.iter().all(|(_, is_leased)| *is_leased), "{deleted:?}");
        assert_eq!(objects(run, "leases/"), 0);
    });
    assert_eq!(runs, 1);
}

#[test]
fn tombstone_stays_while_its_state_exists() {
    exhaustively(0, |run| {
        let from = first(run);
        assert!(block_on(run.store.remove(&lock(), &from)).unwrap());
        *run.memory.now_ms.lock().unwrap() = 8 * DAY_MS;
        block_on(run.store.bucket.try_create("states/a!/young", "x".into())).unwrap();
        let clock = StoreClock { seen_ms: 8 * DAY_MS, seen_at: Instant::now() };
        let store = ObjectStore { clock, ..run.store.clone() };
        block_on(store.list(&PageRequest::default())).unwrap();
        assert_eq!((objects(run, "records/"), objects(run, "states/")), (1, 1));
    });
}

#[test]
fn version_overflow_names_the_object() {
    exhaustively(0, |run| {
        let from = first(run);
        let head =
            run.memory.objects.lock().unwrap().keys().find(|name| name.starts_with("records/")).cloned().unwrap();
        let found = block_on(run.store.bucket.get(&head, u64::MAX)).unwrap();
        let Some(ObjectContents::Bytes(entry)) = found else { panic!("{found:?}") };
        block_on(run.store.bucket.try_create(&format!("records/a!/{}", u64::MAX), entry)).unwrap();
        let error = block_on(put(run, &lock(), &from, "next")).unwrap_err().to_string();
        assert!(error.contains("records/a!/18446744073709551615"), "{error}");
        assert_eq!(objects(run, "states/"), 1, "a rejected write must leave no state");
    });
}

#[test]
fn foreign_entry_is_reported_as_damaged() {
    let session = "a".repeat(32);
    let entry = |version: &str, ancestors: Vec<String>| {
        let entry = serde_json::json!({ "format": 1, "version": version, "ancestors": ancestors });
        Entry::read(&id(), entry.to_string().as_bytes())
    };
    assert!(entry(&session, vec![session.clone(); MAX_ANCESTORS]).is_ok(), "at");
    assert!(entry(&session, vec![session.clone(); MAX_ANCESTORS + 1]).is_err(), "over");
    assert!(entry(&session, vec!["a".repeat(33)]).is_err());
    for version in ["", "../../x", &"a".repeat(31), &"g".repeat(32)] {
        assert!(entry(version, Vec::new()).is_err(), "{version}");
    }
}

#[test]
fn entry_of_a_later_format_is_not_reported_as_damaged() {
    let later = Entry::read(&id(), br#"{"format": 2, "added": true}"#);
    assert_eq!(later, Err(RecordError::Format { found: 2, known: 1 }));
    assert!(matches!(Entry::read(&id(), br#"{"format": 0}"#), Err(RecordError::Damaged(_))));
}
