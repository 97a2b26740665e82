//! Tests many threads that use one session: waiting, timeouts and order.

use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use glovebox::{CancelToken, ExecuteError, IfBusy, Language, Policy, Request, Session};
use glovebox_tests::{sandbox, short};

const LANGUAGES: [Language; 2] = [Language::Python, Language::JavaScript];

/// Returns a script that reports its start and then sleeps.
fn slow(language: Language) -> &'static str {
    match language {
        Language::Python => "import time\nprint('begun', flush=True)\ntime.sleep(600)",
        Language::JavaScript => "console.log('begun'); os.sleep(600000)",
    }
}

/// Sets a timeout that no test reaches, and no reserve, so that a cancelled script ends immediately.
fn unhurried(policy: &mut Policy) {
    policy.limits.timeout_ms = 600_000;
    policy.limits.timeout_reserve_ms = 0;
}

/// Starts a thread that executes the slow script, and waits until the script runs. Cancelling the token ends the
/// script.
fn hold<'scope>(scope: &'scope thread::Scope<'scope, '_>, session: &'scope Session, cancel: &'scope CancelToken) {
    let (begun, has_begun) = mpsc::channel();
    scope.spawn(move || {
        let source = slow(session.sandbox().language());
        let request = Request::new(source).cancel(cancel).on_output(move |_, _| begun.send(()).unwrap_or_default());
        session.run(request).unwrap();
    });
    has_begun.recv().unwrap();
}

/// Waits until this many threads wait for the session.
fn until_waiting(session: &Session, count: usize) {
    let begun = Instant::now();
    while session.waiting_count() != count {
        assert!(begun.elapsed() < Duration::from_secs(60), "{count} threads never waited");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn waiting_callers_are_served_in_order() {
    let session = sandbox(Language::Python, |policy| policy.limits.timeout_ms = 600_000).session().unwrap();
    session.execute("order = []").unwrap();
    let cancel = CancelToken::new();
    thread::scope(|scope| {
        hold(scope, &session, &cancel);
        for number in 0..6 {
            let session = &session;
            scope.spawn(move || assert!(session.execute(&format!("order.append({number})")).unwrap().is_success()));
            until_waiting(session, number + 1);
        }
        cancel.cancel();
    });
    assert_eq!(session.get_variable("order").unwrap().unwrap().repr, "[0, 1, 2, 3, 4, 5]");
}

#[test]
fn busy_session_rejects_callers_without_wait() {
    for language in LANGUAGES {
        let session = sandbox(language, unhurried).session().unwrap();
        let refused = |source| session.run(Request::new(source).if_busy(IfBusy::Refuse));
        assert!(refused("1").unwrap().is_success(), "the session is free");
        let cancel = CancelToken::new();
        thread::scope(|scope| {
            hold(scope, &session, &cancel);
            assert!(matches!(refused("2"), Err(ExecuteError::SessionBusy { .. })));
            assert_eq!((session.idle_for(), session.ended()), (None, None), "these calls must not wait");
            assert_eq!(session.info().executions, 1);
            cancel.cancel();
        });
        assert!(refused("3").unwrap().is_success(), "free again");
        assert!(session.idle_for().is_some());
    }
}

#[test]
fn waiting_can_be_cancelled_and_runs_nothing() {
    for language in LANGUAGES {
        let session = sandbox(language, unhurried).session().unwrap();
        let (cancel, give_up) = (CancelToken::new(), CancelToken::new());
        thread::scope(|scope| {
            hold(scope, &session, &cancel);
            let waiting = scope.spawn(|| session.run(Request::new("var_ = 1").cancel(&give_up)).unwrap());
            until_waiting(&session, 1);
            give_up.cancel();
            let execution = waiting.join().unwrap();
            assert_eq!((short(&execution.outcome).as_str(), execution.fuel_consumed), ("cancelled", 0));
            assert_eq!(execution.session_id.as_deref(), Some(session.id()));
            cancel.cancel();
        });
        assert_eq!(session.get_variable("var_").unwrap(), None);
    }
}

/// Starts a thread whose execution occupies the session until the returned sender is dropped.
fn block<'scope>(scope: &'scope thread::Scope<'scope, '_>, session: &'scope Session) -> mpsc::Sender<()> {
    let (begun, has_begun) = mpsc::channel();
    let (release, released) = mpsc::channel();
    scope.spawn(move || {
        let request = Request::new("console.log('begun')").on_output(move |_, _| {
            begun.send(()).unwrap_or_default();
            released.recv().unwrap_or_default();
        });
        session.run(request).unwrap();
    });
    has_begun.recv().unwrap();
    release
}

#[test]
fn wait_ends_at_the_execution_deadline() {
    // On a slow machine, a short wait can end before the session is free.
    for timeout_ms in [3_000, 30_000, 300_000] {
        let timeout = Duration::from_millis(timeout_ms);
        let session = sandbox(Language::JavaScript, |policy| {
            policy.limits.timeout_ms = timeout_ms;
            policy.limits.timeout_reserve_ms = 0;
        });
        let session = session.session().unwrap();
        let second = thread::scope(|scope| {
            let release = block(scope, &session);
            let begun = Instant::now();
            assert!(matches!(session.execute("1"), Err(ExecuteError::SessionBusy { .. })));
            assert!(begun.elapsed() >= timeout);
            let second = scope.spawn(|| session.execute(slow(Language::JavaScript)));
            while session.waiting_count() == 0 && !second.is_finished() {
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(timeout / 2);
            drop(release);
            second.join().unwrap()
        });
        if let Ok(execution) = &second {
            assert_eq!(short(&execution.outcome), "exhausted time");
            assert!(execution.duration >= timeout, "waiting must not count as execution time");
            assert!(session.execute("1").unwrap().is_success());
            return;
        }
        assert!(matches!(&second, Err(ExecuteError::SessionBusy { .. })));
    }
    panic!("the second execution never got its turn");
}

#[test]
fn a_fork_waits_for_the_execution_and_sees_all_of_it() {
    for language in LANGUAGES {
        let session = sandbox(language, |_| {}).session().unwrap();
        let (begin, swap) = match language {
            Language::Python => ("a = b = 0", "a += 1\nprint('half', flush=True)\nb += 1"),
            Language::JavaScript => ("var a = 0, b = 0", "a += 1; console.log('half'); b += 1"),
        };
        session.execute(begin).unwrap();
        thread::scope(|scope| {
            let worker = scope.spawn(|| (0..100).for_each(|_| drop(session.execute(swap).unwrap())));
            let mut last = 0;
            while !worker.is_finished() {
                let fork = session.fork().unwrap();
                let of = |name| fork.get_variable(name).unwrap().unwrap().repr.parse::<u32>().unwrap();
                assert_eq!(of("a"), of("b"), "{language}");
                assert!(of("a") >= last);
                last = of("a");
                fork.execute("a = 1000").unwrap();
            }
        });
        assert_eq!(session.get_variable("b").unwrap().unwrap().repr, "100");
    }
}

#[test]
fn closing_waits_for_earlier_callers_and_rejects_later() {
    let session = sandbox(Language::JavaScript, unhurried).session().unwrap();
    let cancel = CancelToken::new();
    thread::scope(|scope| {
        hold(scope, &session, &cancel);
        let closing = scope.spawn(|| session.close());
        until_waiting(&session, 1);
        let after = scope.spawn(|| session.execute("1"));
        until_waiting(&session, 2);
        assert!(!closing.is_finished());
        cancel.cancel();
        closing.join().unwrap().unwrap();
        assert!(matches!(after.join().unwrap(), Err(ExecuteError::SessionEnded { .. })));
    });
}
