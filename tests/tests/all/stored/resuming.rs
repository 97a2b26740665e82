//! Tests suspended executions that are resumed in stored sessions.

use glovebox::{ExecuteError, Request, Step, Suspended, Tool, ToolAnswer};
use glovebox_sessions::{ActiveSession, SessionGuard, SessionsError};
use serde_json::json;
use tempfile::tempdir;

use super::support::{id, is_live, open, python, run};

fn tools() -> Vec<Tool> {
    vec![Tool::new("ask", "Asks the caller.").stepped()]
}

/// Suspends an execution in a session, and returns the session to its state before the execution.
fn suspend(session: &SessionGuard) -> Suspended {
    let active = session.activate().unwrap();
    let request = Request::new("x.append(tools.ask(q=1))").tools(tools()).suspendable(true);
    let started = active.start(request).unwrap();
    assert!(matches!(started.advance(Vec::new(), None).unwrap(), Step::NeedsTools(_)));
    let suspended = started.suspend().unwrap();
    assert!(matches!(started.advance(Vec::new(), None).unwrap(), Step::Done(_)));
    suspended
}

fn restore(session: &SessionGuard, suspended: &Suspended) -> ActiveSession {
    session.restore_suspended::<SessionsError>(suspended, |_| Ok(())).unwrap()
}

#[test]
fn session_keeps_its_state_if_a_resumption_is_refused() {
    let dir = tempdir().unwrap();
    let sessions = open(dir.path(), |_| {});
    let session = python(&sessions, "a");
    run(&session, "x = ['before']");
    let suspended = suspend(&session);
    run(&session, "x = ['later']");
    let record = || sessions.record(&id("a")).unwrap().unwrap();
    let later = record();
    for _ in 0..2 {
        let active = restore(&session, &suspended);
        let refused = active.start(suspended.request().tools(tools()).recorded(true));
        assert!(matches!(refused, Err(ExecuteError::RecordedInSession)), "{refused:?}");
        drop(active);
        assert!(!is_live(&sessions, "a"), "the restored state is discarded");
        sessions.hibernate_all();
        assert_eq!((record().generation, record().bytes), (later.generation, later.bytes));
    }
    assert_eq!(run(&session, "print(x)"), "['later']");
    // The execution can still be resumed.
    let active = restore(&session, &suspended);
    let resumed = active.start(suspended.request().tools(tools())).unwrap();
    assert!(matches!(resumed.advance(Vec::new(), None).unwrap(), Step::NeedsTools(_)));
    let Step::Done(done) = resumed.advance(vec![ToolAnswer::value(0, &json!("answer"))], None).unwrap() else {
        panic!("the script has one call");
    };
    active.save_after(Ok((*done).clone())).unwrap();
    drop(active);
    assert_eq!(run(&session, "print(x)"), "['before', 'answer']");
}

#[test]
fn restored_session_stays_once_it_is_saved() {
    let dir = tempdir().unwrap();
    let sessions = open(dir.path(), |_| {});
    let session = python(&sessions, "a");
    run(&session, "x = ['before']");
    let suspended = suspend(&session);
    run(&session, "x = ['later']");
    drop(restore(&session, &suspended));
    assert_eq!(run(&session, "print(x)"), "['later']");
    restore(&session, &suspended).save().unwrap();
    assert_eq!(run(&session, "print(x)"), "['before']");
}

#[test]
fn changes_of_another_use_of_a_restored_session_stay() {
    let dir = tempdir().unwrap();
    let sessions = open(dir.path(), |_| {});
    let session = python(&sessions, "a");
    run(&session, "x = ['before']");
    let suspended = suspend(&session);
    run(&session, "x = ['later']");
    for ends_first in [true, false] {
        let active = restore(&session, &suspended);
        let other = session.activate().unwrap();
        assert!(other.execute("x.append('other')").unwrap().is_success());
        if ends_first {
            drop(other);
            drop(active);
        } else {
            drop(active);
            other.save().unwrap();
            drop(other);
        }
        assert_eq!(run(&session, "print(x)"), "['before', 'other']", "{ends_first}");
    }
}
