//! Tests started executions in sessions.

use std::{thread, time::Duration};

use glovebox::{ExecuteError, HibernateOptions, IfBusy, Language, OnUnwind, Outcome, Request, Session, Started, Step};

use super::{BOTH, answer, done, needs, of, stepped, text};

const ASKS: (&str, &str) = ("x = tools.ask(q=1)\nx", "var x = await tools.ask({q: 1}); x");

fn start(session: &Session, source: &str) -> Started {
    session.start(Request::new(source)).unwrap()
}

fn refused(session: &Session) -> bool {
    let refused = session.run(Request::new("1").if_busy(IfBusy::Refuse));
    matches!(refused, Err(ExecuteError::SessionBusy { .. }))
}

#[test]
fn session_continues_after_a_started_execution() {
    for language in BOTH {
        let session = stepped(language, &[], |_| {}).session().unwrap();
        for round in [1, 2] {
            let started = start(&session, of(language, ASKS.0, ASKS.1));
            let requests = needs(&started, Vec::new());
            let execution = done(&started, vec![answer(&requests[0], round * 20)]);
            assert_eq!(execution.value.as_ref().unwrap().repr, (round * 20).to_string());
            assert_eq!(execution.session_id.as_deref(), Some(session.id()));
            assert_eq!(session.execute("x + 1").unwrap().value.unwrap().repr, (round * 20 + 1).to_string());
        }
    }
}

#[test]
fn started_execution_occupies_the_session_until_its_end() {
    for language in BOTH {
        let session = stepped(language, &[], |_| {}).session().unwrap();
        // A later call waits for the started execution, even if another thread makes it.
        let started = start(&session, of(language, ASKS.0, ASKS.1));
        assert!(refused(&session));
        assert!(matches!(
            session.start(Request::new("1").if_busy(IfBusy::Refuse)).unwrap_err(),
            ExecuteError::SessionBusy { .. }
        ));
        assert!(session.idle_for().is_none());
        let requests = needs(&started, Vec::new());
        thread::scope(|scope| {
            let waiting = scope.spawn(|| session.execute("x").unwrap().value.unwrap().repr);
            let forking = scope.spawn(|| session.fork().unwrap());
            done(&started, vec![answer(&requests[0], 5)]);
            assert_eq!(waiting.join().unwrap(), "5");
            assert_eq!(forking.join().unwrap().execute("x").unwrap().value.unwrap().repr, "5");
        });
    }
}

#[test]
fn wait_for_a_session_has_a_timeout() {
    let sandbox = stepped(Language::Python, &[], |_| {});
    let session = sandbox.session().unwrap();
    let started = start(&session, ASKS.0);
    let late = session.start(Request::new("x = 2").cancel_after(Duration::from_millis(20))).unwrap();
    assert_eq!(done(&late, Vec::new()).outcome, Outcome::Cancelled, "cancelled while waiting for the session");
    let requests = needs(&started, Vec::new());
    done(&started, vec![answer(&requests[0], 1)]);
    assert_eq!(session.execute("x").unwrap().value.unwrap().repr, "1");
}

#[test]
fn size_of_the_state_before_an_execution_is_known() {
    for language in BOTH {
        let session = stepped(language, &[], |_| {}).session().unwrap();
        session.execute("y = [1, 2, 3]; 0").unwrap();
        let hibernated = session.hibernate(&HibernateOptions::default()).unwrap().len() as u64;
        for is_suspendable in [true, false] {
            let request = Request::new(of(language, ASKS.0, ASKS.1)).suspendable(is_suspendable);
            let started = session.start(request).unwrap();
            needs(&started, Vec::new());
            let measured = started.state_before_bytes().unwrap();
            assert_eq!(measured.is_some(), is_suspendable, "{language}");
            if let Some(measured) = measured {
                // Only the session's clock differs.
                assert!(measured.abs_diff(hibernated) < 64, "{language}: {measured} {hibernated}");
                assert!((started.suspend().unwrap().to_bytes(None).len() as u64) > measured, "{language}");
            }
        }
    }
}

#[test]
fn forks_and_sessions_step_concurrently() {
    let session = stepped(Language::Python, &[], |_| {}).session().unwrap();
    let fork = session.fork().unwrap();
    let (one, two) = (start(&session, ASKS.0), start(&fork, ASKS.0));
    let (first, second) = (needs(&one, Vec::new()), needs(&two, Vec::new()));
    done(&two, vec![answer(&second[0], 2)]);
    done(&one, vec![answer(&first[0], 1)]);
    let value = |session: &Session| session.execute("x").unwrap().value.unwrap().repr;
    assert_eq!((value(&session), value(&fork)), ("1".into(), "2".into()));
}

#[test]
fn dropped_execution_rolls_the_session_back() {
    for language in BOTH {
        // Without a soft limit, the script is unwound and the session is rolled back.
        let session = stepped(language, &[], |policy| policy.limits.timeout_reserve_ms = 0).session().unwrap();
        session.execute(of(language, "x = 7", "var x = 7")).unwrap();
        let started = start(&session, of(language, "x = 8; tools.ask(q=1)", "x = 8; await tools.ask({q: 1})"));
        needs(&started, Vec::new());
        drop(started);
        assert_eq!(session.execute("x").unwrap().value.unwrap().repr, "7");
        assert_eq!(session.info().rollbacks, 1);
    }
}

#[test]
fn session_ended_by_the_execution_reports_it() {
    let session = stepped(Language::Python, &[], |policy| {
        policy.limits.timeout_reserve_ms = 0;
        policy.session.on_unwind = OnUnwind::End;
    })
    .session()
    .unwrap();
    let started = start(&session, ASKS.0);
    needs(&started, Vec::new());
    drop(started);
    assert!(matches!(session.execute("1").unwrap_err(), ExecuteError::SessionEnded { .. }));
    assert!(matches!(session.start(Request::new("1")).unwrap_err(), ExecuteError::SessionEnded { .. }));
}

#[test]
fn session_handle_can_be_dropped_while_running() {
    for language in BOTH {
        let session = stepped(language, &[], |_| {}).session().unwrap();
        let started = start(&session, of(language, ASKS.0, ASKS.1));
        drop(session);
        let requests = needs(&started, Vec::new());
        assert_eq!(done(&started, vec![answer(&requests[0], 3)]).value.as_ref().unwrap().repr, "3");
    }
}

#[test]
fn panic_rolls_the_session_back() {
    let session = stepped(Language::Python, &[], |_| {}).session().unwrap();
    session.execute("x = 1").unwrap();
    let request = Request::new("x = 2; print(1)").on_output(|_, _| panic!("as the test wants it"));
    let started = session.start(request).unwrap();
    assert!(started.advance(Vec::new(), None).is_err());
    assert_eq!(session.execute("x").unwrap().value.unwrap().repr, "1");
}

#[test]
fn started_executions_of_a_session_run_in_sequence() {
    let session = stepped(Language::JavaScript, &[], |_| {}).session().unwrap();
    session.execute("var n = 0").unwrap();
    for _ in 0..50 {
        let started = start(&session, "n += await tools.ask({q: n})");
        let requests = needs(&started, Vec::new());
        let step = started.advance(vec![answer(&requests[0], 2)], None).unwrap();
        assert!(matches!(step, Step::Done(_)));
    }
    assert_eq!(text(&session.execute("console.log(n)").unwrap()), "100\n");
}
