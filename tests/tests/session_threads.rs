//! Many threads and one session: in order, nothing mixed, nothing lost.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test program: a panic is a failed test")]

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use glovebox::{
    CancelToken, ExecuteError, HibernateOptions, IfBusy, IfExists, Language, Request, ResumeOptions, Session,
};
use glovebox_tests::{sandbox, short};

const THREADS: usize = 8;
const ROUNDS: usize = 30;

fn print(language: Language, text: &str) -> String {
    match language {
        Language::Python => {
            format!("total += 1\nprint('{text}')\nimport sys; print('{text}', file=sys.stderr)\n'{text}'")
        }
        Language::JavaScript => format!("total += 1; console.log('{text}'); console.error('{text}'); '{text}'"),
    }
}

fn session(language: Language) -> Session {
    let session = sandbox(language, |_| {}).session().unwrap();
    session.execute(if language == Language::Python { "total = 0" } else { "var total = 0" }).unwrap();
    session
}

/// What another sandbox did: of 24 runs in one session 18 got another thread's output.
#[test]
fn every_thread_gets_its_own_output() {
    for language in Language::ALL {
        let session = session(language);
        thread::scope(|scope| {
            for worker in 0..THREADS {
                let session = &session;
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let mine = format!("w{worker}r{round}");
                        let streamed = Arc::new(Mutex::new(Vec::new()));
                        let heard = Arc::clone(&streamed);
                        let source = print(language, &mine);
                        let request = Request::new(&source)
                            .on_output(move |_, bytes| heard.lock().unwrap().extend_from_slice(bytes));
                        let execution = session.run(request).unwrap();
                        assert_eq!(execution.stdout.text(), format!("{mine}\n"));
                        assert_eq!(execution.stderr.text(), format!("{mine}\n"));
                        assert_eq!(execution.value.unwrap().repr, format!("'{mine}'"));
                        let streamed = String::from_utf8(streamed.lock().unwrap().clone()).unwrap();
                        assert_eq!(streamed, format!("{mine}\n{mine}\n"));
                    }
                });
            }
        });
        let total = session.get_variable("total").unwrap().unwrap();
        assert_eq!(total.repr, (THREADS * ROUNDS).to_string(), "{language}: none was lost");
    }
}

#[test]
fn whoever_comes_first_is_served_first() {
    let session = session(Language::Python);
    let order = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let (started, has_started) = mpsc::channel();
        let holds = &session;
        scope.spawn(move || {
            let request = Request::new("print('on', flush=True)\nimport time; time.sleep(1)")
                .on_output(move |_, _| started.send(()).unwrap_or_default());
            holds.run(request).unwrap();
        });
        has_started.recv().unwrap();
        for number in 0..6 {
            let (session, order) = (&session, &order);
            scope.spawn(move || {
                session.execute(&format!("order = {number}")).unwrap();
                order.lock().unwrap().push(number);
            });
            // Long against a thread's start, short against the second that the first one takes.
            thread::sleep(Duration::from_millis(40));
        }
    });
    assert_eq!(session.get_variable("order").unwrap().unwrap().repr, "5");
    assert_eq!(order.into_inner().unwrap().len(), 6);
}

#[test]
fn a_busy_session_refuses_who_does_not_want_to_wait() {
    let session = session(Language::Python);
    thread::scope(|scope| {
        let (started, has_started) = mpsc::channel();
        let cancel = CancelToken::new();
        let (holds, stop) = (&session, cancel.clone());
        let holding = scope.spawn(move || {
            let request = Request::new("total = 7\nprint('on', flush=True)\nimport time; time.sleep(9)")
                .cancel(&stop)
                .on_output(move |_, _| started.send(()).unwrap_or_default());
            holds.run(request).unwrap()
        });
        has_started.recv().unwrap();
        let begun = Instant::now();
        let refused = session.run(Request::new("total = 9").if_busy(IfBusy::Refuse));
        assert!(matches!(refused, Err(ExecuteError::SessionBusy { .. })), "{refused:?}");
        assert!(begun.elapsed() < Duration::from_secs(4), "it did not wait");
        // One that waits can be called off.
        let impatient = CancelToken::new();
        thread::scope(|scope| {
            let (session, impatient) = (&session, impatient.clone());
            let waiting = scope.spawn({
                let impatient = impatient.clone();
                move || session.run(Request::new("total = 9").cancel(&impatient))
            });
            thread::sleep(Duration::from_millis(50));
            impatient.cancel();
            let called_off = waiting.join().unwrap();
            match called_off {
                Ok(execution) => assert_eq!(short(&execution.outcome), "cancelled"),
                Err(error) => panic!("{error}"),
            }
        });
        cancel.cancel();
        assert_eq!(short(&holding.join().unwrap().outcome), "cancelled");
    });
    assert_ne!(session.get_variable("total").unwrap().unwrap().repr, "9", "neither has run");
    assert!(session.execute("total").unwrap().is_success());
}

