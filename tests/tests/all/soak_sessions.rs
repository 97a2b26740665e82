//! Tests that fuel, guest memory, recursion depth and the host's memory stay constant over thousands of executions in
//! twenty concurrent sessions, ten in each language.
//!
//! Each session runs 250 executions by default. `GLOVEBOX_SOAK=5000` runs 100,000 executions in total.

use std::{
    env, thread,
    time::{Duration, Instant},
};

use glovebox::{Language, Session};
use glovebox_tests::{fixed, process, sandbox};

const MIB: u64 = 1 << 20;
const SESSIONS_EACH: usize = 10;
const EXECUTIONS: u32 = 250;
const WORKERS: usize = 2;

/// Returns a script that creates and drops objects, keeps a few, writes a file, and occasionally raises.
fn work(language: Language, round: u32) -> String {
    match language {
        Language::Python => format!(
            "n = {round}\nheld = [str(i) for i in range(50)]\ntext = ''.join(held)\nopen('f', 'w').write(text) and None\n\
             import json; json.loads(json.dumps({{'n': n, 'held': held}}))\n{}len(text)",
            if round.is_multiple_of(10) { "raise ValueError(n)\n" } else { "" }
        ),
        Language::JavaScript => format!(
            "var n = {round}; var held = Array.from({{length: 50}}, (_, i) => String(i)); var text = held.join('');\n\
             {{ const f = std.open('f', 'w'); f.puts(text); f.close() }}\nJSON.parse(JSON.stringify({{n, held}}));\n{}text.length",
            if round.is_multiple_of(10) { "throw new RangeError(n);\n" } else { "" }
        ),
    }
}

fn depth(language: Language) -> &'static str {
    match language {
        Language::Python => {
            "def depth(n):\n    global deepest\n    deepest = n\n    depth(n + 1)\ntry:\n    depth(0)\nexcept RecursionError:\n    pass\ndeepest"
        }
        Language::JavaScript => {
            "var deepest = 0; function depth(n) { deepest = n; return depth(n + 1) + 1 } try { depth(0) } catch {} deepest"
        }
    }
}

/// A session and its initial measurements.
struct Subject {
    language: Language,
    session: Session,
    depth: String,
    fuel: u64,
    memory_bytes: u64,
}

impl Subject {
    fn new(language: Language, session: Session) -> Self {
        let depth = session.execute(depth(language)).unwrap().value.unwrap().repr;
        let mut subject = Self { language, session, depth, fuel: 0, memory_bytes: 0 };
        for round in 0..40 {
            subject.execute(round);
        }
        // Rounds with the same number of digits use the same fuel.
        let execution = subject.session.execute(&work(language, 10_001)).unwrap();
        (subject.fuel, subject.memory_bytes) = (execution.fuel_consumed, execution.memory_used_bytes);
        subject
    }

    fn execute(&self, round: u32) {
        let execution = self.session.execute(&work(self.language, round)).unwrap();
        assert_eq!(execution.is_success(), !round.is_multiple_of(10), "{}", execution.stderr.text());
        assert!(execution.rolled_back_to.is_none());
    }

    fn is_as_it_was(&self) {
        let execution = self.session.execute(&work(self.language, 10_001)).unwrap();
        let fuel = execution.fuel_consumed;
        assert!(fuel.abs_diff(self.fuel) * 50 <= self.fuel, "{}: fuel {} and {fuel}", self.language, self.fuel);
        let memory_bytes = execution.memory_used_bytes;
        assert!(
            memory_bytes <= self.memory_bytes + MIB,
            "{}: memory {} and {memory_bytes}",
            self.language,
            self.memory_bytes
        );
        assert_eq!(self.session.execute(depth(self.language)).unwrap().value.unwrap().repr, self.depth);
        assert_eq!(self.session.info().rollbacks, 0);
    }
}

#[test]
fn twenty_sessions() {
    if !process::in_child("soak_sessions::twenty_sessions", Duration::from_secs(3_600)) {
        return;
    }
    let executions = env::var("GLOVEBOX_SOAK").map_or(EXECUTIONS, |count| count.parse().unwrap());
    let mut subjects = Vec::new();
    for language in Language::ALL {
        let sandbox = sandbox(language, fixed);
        subjects.extend((0..SESSIONS_EACH).map(|_| Subject::new(language, sandbox.session().unwrap())));
    }
    let before = process::anonymous_bytes();
    let begun = Instant::now();
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let subjects = &subjects;
            scope.spawn(move || {
                for round in 0..executions {
                    for subject in subjects.iter().skip(worker).step_by(WORKERS) {
                        subject.execute(10_000 + round);
                    }
                }
            });
        }
    });
    let took = begun.elapsed();
    let grown = process::anonymous_bytes().saturating_sub(before);
    println!("{} sessions, {executions} executions each, in {took:?}; the host grew by {grown} bytes", subjects.len());
    for subject in &subjects {
        subject.is_as_it_was();
    }
    assert!(grown < 32 * MIB, "the host grew by {grown} bytes");
}
