//! Tests stored sessions: active, evicted, forked, exported, deleted, and shared by processes.

mod contract;
mod failing;
mod fenced;
mod processes;
mod resuming;
mod support;
pub(crate) mod test_store;

use std::{
    fs,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use glovebox::{
    Entropy, ExecuteError, HibernatedInfo, IfExists, Language, Request, ResumeError, Sandbox, SessionKey, Timestamp,
};
use glovebox_sessions::{
    DirectoryStore, ExpectedVersion, NewSession, PruneLimits, Save, SessionGuard, SessionId, SessionStore as _,
    Sessions, SessionsError, SkipReason, StoredRecord, StoredSession, block_on,
};
use glovebox_tests::sandbox;
use tempfile::tempdir;

use support::{COUNT, COUNT_JS, id, is_live, javascript, open, python, run};

#[test]
fn a_session_outlives_its_process() {
    let dir = tempdir().unwrap();
    for round in 1..4 {
        let sessions = open(dir.path(), |_| {});
        assert_eq!(run(&python(&sessions, "py"), COUNT), round.to_string());
        assert_eq!(run(&javascript(&sessions, "js"), COUNT_JS), round.to_string());
        let listed = sessions.list_all().unwrap();
        let ids: Vec<&str> = listed.iter().map(|entry| entry.stored.id.as_str()).collect();
        assert_eq!(ids, ["js", "py"]);
        let record = listed[1].stored.record.as_ref().unwrap();
        assert_eq!((record.language, record.executions, record.files), (Language::Python, round, Some(0)));
        assert!(record.created_at <= record.updated_at && record.bytes < 300 << 10, "{record:?}");
        assert_eq!(listed[1].live.as_ref().unwrap().executions, round);
    }
}

#[test]
fn execution_updates_only_the_modification_time() {
    type Open = fn(&Sessions, &str) -> SessionGuard;
    for (of_language, count) in [(python as Open, COUNT), (javascript as Open, COUNT_JS)] {
        let dir = tempdir().unwrap();
        let record = |sessions: &Sessions| sessions.record(&id("a")).unwrap().unwrap();
        let sessions = open(dir.path(), |_| {});
        let session = of_language(&sessions, "a");
        let created = record(&sessions);
        std::thread::sleep(Duration::from_millis(5));
        let before = Timestamp::now();
        run(&session, count);
        let later = record(&sessions);
        assert_eq!(created.created_at, later.created_at);
        assert!(created.updated_at < before && before <= later.updated_at && later.updated_at <= Timestamp::now());
        drop((session, sessions));
        let sessions = open(dir.path(), |_| {});
        run(&of_language(&sessions, "a"), count);
        assert_eq!(record(&sessions).created_at, created.created_at);
        assert!(record(&sessions).updated_at > later.updated_at);
    }
}

#[test]
fn session_uses_the_callers_id() {
    let dir = tempdir().unwrap();
    let sessions = open(dir.path(), |_| {});
    let session = javascript(&sessions, "test-session-123");
    assert_eq!(session.execute("1").unwrap().session_id.as_deref(), Some("test-session-123"));
    assert_eq!(sessions.list_all().unwrap()[0].stored.id.as_str(), "test-session-123");
    let fresh = sandbox(Language::JavaScript, |_| {}).run(Request::new("1").session_id("test-session-123")).unwrap();
    assert_eq!(fresh.session_id.as_deref(), Some("test-session-123"));
}

#[test]
fn session_is_saved_by_its_save_policy() {
    for (save, held) in [(Save::AfterEach, 2), (Save::OnHibernate, 0)] {
        let dir = tempdir().unwrap();
        let sessions = open(dir.path(), |policy| policy.save = save);
        let session = python(&sessions, "a");
        run(&session, COUNT);
        run(&session, COUNT);
        let executions = || sessions.record(&id("a")).unwrap().unwrap().executions;
        assert_eq!(executions(), held, "{save:?}");
        assert!(sessions.hibernate(&id("a")).unwrap());
        assert_eq!(executions(), 2, "{save:?}");
        assert!(!sessions.hibernate(&id("a")).unwrap(), "the session is already hibernated");
        assert_eq!(run(&session, COUNT), "3", "the handle resumes the session");
    }
}

#[test]
fn unchanged_session_is_not_rewritten() {
    let dir = tempdir().unwrap();
    let sessions = open(dir.path(), |_| {});
    run(&python(&sessions, "a"), COUNT);
    let file = || fs::metadata(dir.path().join("a.session")).unwrap().modified().unwrap();
    let before = file();
    assert!(sessions.hibernate(&id("a")).unwrap());
    assert_eq!(before, file());
}

#[test]
fn manual_changes_are_saved_explicitly_or_on_hibernation() {
    let dir = tempdir().unwrap();
    let sessions = open(dir.path(), |_| {});
    let session = python(&sessions, "a");
    let active = session.activate().unwrap();
    active.set_variable("x", &serde_json::json!([1, 2])).unwrap();
    active.save().unwrap();
    let exported = sessions.export(&id("a")).unwrap();
    active.set_variable("x", &serde_json::json!("later")).unwrap();
    drop(active);
    sessions.hibernate(&id("a")).unwrap();
    assert_eq!(run(&session, "print(x)"), "later");
    let copy = sessions.import(id("copy"), &exported, IfExists::Fail).unwrap();
    assert_eq!(run(&copy, "print(x)"), "[1, 2]");
}

#[test]
fn only_idle_sessions_are_hibernated() {
    let dir = tempdir().unwrap();
    let sessions = open(dir.path(), |policy| policy.idle_ms = 600_000);
    let (idle, used) = (python(&sessions, "idle"), python(&sessions, "used"));
    for session in [&idle, &used] {
        run(session, COUNT);
    }
    let now = Instant::now();
    assert!(sessions.hibernate_idle(now).hibernated.is_empty(), "under");
    assert!(sessions.hibernate_idle(now + Duration::from_millis(300_000)).hibernated.is_empty(), "under");
    let active = used.activate().unwrap();
    let report = sessions.hibernate_idle(now + Duration::from_millis(601_000));
    assert_eq!((report.hibernated, report.errors.len()), (vec![id("idle")], 0), "over");
    assert!(matches!(sessions.hibernate(&id("used")), Err(SessionsError::InUse { .. })));
    assert!(!is_live(&sessions, "idle") && is_live(&sessions, "used"));
    drop(active);
    assert_eq!(sessions.hibernate_all().hibernated, [id("used")]);
    assert_eq!((run(&idle, COUNT), run(&used, COUNT)), ("2".into(), "2".into()));
}

#[test]
fn background_thread_hibernates_idle_sessions() {
    let dir = tempdir().unwrap();
    let sessions = open(dir.path(), |policy| policy.idle_ms = 1);
    let session = python(&sessions, "a");
    run(&session, COUNT);
    let thread = sessions.hibernate_idle_in_background(Duration::from_millis(5)).unwrap();
    let begun = Instant::now();
    while is_live(&sessions, "a") {
        assert!(begun.elapsed() < Duration::from_secs(20), "the session was never hibernated");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(thread);
    // An interval beyond the clock's range is treated as a very long interval.
    drop(sessions.hibernate_idle_in_background(Duration::MAX).unwrap());
    run(&session, COUNT);
    std::thread::sleep(Duration::from_millis(50));
    assert!(is_live(&sessions, "a"), "hibernation stops with its thread");
}

#[test]
fn number_of_live_sessions_is_limited() {
    let dir = tempdir().unwrap();
    let sessions = open(dir.path(), |policy| policy.live_count = 2);
    let all: Vec<SessionGuard> = ["a", "b", "c"].iter().map(|name| python(&sessions, name)).collect();
    assert!(!is_live(&sessions, "a"), "the least recently used session is hibernated");
    for round in 1..3 {
        for session in &all {
            assert_eq!(run(session, COUNT), round.to_string());
        }
    }
    run(&all[1], COUNT);
    run(&all[0], COUNT);
    assert!(is_live(&sessions, "a") && is_live(&sessions, "b") && !is_live(&sessions, "c"));
    let (one, two) = (all[0].activate().unwrap(), all[1].activate().unwrap());
    let error = all[2].execute(COUNT).unwrap_err();
    assert!(matches!(error, SessionsError::TooManyLive { max: 2 }), "{error}");
    drop(one);
    assert_eq!(run(&all[2], COUNT), "3");
    assert!(!is_live(&sessions, "a"));
    drop(two);
}

#[test]
fn one_session_can_always_be_live() {
    for live_count in [0, 1] {
        let dir = tempdir().unwrap();
        let sessions = open(dir.path(), |policy| policy.live_count = live_count);
        let (one, other) = (python(&sessions, "a"), python(&sessions, "b"));
        assert_eq!((run(&one, COUNT), run(&other, COUNT)), ("1".into(), "1".into()));
        assert!(!is_live(&sessions, "a") && is_live(&sessions, "b"));
        let _used = other.activate().unwrap();
        assert!(matches!(one.execute(COUNT), Err(SessionsError::TooManyLive { max: 1 })));
    }
}

#[test]
fn session_names_are_unique() {
    let dir = tempdir().unwrap();
    let sessions = open(dir.path(), |_| {});
    let missing = id("missing");
    assert!(sessions.get(&missing).unwrap().is_none());
    assert!(matches!(sessions.open(&missing), Err(SessionsError::NotFound { .. })));
    assert!(matches!(sessions.guard_of(&missing), Err(SessionsError::NotFound { .. })));
    sessions.create(id("a"), NewSession::default().context(serde_json::json!({"k": 1}))).unwrap();
    let again = || sessions.create(id("a"), NewSession::default());
    assert!(matches!(again(), Err(SessionsError::Exists { .. })), "live");
    sessions.hibernate(&id("a")).unwrap();
    assert!(matches!(again(), Err(SessionsError::Exists { .. })), "hibernated");
    assert_eq!(run(&python(&sessions, "a"), "print(context)"), "{'k': 1}");
    fs::write(dir.path().join("b.session"), "damaged").unwrap();
    assert!(matches!(sessions.create(id("b"), NewSession::default()), Err(SessionsError::Exists { .. })), "damaged");
    let wanted = NewSession::default().language(Language::JavaScript);
    let error = sessions.open_or_create(id("a"), wanted).unwrap_err();
    assert!(matches!(error, SessionsError::Language { wanted: Language::JavaScript, .. }), "{error}");
}

/// An extension trait that uses a deleted session.
trait GuardOf {
    /// Creates and deletes a session, then uses its handle, and returns the resulting error.
    fn guard_of(&self, id: &SessionId) -> Result<SessionGuard, SessionsError>;
}

impl GuardOf for Sessions {
    fn guard_of(&self, id: &SessionId) -> Result<SessionGuard, SessionsError> {
        let session = self.create(id.clone(), NewSession::default())?;
        assert!(self.delete(id)?);
        session.execute("1").map(|_| session)
    }
}

#[test]
fn stored_fork_is_independent() {
    let dir = tempdir().unwrap();
    let sessions = open(dir.path(), |_| {});
    let session = python(&sessions, "a");
    run(&session, "n = 10; open('f', 'w').write('x')");
    let fork = sessions.fork(&id("a"), id("b")).unwrap();
    assert!(matches!(sessions.fork(&id("a"), id("b")), Err(SessionsError::Exists { .. })));
    assert!(matches!(sessions.fork(&id("none"), id("c")), Err(SessionsError::NotFound { .. })));
    assert_eq!(run(&fork, COUNT), "11");
    assert_eq!(run(&fork, "import os; os.remove('f'); print(os.listdir())"), "[]");
    drop((session, fork, sessions));
    let sessions = open(dir.path(), |_| {});
    assert_eq!(run(&python(&sessions, "a"), "print(n, open('f').read())"), "10 x");
    assert_eq!(run(&python(&sessions, "b"), "print(n)"), "11");
}

#[test]
fn seeded_forks_draw_different_numbers_in_any_process() {
    let dir = tempdir().unwrap();
    let mut drawn = std::collections::BTreeSet::new();
    for fork in ["b", "c"] {
        let sessions = Sessions::builder(Arc::new(DirectoryStore::open(dir.path()).unwrap()))
            .sandbox(sandbox(Language::Python, |policy| policy.entropy = Entropy::Seeded(7)))
            .build();
        python(&sessions, "a");
        let fork = sessions.fork(&id("a"), id(fork)).unwrap();
        drawn.insert(run(&fork, "import os; print(os.urandom(16).hex())"));
    }
    assert_eq!(drawn.len(), 2, "{drawn:?}");
}

#[test]
fn session_is_exported_and_imported() {
    let (here, there) = (tempdir().unwrap(), tempdir().unwrap());
    let sessions = open(here.path(), |policy| policy.save = Save::OnHibernate);
    run(&python(&sessions, "a"), "n = 41");
    let live = sessions.export(&id("a")).unwrap();
    assert_eq!(HibernatedInfo::read(&live).unwrap().executions, 1, "the export contains unsaved changes");
    sessions.hibernate(&id("a")).unwrap();
    let stored = sessions.export(&id("a")).unwrap();
    assert!(stored == sessions.export(&id("a")).unwrap(), "a hibernated export is stable");
    assert!(matches!(sessions.export(&id("none")), Err(SessionsError::NotFound { .. })));

    // Neither importing nor exporting needs an interpreter.
    let store = Arc::new(DirectoryStore::open(there.path()).unwrap());
    let bare = Sessions::builder(store).build();
    bare.import(id("b"), &live, IfExists::Fail).unwrap();
    assert!(bare.export(&id("b")).unwrap() == live);
    assert!(matches!(bare.import(id("b"), &live, IfExists::Fail), Err(SessionsError::Exists { .. })));
    bare.import(id("b"), &live, IfExists::Replace).unwrap();
    let error = bare.open(&id("b")).unwrap().execute("1").unwrap_err();
    assert!(matches!(error, SessionsError::NoSandbox { language: Language::Python, .. }), "{error}");
    for bytes in [&live[..live.len() - 1], b"other"] {
        assert!(matches!(bare.import(id("c"), bytes, IfExists::Fail), Err(SessionsError::Resume { .. })));
    }
    bare.add_sandbox(sandbox(Language::Python, |_| {}));
    assert_eq!(run(&bare.open(&id("b")).unwrap(), COUNT), "42");
    let active = bare.open(&id("b")).unwrap().activate().unwrap();
    assert!(matches!(bare.import(id("b"), &live, IfExists::Replace), Err(SessionsError::InUse { .. })));
    drop(active);
    bare.import(id("b"), &live, IfExists::Replace).unwrap();
    assert_eq!(run(&bare.open(&id("b")).unwrap(), COUNT), "42", "the live session was replaced");
}

#[test]
fn key_prevents_forged_and_swapped_states() {
    let dir = tempdir().unwrap();
    let with_key = |byte: u8| {
        Sessions::builder(Arc::new(DirectoryStore::open(dir.path()).unwrap()))
            .sandbox(sandbox(Language::Python, |_| {}))
            .key(SessionKey::new(&[byte; 32]).unwrap())
            .build()
    };
    let sessions = with_key(1);
    run(&python(&sessions, "a"), "n = 1");
    run(&python(&sessions, "b"), "n = 2");
    let exported = sessions.export(&id("a")).unwrap();
    let moved = sessions.import(id("c"), &exported, IfExists::Fail).unwrap();
    assert_eq!(run(&moved, COUNT), "2");
    drop((moved, sessions));

    // An attacker who can write to the directory replaces `b`'s state with `a`'s state.
    let store = DirectoryStore::open(dir.path()).unwrap();
    let StoredSession { state, .. } = block_on(store.get(&id("a"))).unwrap().unwrap();
    let lock = block_on(store.try_lock(&id("b"))).unwrap().unwrap();
    let StoredRecord { mut record, version, .. } = block_on(store.record(&id("b"))).unwrap().unwrap();
    record.bytes = state.len() as u64;
    block_on(store.put(&lock, &ExpectedVersion::Version(version), &record, &state)).unwrap();
    drop(lock);
    let sessions = with_key(1);
    let resumed = |sessions: &Sessions, name: &str| match sessions.open(&id(name)).unwrap().execute("1") {
        Err(SessionsError::Resume { source, .. }) => *source,
        other => panic!("{other:?}"),
    };
    assert!(matches!(resumed(&sessions, "b"), ResumeError::NotAuthentic));
    assert_eq!(run(&python(&sessions, "a"), COUNT), "2");
    drop(sessions);
    assert!(matches!(resumed(&with_key(2), "a"), ResumeError::NotAuthentic));
    assert!(matches!(resumed(&open(dir.path(), |_| {}), "a"), ResumeError::KeyMissing));
}

#[test]
fn deleted_and_closed_sessions_are_gone() {
    let (dir, host) = (tempdir().unwrap(), tempdir().unwrap());
    let store = Arc::new(DirectoryStore::open(dir.path()).unwrap());
    let sandbox = sandbox(Language::Python, |policy| policy.workspace = Some(host.path().to_owned()));
    let sessions = Sessions::builder(store).sandbox(sandbox).build();
    let at_exit = "import atexit; atexit.register(lambda: open('bye', 'w').write('x'))";
    for (name, is_hibernated) in [("live", false), ("hibernated", true)] {
        for closes in [false, true] {
            let session = python(&sessions, name);
            run(&session, at_exit);
            if is_hibernated {
                sessions.hibernate(&id(name)).unwrap();
            }
            let active = (!is_hibernated && !closes).then(|| session.activate().unwrap());
            if let Some(active) = active {
                assert!(matches!(sessions.delete(&id(name)), Err(SessionsError::InUse { .. })));
                drop(active);
            }
            if closes {
                sessions.close(&id(name)).unwrap();
            } else {
                assert!(sessions.delete(&id(name)).unwrap());
            }
            // Exit handlers run when a session is closed, but not when it is deleted.
            assert_eq!(fs::remove_file(host.path().join("bye")).is_ok(), closes, "{name}");
            assert!(!sessions.delete(&id(name)).unwrap());
            assert!(matches!(session.execute("1"), Err(SessionsError::NotFound { .. })));
        }
    }
    assert!(matches!(sessions.close(&id("live")), Err(SessionsError::NotFound { .. })));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "closing must remove every file");
}

#[test]
fn exiting_session_keeps_its_saved_state() {
    let dir = tempdir().unwrap();
    let sessions = open(dir.path(), |_| {});
    let session = python(&sessions, "a");
    run(&session, COUNT);
    let execution = session.execute("n = 100; import os; os._exit(3)").unwrap();
    assert_eq!(execution.outcome.exit_code(), 3);
    assert!(!is_live(&sessions, "a"));
    assert_eq!(run(&session, COUNT), "2");
}

#[test]
fn session_with_a_failed_commit_is_saved() {
    let (dir, host) = (tempdir().unwrap(), tempdir().unwrap());
    let open = || {
        Sessions::builder(Arc::new(DirectoryStore::open(dir.path()).unwrap()))
            .sandbox(sandbox(Language::Python, |policy| policy.workspace = Some(host.path().to_owned())))
            .build()
    };
    let sessions = open();
    let error = python(&sessions, "a").execute("n = 41; open('.glovebox-commit-x', 'w').close()").unwrap_err();
    assert!(matches!(error, SessionsError::Execute(ExecuteError::Commit { .. })), "{error}");
    drop(sessions);
    let sessions = open();
    let session = python(&sessions, "a");
    assert_eq!(run(&session, "import os; os.remove('.glovebox-commit-x'); n += 1; print(n)"), "42");
    assert_eq!(sessions.record(&id("a")).unwrap().unwrap().executions, 2);
}

#[test]
fn live_sessions_are_not_pruned() {
    let dir = tempdir().unwrap();
    let sessions = open(dir.path(), |_| {});
    run(&python(&sessions, "live"), COUNT);
    run(&python(&sessions, "hibernated"), COUNT);
    sessions.hibernate(&id("hibernated")).unwrap();
    let mut prune = PruneLimits::default();
    prune.max_count = Some(0);
    let report = sessions.prune(&prune).unwrap();
    assert_eq!(report.deleted.iter().map(|pruned| &pruned.id).collect::<Vec<_>>(), [&id("hibernated")]);
    assert_eq!(report.skipped.len(), 1);
    assert_eq!((&report.skipped[0].id, report.skipped[0].reason), (&id("live"), SkipReason::InUse));
    assert_eq!(run(&python(&sessions, "live"), COUNT), "2");
}

#[test]
fn many_threads_share_few_live_sessions() {
    let dir = tempdir().unwrap();
    let sessions = open(dir.path(), |policy| {
        policy.live_count = 4;
        policy.idle_ms = 0;
        policy.save = Save::OnHibernate;
    });
    let idle_thread = sessions.hibernate_idle_in_background(Duration::from_millis(1)).unwrap();
    let names = ["a", "b", "c", "d", "e", "f"];
    const EACH: usize = 30;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (sessions, names) = (&sessions, &names);
            scope.spawn(move || {
                for step in 0..EACH {
                    let session = javascript(sessions, names[(thread + step) % names.len()]);
                    run(&session, COUNT_JS);
                }
            });
        }
    });
    drop(idle_thread);
    let counts = names.map(|name| run(&javascript(&sessions, name), COUNT_JS).parse::<usize>().unwrap() - 1);
    assert_eq!(counts.iter().sum::<usize>(), 4 * EACH, "{counts:?}");
    drop(sessions);
    let left: Vec<PathBuf> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left.len(), names.len(), "lock files must be removed: {left:?}");
}

#[test]
fn session_uses_the_sandbox_of_its_image() {
    let dir = tempdir().unwrap();
    let sessions = Sessions::builder(Arc::new(DirectoryStore::open(dir.path()).unwrap()));
    let bare: Sandbox = sandbox(Language::JavaScript, |policy| policy.limits.stdout_bytes = 100);
    let sessions = sessions.sandbox(bare).build();
    let error = sessions.create(id("a"), NewSession::default().language(Language::Python)).unwrap_err();
    assert!(matches!(error, SessionsError::NoSandbox { language: Language::Python, .. }), "{error}");
    assert!(sessions.list_all().unwrap().is_empty());
    assert_eq!(run(&python(&sessions, "a"), COUNT_JS), "1", "the default is the first sandbox's language");
    sessions.add_sandbox(sandbox(Language::Python, |_| {}));
    sessions.create(id("p"), NewSession::default().language(Language::Python)).unwrap();
    sessions.hibernate_all();
    assert_eq!(run(&sessions.open(&id("a")).unwrap(), COUNT_JS), "2");
    assert_eq!(run(&sessions.open(&id("p")).unwrap(), COUNT), "1");
}
