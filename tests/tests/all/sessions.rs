//! Tests sessions in ways that cases cannot express.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use glovebox::{Language, OnUnwind, Request};
use glovebox_tests::{fixed, lone_engine, sandbox, sandbox_on, short};

const SET: [(Language, &str, &str); 2] =
    [(Language::Python, "x = 41", "print(x + 1)"), (Language::JavaScript, "var x = 41", "console.log(x + 1)")];

#[test]
fn sessions_of_one_sandbox_are_isolated() {
    for (language, set, show) in SET {
        let sandbox = sandbox(language, |_| {});
        let (one, two) = (sandbox.session().unwrap(), sandbox.session().unwrap());
        assert_ne!(one.id(), two.id());
        assert!(one.execute(set).unwrap().is_success());
        assert!(!two.execute(show).unwrap().is_success(), "{language}: a variable leaked into another session");
        assert_eq!(one.execute(show).unwrap().stdout.text(), "42\n");
        let execution = sandbox.execute(show).unwrap();
        assert!(!execution.is_success(), "{language}: a fresh execution sees a session");
        assert_eq!(execution.session_id, None);
        assert_eq!(one.execute(show).unwrap().session_id.as_deref(), Some(one.id()));
    }
}

#[test]
fn session_reports_its_limit_and_another_can_open() {
    let scripts = [(Language::Python, "import time; time.sleep(60)"), (Language::JavaScript, "os.sleep(60000)")];
    for (language, source) in scripts {
        let sandbox = sandbox(language, |policy| {
            policy.limits.timeout_ms = 300;
            policy.limits.timeout_reserve_ms = 0;
            policy.session.on_unwind = OnUnwind::End;
        });
        let session = sandbox.session().unwrap();
        assert_eq!(short(&session.execute(source).unwrap().outcome), "exhausted time");
        let error = session.execute("1").unwrap_err().to_string();
        assert!(error.contains(session.id()) && error.contains("time"), "{error}");
        session.close().unwrap();
        assert!(sandbox.session().unwrap().execute("1").unwrap().is_success());
    }
}

#[test]
fn out_of_memory_keeps_the_session_alive() {
    let scripts = [
        (Language::Python, "x = 7\ny = 'a' * 10**9", "print(x)"),
        (Language::JavaScript, "var x = 7; new Uint8Array(1e9)", "console.log(x)"),
    ];
    for (language, source, show) in scripts {
        let session = sandbox(language, |policy| policy.limits.memory_bytes = 64 << 20).session().unwrap();
        assert_eq!(short(&session.execute(source).unwrap().outcome), "exhausted memory", "{language}");
        let after = session.execute(show).unwrap();
        assert_eq!((short(&after.outcome).as_str(), after.stdout.text().as_str()), ("completed", "7\n"), "{language}");
    }
}

#[test]
fn each_execution_of_a_session_has_the_whole_budget() {
    for (language, source) in
        [(Language::Python, "for i in range(20000): pass"), (Language::JavaScript, "for (let i = 0; i < 1e5; i++);")]
    {
        let cost = sandbox(language, fixed).execute(source).unwrap().fuel_consumed;
        let session = sandbox(language, |policy| policy.limits.fuel = cost * 3 / 2).session().unwrap();
        for round in 0..5 {
            assert_eq!(short(&session.execute(source).unwrap().outcome), "completed", "{language}, round {round}");
        }
    }
}

#[test]
fn panicking_listener_affects_only_its_execution() {
    for (language, set, show) in SET {
        let sandbox = sandbox(language, |_| {});
        let session = sandbox.session().unwrap();
        session.execute(set).unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            session.run(Request::new(show).on_output(|_, _| panic!("the listener's own")))
        }));
        assert!(panicked.is_err(), "{language}: the callback's panic reaches the caller");
        assert_eq!(session.execute(show).unwrap().stdout.text(), "42\n");
        assert!(sandbox.execute("1").unwrap().is_success(), "{language}");
        assert!(sandbox.session().unwrap().execute(set).unwrap().is_success(), "{language}");
    }
}

#[test]
fn validation_leaves_sessions_unchanged() {
    for (language, set, show) in SET {
        let sandbox = sandbox(language, |_| {});
        let session = sandbox.session().unwrap();
        session.execute(set).unwrap();
        assert!(sandbox.validate("x = 1").unwrap().is_empty());
        assert_eq!(sandbox.validate("x = = 1").unwrap().len(), 1);
        assert_eq!(session.execute(show).unwrap().stdout.text(), "42\n");
    }
}

#[test]
fn a_session_outlives_the_engine_and_the_sandbox_it_came_from() {
    for (language, set, show) in SET {
        let session = {
            let engine = lone_engine(None);
            sandbox_on(&engine, language, |_| {}).session().unwrap()
        };
        assert!(session.execute(set).unwrap().is_success());
        assert_eq!(session.execute(show).unwrap().stdout.text(), "42\n");
        session.close().unwrap();
    }
}

#[test]
fn each_script_of_a_session_has_its_own_name() {
    let session = sandbox(Language::JavaScript, |_| {}).session().unwrap();
    let shown = |request: Request<'_>| session.run(request).unwrap().stdout.text();
    // These names have the same 32-bit FNV-1a hash.
    for name in ["lsexqzd.js", "ztxtxde.js"] {
        assert_eq!(shown(Request::new("console.log(process.argv[1])").name(name)), format!("/app/{name}\n"));
    }
    assert_eq!(shown(Request::new("console.log(process.argv[1])")), "/app/script.js\n");
}

#[test]
fn exit_handler_output_reaches_the_host() {
    let dir = tempfile::TempDir::new().unwrap();
    let session =
        sandbox(Language::Python, |policy| policy.workspace = Some(dir.path().to_path_buf())).session().unwrap();
    let source = "import atexit\natexit.register(lambda: open('last', 'w').write('words'))";
    assert!(session.execute(source).unwrap().is_success());
    assert!(!dir.path().join("last").exists(), "not before the session ends");
    session.close().unwrap();
    assert_eq!(std::fs::read_to_string(dir.path().join("last")).unwrap(), "words");
}

#[test]
fn a_listener_is_dropped_with_its_execution() {
    let session = sandbox(Language::Python, |_| {}).session().unwrap();
    let held = Arc::new(());
    let inside = Arc::clone(&held);
    let request = Request::new("print(1)").on_output(move |_, _| {
        let _ = &inside;
    });
    assert!(session.run(request).unwrap().is_success());
    assert_eq!(Arc::strong_count(&held), 1);
}
