//! Tests sessions whose guest was unwound.

use std::{fs, panic::AssertUnwindSafe, panic::catch_unwind, time::Duration};

use glovebox::{
    CancelToken, Checkpoints, Commit, Engine, ExecuteError, HibernateOptions, Language, OnUnwind, Policy, Request,
    ResumeOptions, Rollback, Sandbox, Session,
};
use glovebox_tests::{engine_config, sandbox, sandbox_on, short};
use tempfile::TempDir;

/// Sets a small fuel limit without a soft limit, so that scripts are unwound.
fn hard(policy: &mut Policy) {
    policy.limits.fuel = 300_000_000;
    policy.limits.fuel_reserve = 0;
    policy.limits.timeout_reserve_ms = 0;
}

fn unwinding(language: Language, edit: impl FnOnce(&mut Policy)) -> Sandbox {
    sandbox(language, |policy| {
        hard(policy);
        edit(policy);
    })
}

/// Scripts that set `x` and a file to a number: `set` only sets them, `set_and_hang` also prints and then loops
/// forever. `show` prints both.
struct Scripts {
    language: Language,
    set: fn(u32) -> String,
    show: &'static str,
}

impl Scripts {
    fn set_and_hang(&self, number: u32) -> String {
        let hang = match self.language {
            Language::Python => "print('here')\nwhile True: pass",
            Language::JavaScript => "console.log('here'); for (;;);",
        };
        format!("{}\n{hang}", (self.set)(number))
    }

    fn shown(&self, session: &Session) -> String {
        let execution = session.execute(self.show).unwrap();
        assert!(execution.is_success(), "{}", execution.stderr.text());
        execution.stdout.text()
    }
}

const BOTH: [Scripts; 2] = [
    Scripts {
        language: Language::Python,
        set: |number| format!("x = {number}\nopen('file', 'w').write('{number}')"),
        show: "print(x, open('file').read())",
    },
    Scripts {
        language: Language::JavaScript,
        set: |number| format!("var x = {number}; {{ let f = std.open('file', 'w'); f.puts('{number}'); f.close(); }}"),
        show: "console.log(x, std.loadFile('file'))",
    },
];

fn lost(execution: &glovebox::Execution) -> Option<u64> {
    execution.rolled_back_to.as_ref().map(|Rollback { executions_lost, .. }| *executions_lost)
}

#[test]
fn unwound_session_is_restored_and_output_kept() {
    for scripts in BOTH {
        let session = unwinding(scripts.language, |_| {}).session().unwrap();
        assert_eq!(lost(&session.execute(&(scripts.set)(1)).unwrap()), None);
        for round in 1..=3 {
            let unwound = session.execute(&scripts.set_and_hang(2)).unwrap();
            assert_eq!(short(&unwound.outcome), "exhausted fuel");
            assert_eq!((lost(&unwound), unwound.stdout.text().as_str()), (Some(0), "here\n"));
            assert_eq!(unwound.files().read("file").unwrap(), b"2", "files are not rolled back");
            assert_eq!(scripts.shown(&session), "1 1\n", "{}", scripts.language);
            assert_eq!(session.info().rollbacks, round);
        }
        assert_eq!(session.ended(), None);
    }
}

#[test]
fn cancelled_guest_is_rolled_back() {
    for scripts in BOTH {
        let session = unwinding(scripts.language, |policy| policy.limits.fuel = 10_000_000_000).session().unwrap();
        session.execute(&(scripts.set)(1)).unwrap();
        let cancel = CancelToken::new();
        let other = cancel.clone();
        let source = scripts.set_and_hang(2);
        let request = Request::new(&source).cancel(&cancel).on_output(move |_, _| other.cancel());
        let execution = session.run(request).unwrap();
        assert_eq!((short(&execution.outcome).as_str(), lost(&execution)), ("cancelled", Some(0)));
        assert_eq!(scripts.shown(&session), "1 1\n");
    }
}

