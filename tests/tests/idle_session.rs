//! What a kept session costs while it rests.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test program: a panic is a failed test")]

use std::time::Duration;

use glovebox::Language;
use glovebox_tests::{fixed, process, sandbox};

/// The private memory that one session holds after 10,000 trivial executions, in a process of its own.
fn idle(test: &str, language: Language, source: &str, most_bytes: u64) {
    if !process::in_child(test, Duration::from_secs(600)) {
        return;
    }
    let sandbox = sandbox(language, fixed);
    // What the engine itself holds is there before: a stack, a warm slot of the pool that keeps its pages.
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
    assert!(held <= most_bytes, "{held} bytes; it was to be at most {most_bytes}");
}

#[test]
fn an_idle_python_session_holds_little() {
    idle("an_idle_python_session_holds_little", Language::Python, "print(1)", 3 << 20);
}

#[test]
fn an_idle_javascript_session_holds_little() {
    idle("an_idle_javascript_session_holds_little", Language::JavaScript, "console.log(1)", 1 << 19);
}