/// Executions, forks, undos, files, variables and hibernation from many threads: each is whole.
#[test]
fn everything_at_once_is_still_one_at_a_time() {
    for language in Language::ALL {
        let sandbox = sandbox(language, |policy| {
            policy.limits.fuel = 50_000_000;
            policy.limits.fuel_reserve = 0;
        });
        let session = sandbox.session().unwrap();
        // Two variables that every script leaves equal, and unequal for a while.
        let step = match language {
            Language::Python => "a += 1\nb += 1\nassert a == b",
            Language::JavaScript => "a += 1; b += 1; if (a !== b) throw new Error('torn')",
        };
        let torn = match language {
            Language::Python => "a += 1\nwhile True: pass",
            Language::JavaScript => "a += 1; for (;;);",
        };
        let is_whole = match language {
            Language::Python => "a - b",
            Language::JavaScript => "a - b",
        };
        session.execute(if language == Language::Python { "a = b = 0" } else { "var a = 0, b = 0" }).unwrap();
        session.checkpoint().unwrap();
        let forks = Mutex::new(Vec::new());
        thread::scope(|scope| {
            let (sandbox, session, forks) = (&sandbox, &session, &forks);
            for _ in 0..3 {
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        assert_eq!(short(&session.execute(step).unwrap().outcome), "completed");
                    }
                });
            }
            scope.spawn(move || {
                for _ in 0..5 {
                    let execution = session.execute(torn).unwrap();
                    assert_eq!(short(&execution.outcome), "exhausted fuel");
                    assert!(execution.went_back.is_some());
                }
            });
            scope.spawn(move || {
                for _ in 0..10 {
                    forks.lock().unwrap().push(session.fork().unwrap());
                    session.undo().unwrap();
                }
            });
            scope.spawn(move || {
                for _ in 0..5 {
                    let bytes = session.hibernate(&HibernateOptions::default()).unwrap();
                    forks.lock().unwrap().push(sandbox.resume(&bytes, ResumeOptions::default()).unwrap());
                }
            });
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    session.files().write("f", round.to_string(), IfExists::Replace).unwrap();
                    session.files().snapshot().unwrap();
                    assert!(session.info().ended.is_none());
                    session.checkpoints().unwrap();
                }
            });
        });
        for one in forks.into_inner().unwrap().iter().chain([&session]) {
            assert_eq!(one.execute(is_whole).unwrap().value.unwrap().repr, "0", "{language}");
        }
    }
}

#[test]
fn forks_run_side_by_side_and_draw_different_numbers() {
    for language in Language::ALL {
        let session = session(language);
        let draw = match language {
            Language::Python => "import random, uuid\nf'{random.random()} {uuid.uuid4()}'",
            Language::JavaScript => "`${Math.random()}`",
        };
        session.execute(draw).unwrap();
        let forks: Vec<Session> = (0..6).map(|_| session.fork().unwrap()).collect();
        let drawn = Mutex::new(BTreeSet::new());
        thread::scope(|scope| {
            for fork in &forks {
                let drawn = &drawn;
                scope.spawn(move || {
                    for _ in 0..10 {
                        let number = fork.execute(draw).unwrap().value.unwrap().repr;
                        assert!(drawn.lock().unwrap().insert(number), "{language}: a number came twice");
                    }
                });
            }
        });
        assert_eq!(drawn.into_inner().unwrap().len(), 60);
    }
}

#[test]
fn a_panic_of_a_listener_leaves_the_others_their_session() {
    let session = session(Language::JavaScript);
    thread::scope(|scope| {
        let session = &session;
        let panics = scope.spawn(move || {
            session.run(Request::new("total += 100; console.log('x')").on_output(|_, _| panic!("on purpose")))
        });
        assert!(panics.join().is_err());
    });
    // It went back or it ended; it never runs on in the middle of a script.
    match session.execute("total") {
        Ok(execution) => assert_eq!(execution.value.unwrap().repr, "0"),
        Err(error) => assert!(matches!(error, ExecuteError::SessionEnded { .. }), "{error}"),
    }
}

#[test]
fn closing_waits_for_the_execution_under_way_and_ends_those_that_wait() {
    let session = session(Language::Python);
    let (done, late) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let (started, has_started) = mpsc::channel();
        let (running, done, late) = (&session, &done, &late);
        scope.spawn(move || {
            let request = Request::new("print('on', flush=True)\nimport time; time.sleep(0.4)")
                .on_output(move |_, _| started.send(()).unwrap_or_default());
            assert_eq!(short(&running.run(request).unwrap().outcome), "completed");
            done.store(true, Ordering::SeqCst);
        });
        has_started.recv().unwrap();
        let closing = scope.spawn(move || running.close());
        thread::sleep(Duration::from_millis(50));
        scope.spawn(move || match running.execute("1") {
            Err(ExecuteError::SessionEnded { .. }) => drop(late.fetch_add(1, Ordering::SeqCst)),
            other => panic!("{other:?}"),
        });
        closing.join().unwrap().unwrap();
    });
    assert!(done.into_inner());
    assert_eq!(late.into_inner(), 1);
}
