//! Tests sessions that another process has taken over after their lock was lost.

use std::{fs, sync::Arc, time::Instant};

use glovebox::{IfExists, Language, Request};
use glovebox_sessions::{Save, SessionGuard, Sessions, SessionsError, StorePolicy, StoredRecord, block_on};
use glovebox_tests::sandbox;
use tempfile::tempdir;

use super::{
    support::{COUNT, id, is_live, open_in as open, python, run},
    test_store::{TestStore, on_each_store},
};

on_each_store![
    executions_in_a_taken_over_session_are_discarded,
    discarded_session_runs_no_exit_handlers,
    unsaved_changes_of_a_taken_over_session_are_dropped,
    taken_over_session_frees_its_slot,
    all_handles_report_the_takeover,
    session_removed_or_replaced_elsewhere_is_discarded,
    every_write_is_fenced,
    both_managers_continue_in_turns,
];

fn is_fenced<T>(result: Result<T, SessionsError>) -> bool {
    matches!(result, Err(SessionsError::Fenced { id: fenced }) if fenced == id("a"))
}

fn stored(sessions: &Sessions) -> Option<StoredRecord> {
    block_on(sessions.store().record(&id("a"))).unwrap()
}

/// Opens a live session whose count is 1. Another process takes the session over and stores a count of 2.
fn taken_over(place: &dyn TestStore, edit: impl FnOnce(&mut StorePolicy)) -> (Sessions, SessionGuard, Sessions) {
    let (here, there) = (open(place, edit), open(place, |_| {}));
    let session = python(&here, "a");
    assert_eq!(run(&session, COUNT), "1");
    session.activate().unwrap().save().unwrap();
    place.lose_lock(&id("a"));
    assert_eq!(run(&python(&there, "a"), COUNT), "2");
    (here, session, there)
}

fn executions_in_a_taken_over_session_are_discarded(place: &dyn TestStore) {
    let (here, session, there) = taken_over(place, |_| {});
    let before = stored(&here);
    let error = session.execute("n = 100").unwrap_err();
    assert_eq!(
        error.to_string(),
        "another process took over session `a`; the unsaved changes of this process were discarded; \
         run the script again"
    );
    assert!(is_fenced::<()>(Err(error)));
    assert_eq!(stored(&here), before, "the other process's session is unchanged");
    assert!(!is_live(&here, "a") && is_live(&there, "a"));
    // The other process now holds the lock.
    assert!(matches!(session.execute(COUNT), Err(SessionsError::InUse { .. })));
    assert!(there.hibernate(&id("a")).unwrap());
    assert_eq!(run(&session, COUNT), "3", "execution continues from the other process's state");
    assert!(here.hibernate(&id("a")).unwrap());
    assert_eq!(run(&python(&there, "a"), COUNT), "4");
}

fn discarded_session_runs_no_exit_handlers(place: &dyn TestStore) {
    let host = tempdir().unwrap();
    let open = || {
        let sandbox = sandbox(Language::Python, |policy| policy.workspace = Some(host.path().to_owned()));
        Sessions::builder(place.open()).sandbox(sandbox).build()
    };
    let (here, there) = (open(), open());
    let session = python(&here, "a");
    run(&session, "import atexit; atexit.register(lambda: open('bye', 'w').write('x'))");
    place.lose_lock(&id("a"));
    run(&python(&there, "a"), "1");
    assert!(is_fenced(session.execute("1")));
    assert!(!host.path().join("bye").exists());
    drop((session, here));
    assert!(!host.path().join("bye").exists());
    there.close(&id("a")).unwrap();
    assert_eq!(fs::read(host.path().join("bye")).unwrap(), b"x", "hooks run when the other process closes the session");
}

fn unsaved_changes_of_a_taken_over_session_are_dropped(place: &dyn TestStore) {
    for all in [false, true] {
        let (here, session, there) = taken_over(place, |policy| policy.save = Save::OnHibernate);
        run(&session, "n = 100");
        if all {
            let report = here.hibernate_idle(Instant::now() + std::time::Duration::from_secs(3_600));
            assert_eq!((report.hibernated.len(), report.errors.len()), (0, 1));
            assert!(matches!(&report.errors[0], (name, SessionsError::Fenced { .. }) if *name == id("a")));
        } else {
            assert!(is_fenced(here.hibernate(&id("a"))));
        }
        assert!(!is_live(&here, "a"));
        assert!(!here.hibernate(&id("a")).unwrap(), "no live session is left");
        there.hibernate(&id("a")).unwrap();
        assert_eq!(run(&session, COUNT), "3");
        assert!(here.delete(&id("a")).unwrap());
    }
}

fn taken_over_session_frees_its_slot(place: &dyn TestStore) {
    let (here, session, there) = taken_over(place, |policy| (policy.save, policy.live_count) = (Save::OnHibernate, 1));
    run(&session, "n = 100");
    assert_eq!(run(&python(&here, "b"), COUNT), "1");
    assert!(!is_live(&here, "a") && is_live(&here, "b"));
    there.hibernate_all();
    assert_eq!(run(&session, COUNT), "3");
}

