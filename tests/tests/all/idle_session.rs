//! Measures the memory of idle sessions.

use std::{env, time::Duration};

use glovebox::{Language, Session};
use glovebox_tests::{fixed, process, sandbox};

/// Measures the private memory of one session after 10,000 trivial executions, in a separate process.
fn idle(test: &str, language: Language, source: &str, max_bytes: u64) {
    if !process::in_child(test, Duration::from_secs(600)) {
        return;
    }
    let sandbox = sandbox(language, fixed);
    // Makes the engine allocate its own memory first: a stack, and a warm pool slot that keeps its pages.
    let first = sandbox.session().unwrap();
    for _ in 0..100 {
        assert!(first.execute(source).unwrap().is_success());
    }
    let before = process::anonymous_bytes();
    let session = sandbox.session().unwrap();
    for _ in 0..10_000 {
        assert!(session.execute(source).unwrap().is_success());
    }
    let held = process::anonymous_bytes().saturating_sub(before);
    println!("{language}: an idle session holds {held} bytes after 10,000 executions");
    assert!(held <= max_bytes, "{held} bytes, more than {max_bytes}");
}

/// Opens many sessions and reports the memory per idle session. Then closes them and opens the same number again.
///
/// The number of sessions is 40 by default. `GLOVEBOX_IDLE=1000` sets it to the engine's default limit.
fn many(test: &str, language: Language, source: &str, max_bytes: u64) {
    if !process::in_child(test, Duration::from_secs(600)) {
        return;
    }
    let count = env::var("GLOVEBOX_IDLE").map_or(40, |count| count.parse::<usize>().unwrap());
    let sandbox = sandbox(language, |policy| policy.limits.session_count = 10_000);
    let open = || {
        let session = sandbox.session().unwrap();
        for _ in 0..3 {
            assert!(session.execute(source).unwrap().is_success());
        }
        session
    };
    drop(open());
    let before = process::anonymous_bytes();
    let mut sessions: Vec<Session> = (0..count).map(|_| open()).collect();
    let held = process::anonymous_bytes().saturating_sub(before);
    let each = held / u64::try_from(count).unwrap();
    println!("{language}: {count} idle sessions hold {held} bytes, {each} each");
    assert!(each <= max_bytes, "{each} bytes each, more than {max_bytes}");
    // The pool keeps freed memory for later sessions, so the memory must be reused and must not grow.
    for _ in 0..3 {
        for session in sessions.drain(..) {
            session.close().unwrap();
        }
        sessions.extend((0..count).map(|_| open()));
    }
    let again = process::anonymous_bytes().saturating_sub(before);
    println!("{language}: after closing and opening as many three times they hold {again} bytes");
    assert!(again <= held + held / 4, "{again} bytes instead of {held}: closed sessions keep memory");
}

#[test]
fn many_idle_python_sessions_are_small_and_leak_nothing() {
    let source = "x = [1, 2, 3]; print(x)";
    many("idle_session::many_idle_python_sessions_are_small_and_leak_nothing", Language::Python, source, 3 << 20);
}

#[test]
fn many_idle_javascript_sessions_are_small_and_leak_nothing() {
    let source = "var x = [1, 2, 3]; console.log(x)";
    many(
        "idle_session::many_idle_javascript_sessions_are_small_and_leak_nothing",
        Language::JavaScript,
        source,
        1 << 20,
    );
}

#[test]
fn idle_python_session_is_small() {
    idle("idle_session::idle_python_session_is_small", Language::Python, "print(1)", 3 << 20);
}

#[test]
fn idle_javascript_session_is_small() {
    idle("idle_session::idle_javascript_session_is_small", Language::JavaScript, "console.log(1)", 1 << 19);
}

/// Each page that an execution writes to is copied, and again by forks and checkpoints.
#[test]
fn trivial_python_execution_writes_to_few_pages() {
    // Other tests leave instances with more pages, which are reused.
    let test = "idle_session::trivial_python_execution_writes_to_few_pages";
    if !process::in_child(test, Duration::from_secs(600)) {
        return;
    }
    let session = sandbox(Language::Python, fixed).session().unwrap();
    let before = session.info().held_bytes;
    assert!(session.execute("print(1)").unwrap().is_success());
    let pages = session.info().held_bytes.saturating_sub(before) / 4096;
    println!("Python: the first execution of a session writes to {pages} pages");
    assert!(pages <= 160, "{pages} pages");
}