#[test]
fn trapped_guest_is_rolled_back() {
    let session = unwinding(Language::Python, |policy| policy.limits.fuel = 100_000_000_000).session().unwrap();
    session.execute("x = 1").unwrap();
    // CPython hashes nested tuples recursively, without counting the recursion depth.
    let source = "x = 2\nt = ()\nfor _ in range(400_000): t = (t,)\nhash(t)";
    let execution = session.execute(source).unwrap();
    assert_eq!((short(&execution.outcome).as_str(), lost(&execution)), ("trapped stack-overflow", Some(0)));
    assert_eq!(session.get_variable("x").unwrap().unwrap().repr, "1");
    assert_eq!(session.info().rollbacks, 1);
}

#[test]
fn rollback_runs_no_code_of_the_guest() {
    let session = unwinding(Language::Python, |policy| policy.limits.timeout_ms = 3_000).session().unwrap();
    session.execute("x = 1").unwrap();
    // Makes the driver loop forever when it reseeds the generator.
    let source = "import random\ndef spin():\n    while True: pass\nother = random.Random()\n\
                  random.Random.seed.__globals__['gc_is_enabled'] = spin";
    assert!(session.execute(source).unwrap().is_success());
    for rollbacks in 1..=2 {
        let execution = session.execute("while True: pass").unwrap();
        assert_eq!((short(&execution.outcome).as_str(), lost(&execution)), ("exhausted fuel", Some(0)));
        assert_eq!((session.info().rollbacks, session.ended()), (rollbacks, None));
    }
    // A call that reads a variable would reseed the generator first.
    assert!(session.get_variable("x").is_err());
    assert_eq!(session.ended(), None);
}

#[test]
fn rejected_execution_leaves_the_session_unchanged() {
    for scripts in BOTH {
        let session = unwinding(scripts.language, |_| {}).session().unwrap();
        session.execute(&(scripts.set)(1)).unwrap();
        let cancelled = CancelToken::new();
        cancelled.cancel();
        let source = (scripts.set)(2);
        let execution = session.run(Request::new(&source).cancel(&cancelled)).unwrap();
        assert_eq!((short(&execution.outcome).as_str(), lost(&execution)), ("cancelled", None));
        assert_eq!(scripts.shown(&session), "1 1\n");
        assert_eq!((session.info().rollbacks, session.info().executions), (0, 2));
    }
}

#[test]
fn sparse_checkpoints_count_lost_executions() {
    for scripts in BOTH {
        let session =
            unwinding(scripts.language, |policy| policy.session.checkpoints = Checkpoints::Every(3)).session().unwrap();
        for number in 1..=3 {
            session.execute(&(scripts.set)(number)).unwrap();
        }
        // The first checkpoint was taken before the first execution, and the second is due now.
        assert_eq!(lost(&session.execute(&scripts.set_and_hang(9)).unwrap()), Some(0));
        assert_eq!(scripts.shown(&session), "3 3\n");
        session.execute(&(scripts.set)(4)).unwrap();
        assert_eq!(lost(&session.execute(&scripts.set_and_hang(9)).unwrap()), Some(2));
        assert_eq!(scripts.shown(&session), "3 3\n");
        assert_eq!(session.info().executions, 4);
    }
}

#[test]
fn unwound_session_ends_without_any_checkpoint() {
    for scripts in BOTH {
        let sandbox = unwinding(scripts.language, |policy| policy.session.checkpoints = Checkpoints::Never);
        let session = sandbox.session().unwrap();
        session.execute(&(scripts.set)(1)).unwrap();
        assert_eq!(lost(&session.execute(&scripts.set_and_hang(2)).unwrap()), None);
        let error = session.execute("1").unwrap_err().to_string();
        assert!(error.contains("out of fuel") && error.contains("no checkpoint"), "{error}");

        let session = sandbox.session().unwrap();
        session.execute(&(scripts.set)(1)).unwrap();
        session.checkpoint().unwrap();
        session.execute(&(scripts.set)(2)).unwrap();
        assert_eq!(lost(&session.execute(&scripts.set_and_hang(3)).unwrap()), Some(1));
        assert_eq!(scripts.shown(&session), "1 1\n");
    }
}

