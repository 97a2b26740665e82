//! Tests that guest pages, fuel, recursion depth and the host's memory stay constant over many executions.
//!
//! Each test runs in a separate process, so that only its own memory is measured.

use std::time::{Duration, Instant};

use glovebox::Language;
use glovebox_tests::{fixed, process, sandbox};

const MIB: u64 = 1 << 20;
/// The timeout of a test's process, far longer than any test takes.
const LIMIT: Duration = Duration::from_secs(600);

struct Soak {
    test: &'static str,
    language: Language,
    trivial: &'static str,
    depth: &'static str,
}

const PYTHON_DEPTH: &str = "def depth(n):\n    global deepest\n    deepest = n\n    depth(n + 1)\ntry:\n    depth(0)\nexcept RecursionError:\n    print(deepest)";
const JAVASCRIPT_DEPTH: &str = "var deepest = 0; function depth(n) { deepest = n; return depth(n + 1) + 1 } try { depth(0) } catch (e) { console.log(deepest) }";

fn live(soak: &Soak) {
    if !process::in_child(soak.test, LIMIT) {
        return;
    }
    let session = sandbox(soak.language, fixed).session().unwrap();
    let depth = session.execute(soak.depth).unwrap().stdout.text();
    for _ in 0..200 {
        assert!(session.execute(soak.trivial).unwrap().is_success());
    }
    let early = session.execute(soak.trivial).unwrap();
    let resident = process::anonymous_bytes();
    let begun = Instant::now();
    for _ in 0..20_000 {
        let execution = session.execute(soak.trivial).unwrap();
        assert!(execution.is_success());
    }
    let took = begun.elapsed();
    let late = session.execute(soak.trivial).unwrap();
    let grown = process::anonymous_bytes().saturating_sub(resident);
    println!(
        "{}: 20,000 live in {took:?}, fuel {} and {}, host grown by {grown}",
        soak.language, early.fuel_consumed, late.fuel_consumed
    );
    assert!(
        early.fuel_consumed.abs_diff(late.fuel_consumed) * 50 <= early.fuel_consumed,
        "{} and {}",
        early.fuel_consumed,
        late.fuel_consumed
    );
    assert!(
        late.memory_used_bytes <= early.memory_used_bytes + MIB,
        "{} and {}",
        early.memory_used_bytes,
        late.memory_used_bytes
    );
    assert_eq!(session.execute(soak.depth).unwrap().stdout.text(), depth, "recursion goes as deep as before");
    assert!(grown < 8 * MIB, "the host grew by {grown} bytes");
    session.close().unwrap();
}

fn fresh(soak: &Soak) {
    if !process::in_child(soak.test, LIMIT) {
        return;
    }
    let sandbox = sandbox(soak.language, fixed);
    for _ in 0..200 {
        assert!(sandbox.execute(soak.trivial).unwrap().is_success());
    }
    let early = sandbox.execute(soak.trivial).unwrap();
    let resident = process::anonymous_bytes();
    let begun = Instant::now();
    for _ in 0..10_000 {
        let execution = sandbox.execute(soak.trivial).unwrap();
        assert!(execution.is_success());
        assert_eq!(execution.fuel_consumed, early.fuel_consumed);
    }
    let took = begun.elapsed();
    let grown = process::anonymous_bytes().saturating_sub(resident);
    println!("{}: 10,000 fresh in {took:?}, fuel {}, host grown by {grown}", soak.language, early.fuel_consumed);
    assert!(grown < 8 * MIB, "the host grew by {grown} bytes");
    assert_eq!(sandbox.execute(soak.trivial).unwrap().memory_used_bytes, early.memory_used_bytes);
}

fn python(test: &'static str) -> Soak {
    Soak { test, language: Language::Python, trivial: "print(1)", depth: PYTHON_DEPTH }
}

fn javascript(test: &'static str) -> Soak {
    Soak { test, language: Language::JavaScript, trivial: "console.log(1)", depth: JAVASCRIPT_DEPTH }
}

#[test]
fn python_live() {
    live(&python("soak::python_live"));
}

#[test]
fn python_fresh() {
    fresh(&python("soak::python_fresh"));
}

#[test]
fn javascript_live() {
    live(&javascript("soak::javascript_live"));
}

#[test]
fn javascript_fresh() {
    fresh(&javascript("soak::javascript_fresh"));
}
