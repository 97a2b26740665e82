//! Tests many threads that use one session: no output is mixed up or lost. `turns.rs` tests the order of waiting
//! threads.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    thread,
};

use glovebox::{ExecuteError, HibernateOptions, IfExists, Language, Request, ResumeOptions, Session};
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

/// Guards against a flaw of another sandbox, in which 18 of 24 concurrent executions in one session received another
/// thread's output.
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
        assert_eq!(total.repr, (THREADS * ROUNDS).to_string(), "{language}: no update may be lost");
    }
}

/// Executions, forks, undos, file and variable accesses and hibernation must be atomic when many threads call them.
#[test]
fn concurrent_operations_of_a_session_are_serialized() {
    for language in Language::ALL {
        let sandbox = sandbox(language, |policy| {
            policy.limits.fuel = 50_000_000;
            policy.limits.fuel_reserve = 0;
        });
        let session = sandbox.session().unwrap();
        // Each script makes the two variables unequal for a while, and leaves them equal.
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
                    assert!(execution.rolled_back_to.is_some());
                }
            });
            scope.spawn(move || {
                for _ in 0..10 {
                    forks.lock().unwrap().push(session.fork().unwrap());
                    // Gives `undo` an execution to revert. Without it, successive undos could revert the declarations.
                    assert_eq!(short(&session.execute(step).unwrap().outcome), "completed");
                    // There is nothing to undo if nothing has been executed since the last rollback.
                    let undone = session.undo();
                    assert!(matches!(undone, Ok(_) | Err(ExecuteError::NoCheckpoint { .. })), "{undone:?}");
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
                        assert!(drawn.lock().unwrap().insert(number), "{language}: a random number was drawn twice");
                    }
                });
            }
        });
        assert_eq!(drawn.into_inner().unwrap().len(), 60);
    }
}