#[test]
fn panicking_listener_rolls_the_session_back() {
    for scripts in BOTH {
        let session = unwinding(scripts.language, |_| {}).session().unwrap();
        session.execute(&(scripts.set)(1)).unwrap();
        let source = scripts.set_and_hang(2);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            session.run(Request::new(&source).on_output(|_, _| panic!("the listener's own")))
        }));
        assert!(panicked.is_err());
        assert_eq!(scripts.shown(&session), "1 1\n");
        assert_eq!(session.info().rollbacks, 1);
    }
}

#[test]
fn rolled_back_session_waits_for_an_instance() {
    let mut config = engine_config();
    config.pool.as_mut().unwrap().instance_count = 3;
    let sandbox = sandbox_on(&Engine::new(config).unwrap(), Language::Python, hard);
    let session = sandbox.session().unwrap();
    session.execute("x = 1").unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        session.run(Request::new("x = 2; print('here')").on_output(|_, _| panic!("the listener's own")))
    }));
    assert!(panicked.is_err());
    let mut others = Vec::new();
    while let Ok(other) = sandbox.session() {
        others.push(other);
    }
    for _ in 0..2 {
        let error = session.execute("x").unwrap_err();
        assert!(matches!(error, ExecuteError::Instantiate { .. }), "{error:?}");
    }
    assert_eq!((session.ended(), session.info().rollbacks, session.checkpoints().unwrap().len()), (None, 0, 1));
    others.pop().unwrap();
    assert_eq!(session.execute("x").unwrap().value.unwrap().repr, "1");
    assert_eq!(session.info().rollbacks, 1);
}

#[test]
fn unwound_session_ends_under_the_end_policy() {
    for scripts in BOTH {
        let session = unwinding(scripts.language, |policy| policy.session.on_unwind = OnUnwind::End).session().unwrap();
        session.execute(&(scripts.set)(1)).unwrap();
        assert_eq!(lost(&session.execute(&scripts.set_and_hang(2)).unwrap()), None);
        assert!(matches!(session.execute("1"), Err(ExecuteError::SessionEnded { .. })));
        assert!(matches!(session.undo(), Err(ExecuteError::SessionEnded { .. })));
    }
}

#[test]
fn script_exit_ends_the_session() {
    let session = unwinding(Language::Python, |_| {}).session().unwrap();
    session.execute("x = 1").unwrap();
    assert_eq!(short(&session.execute("import os; os._exit(3)").unwrap().outcome), "exited 3");
    let error = session.execute("x").unwrap_err().to_string();
    assert!(error.contains("exited with 3"), "{error}");
}

#[test]
fn rollback_restores_open_files() {
    let session = unwinding(Language::Python, |_| {}).session().unwrap();
    session.execute("f = open('log', 'w')\nf.write('a')").unwrap();
    assert_eq!(short(&session.execute("f.write('b'); f.flush()\nwhile True: pass").unwrap().outcome), "exhausted fuel");
    assert_eq!(
        short(&session.execute("f.close(); import os; os.remove('log')\nwhile True: pass").unwrap().outcome),
        "exhausted fuel"
    );
    let execution = session.execute("f.write('c'); f.close(); print(open('log').read())").unwrap();
    assert_eq!(execution.stdout.text(), "ac\n", "{}", execution.stderr.text());
}

#[test]
fn committed_changes_survive_rollback() {
    for scripts in BOTH {
        let dir = TempDir::new().unwrap();
        let on_host = || fs::read_to_string(dir.path().join("file")).unwrap();
        let session =
            unwinding(scripts.language, |policy| policy.workspace = Some(dir.path().into())).session().unwrap();
        session.execute(&(scripts.set)(1)).unwrap();
        assert_eq!(on_host(), "1");
        assert_eq!(lost(&session.execute(&scripts.set_and_hang(2)).unwrap()), Some(0));
        assert_eq!(on_host(), "2");
        assert_eq!(scripts.shown(&session), "1 2\n", "variables are rolled back, host files are not");
        session.execute(&(scripts.set)(3)).unwrap();
        assert_eq!(on_host(), "3", "a session's own writes must not conflict");
        session.undo().unwrap();
        assert_eq!((on_host().as_str(), scripts.shown(&session).as_str()), ("3", "1 3\n"));
    }
}