fn all_handles_report_the_takeover(place: &dyn TestStore) {
    for save in [Save::AfterEach, Save::OnHibernate] {
        let (here, session, there) = taken_over(place, |policy| policy.save = save);
        let (one, other) = (session.activate().unwrap(), session.activate().unwrap());
        one.set_variable("n", &serde_json::json!(100)).unwrap();
        assert!(is_fenced(one.save()), "{save:?}");
        // The session has been taken over, but its guest still runs here.
        let executed = other.run(Request::new(COUNT));
        assert!(executed.is_ok(), "{save:?}");
        assert!(is_fenced(other.save_after(executed)), "{save:?}");
        assert!(is_fenced(other.save()), "{save:?}");
        there.hibernate_all();
        // In the meantime, a new activation loads the stored session.
        let next = session.activate().unwrap();
        assert_eq!(next.execute(COUNT).unwrap().stdout.text().trim_end(), "3", "{save:?}");
        drop((one, other));
        assert!(is_live(&here, "a"), "{save:?}");
        next.save().unwrap();
        drop(next);
        assert_eq!(run(&session, COUNT), "4", "{save:?}");
        assert!(here.delete(&id("a")).unwrap());
    }
}

fn session_removed_or_replaced_elsewhere_is_discarded(place: &dyn TestStore) {
    let (here, there) = (open(place, |_| {}), open(place, |_| {}));
    let session = python(&here, "a");
    run(&session, COUNT);
    let exported = here.export(&id("a")).unwrap();
    place.lose_lock(&id("a"));
    assert!(there.delete(&id("a")).unwrap());
    assert!(is_fenced(session.execute(COUNT)), "removed");
    assert!(matches!(session.execute(COUNT), Err(SessionsError::NotFound { .. })));

    // A session under this name is a different session, even if its bytes are equal.
    here.import(id("a"), &exported, IfExists::Fail).unwrap();
    assert_eq!(run(&session, COUNT), "2");
    let exported = here.export(&id("a")).unwrap();
    place.lose_lock(&id("a"));
    assert!(there.delete(&id("a")).unwrap());
    there.import(id("a"), &exported, IfExists::Fail).unwrap();
    assert!(is_fenced(session.execute(COUNT)), "the session was deleted and recreated");
    assert_eq!(run(&session, COUNT), "3");
}

fn every_write_is_fenced(place: &dyn TestStore) {
    type Writes = fn(&Sessions) -> Result<(), SessionsError>;
    let exported = {
        let sessions = open(place, |_| {});
        run(&python(&sessions, "a"), "n = 500");
        let exported = sessions.export(&id("a")).unwrap();
        sessions.delete(&id("a")).unwrap();
        Arc::new(exported)
    };
    let import = |sessions: &Sessions| sessions.import(id("a"), &exported, IfExists::Replace).map(drop);
    let writes: [(&str, Writes); 4] = [
        ("delete", |sessions| sessions.delete(&id("a")).map(drop)),
        ("close", |sessions| sessions.close(&id("a"))),
        ("fork", |sessions| sessions.fork(&id("a"), id("fork")).map(drop)),
        ("export", |sessions| {
            sessions.open(&id("a"))?.activate()?.set_variable("n", &serde_json::json!(100))?;
            sessions.export(&id("a")).map(drop)
        }),
    ];
    let writes = writes.iter().map(|(name, write)| (*name, write as &dyn Fn(&Sessions) -> Result<(), SessionsError>));
    for (name, write) in writes.chain([("import", &import as _)]) {
        let (here, session, there) = taken_over(place, |_| {});
        let before = stored(&here);
        assert!(is_fenced(write(&here)), "{name}");
        assert_eq!(stored(&here), before, "{name}");
        assert!(!is_live(&here, "a"), "{name}");
        assert!(here.get(&id("fork")).unwrap().is_none(), "{name}");
        there.hibernate_all();
        // The operation can be repeated after the error.
        assert_eq!(run(&session, COUNT), "3", "{name}");
        write(&here).unwrap();
        here.delete(&id("a")).unwrap();
        here.delete(&id("fork")).unwrap();
    }
}

fn both_managers_continue_in_turns(place: &dyn TestStore) {
    let sides = [open(place, |_| {}), open(place, |_| {})];
    let mut acknowledged = 0;
    let mut fenced = 0;
    for round in 0..12 {
        let side = &sides[round % 2];
        if round > 0 {
            place.lose_lock(&id("a"));
        }
        match python(side, "a").execute(COUNT) {
            Ok(execution) => {
                acknowledged += 1;
                assert_eq!(execution.stdout.text().trim_end(), acknowledged.to_string(), "round {round}");
            }
            Err(SessionsError::Fenced { .. }) => {
                fenced += 1;
                // Repeats the execution in the stored session.
                acknowledged += 1;
                assert_eq!(run(&python(side, "a"), COUNT), acknowledged.to_string(), "round {round}");
            }
            Err(error) => panic!("round {round}: {error}"),
        }
    }
    assert_eq!((acknowledged, fenced), (12, 10), "each side was live from its first turn");
}