#[test]
fn restored_change_overwrites_own_later_commit() {
    let fail = "raise ValueError";
    for (before, pending, since, wanted) in [
        // The file's content on the host, its content after a failed script, a script to run and commit before the
        // rollback, and the expected content at the end. A content of `None` means that the file does not exist; a
        // script of `None` changes nothing.
        (None, Some("1"), None, Some("1")),
        (None, Some("1"), Some("open('d/a', 'w').write('2')"), Some("1")),
        (None, Some("1"), Some("os.remove('d/a'); os.rmdir('d')"), Some("1")),
        (Some("0"), Some("1"), None, Some("1")),
        (Some("0"), Some("1"), Some("os.remove('d/a')"), Some("1")),
        (Some("0"), None, Some("open('d/a', 'w').write('2')"), None),
    ] {
        for automatic in [true, false] {
            let dir = TempDir::new().unwrap();
            let path = dir.path().join("d/a");
            if let Some(before) = before {
                fs::create_dir(dir.path().join("d")).unwrap();
                fs::write(&path, before).unwrap();
            }
            let session = unwinding(Language::Python, |policy| {
                policy.workspace = Some(dir.path().into());
                policy.commit = Commit::OnSuccess;
                policy.session.checkpoints = if automatic { Checkpoints::Always } else { Checkpoints::Never };
            });
            let session = session.session().unwrap();
            let change = match pending {
                Some(text) => format!("os.makedirs('d', exist_ok=True); open('d/a', 'w').write('{text}')"),
                None => "os.remove('d/a')".to_owned(),
            };
            let failed = session.execute(&format!("import os\n{change}\n{fail}")).unwrap();
            assert_eq!(short(&failed.outcome), "raised ValueError");
            if !automatic {
                session.checkpoint().unwrap();
            }
            assert!(session.execute(&format!("import os\n{}", since.unwrap_or("pass"))).unwrap().is_success());
            if automatic {
                session.undo().unwrap();
            } else {
                assert_eq!(lost(&session.execute("while True: pass").unwrap()), Some(1));
            }
            for _ in 0..2 {
                let execution = session.execute("pass");
                assert!(execution.is_ok(), "{before:?} {pending:?} {since:?}: {execution:?}");
                assert_eq!(fs::read_to_string(&path).ok().as_deref(), wanted, "{before:?} {pending:?} {since:?}");
            }
        }
    }
}

#[test]
fn restored_change_conflicts_with_foreign_writes() {
    let dir = TempDir::new().unwrap();
    let session = unwinding(Language::Python, |policy| {
        policy.workspace = Some(dir.path().into());
        policy.commit = Commit::OnSuccess;
    });
    let session = session.session().unwrap();
    session.execute("open('a', 'w').write('1')\nraise ValueError").unwrap();
    session.execute("pass").unwrap();
    session.undo().unwrap();
    fs::write(dir.path().join("a"), "another's").unwrap();
    let conflict = session.execute("pass");
    assert!(matches!(conflict, Err(ExecuteError::Commit { .. })), "{conflict:?}");
    assert_eq!(fs::read_to_string(dir.path().join("a")).unwrap(), "another's");
}

#[test]
fn uncommitted_changes_are_rolled_back() {
    for (commit, wanted) in [(Commit::OnSuccess, Some("1")), (Commit::Never, None)] {
        for scripts in BOTH {
            let dir = TempDir::new().unwrap();
            let on_host = || fs::read_to_string(dir.path().join("file")).ok();
            let session = unwinding(scripts.language, |policy| {
                policy.workspace = Some(dir.path().into());
                policy.commit = commit;
            });
            let session = session.session().unwrap();
            session.execute(&(scripts.set)(1)).unwrap();
            assert_eq!(lost(&session.execute(&scripts.set_and_hang(2)).unwrap()), Some(0));
            assert_eq!(on_host().as_deref(), wanted);
            assert_eq!(scripts.shown(&session), "1 1\n");
        }
    }
}

#[test]
fn endless_variable_read_rolls_the_session_back() {
    let session = unwinding(Language::Python, |policy| policy.limits.timeout_ms = 60_000).session().unwrap();
    session.execute("class Slow:\n    def __repr__(self):\n        global x\n        x = 2\n        while True: pass\nslow = Slow()\nx = 1").unwrap();
    let error = session.get_variable("slow").unwrap_err();
    assert!(matches!(&error, ExecuteError::Variable { reason, .. } if reason.contains("out of fuel")), "{error}");
    assert_eq!(session.get_variable("x").unwrap().unwrap().repr, "1", "the variable is unchanged by the failed read");
    assert_eq!(session.info().rollbacks, 1);
    session.undo().unwrap();
    assert_eq!(session.get_variable("slow").unwrap(), None, "undo restores the state before the execution");
}

#[test]
fn clocks_never_decrease_after_rollback() {
    let session = unwinding(Language::Python, |_| {}).session().unwrap();
    session.execute("import time; t = time.monotonic()").unwrap();
    std::thread::sleep(Duration::from_millis(20));
    session.checkpoint().unwrap();
    session.execute("while True: pass").unwrap();
    let shown = session.execute("print(time.monotonic() - t >= 0.02, time.monotonic() - t < 600)").unwrap();
    assert_eq!(shown.stdout.text(), "True True\n");
}

#[test]
fn large_session_is_rolled_back() {
    let session = unwinding(Language::Python, |policy| {
        policy.limits.fuel = 2_000_000_000;
        policy.limits.memory_bytes = 512 << 20;
    });
    let session = session.session().unwrap();
    let fill = "import random\nb = bytearray(random.randbytes(1 << 20) * 64)\nsample = bytes(b[::509])";
    let filled = session.execute(fill).unwrap();
    assert!(filled.is_success(), "{:?}", filled.outcome);
    session.checkpoint().unwrap();
    let spoil = "b[::509] = bytes(len(sample))\nb.extend(bytes(1 << 20))\nwhile True: pass";
    assert_eq!(lost(&session.execute(spoil).unwrap()), Some(0));
    let execution = session.execute("print(b[::509] == sample, len(b) == 64 << 20)").unwrap();
    assert_eq!(execution.stdout.text(), "True True\n");
    assert!(session.info().private_bytes >= 64 << 20);
}

#[test]
fn session_full_of_files_is_rolled_back() {
    let python = sandbox(Language::Python, |policy| {
        policy.limits.timeout_reserve_ms = 0;
        policy.limits.fuel_reserve = 0;
    });
    let session = python.session().unwrap();
    // Linear memory does not shrink, so files can only use the remaining memory, including the reserve for output.
    let grown = session.execute("x = bytearray(64 << 20); del x; held = 1").unwrap();
    assert!(grown.is_success(), "{:?}", grown.outcome);
    let filled = session
        .execute(
            "try:\n    for size in 1 << 20, 1 << 16, 1 << 12, 1:\n        try:\n            with open('f', 'ab', 0) as f:\n\
             \x20               while True: f.write(b'x' * size)\n        except OSError as error: last = error.errno\n\
             except BaseException as error: last = repr(error)\nlast",
        )
        .unwrap();
    assert_eq!(filled.value.map(|value| value.repr).as_deref(), Some("51"), "ENOSPC");
    let bytes = session.hibernate(&HibernateOptions::default()).unwrap();
    let fork = session.fork().unwrap();
    let resumed = python.resume(&bytes, ResumeOptions::default()).unwrap();
    assert!(session.execute("held = 2").unwrap().is_success());
    session.undo().unwrap();
    for session in [session, fork, resumed] {
        let shown = session.execute("held").unwrap();
        assert_eq!(shown.value.map(|value| value.repr).as_deref(), Some("1"));
    }
}
