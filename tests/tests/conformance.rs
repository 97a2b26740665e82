//! Every case in `cases/`, in every language it has scripts for, on every runtime of the manifest, through the Rust engine.
//!
//! One trial each, named `python/<case>`, `javascript/<case>` and so on after the runtime; the usual filters of a test
//! program work on them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test program: a panic is a failed test")]

use std::{process::ExitCode, sync::Arc};

use glovebox_tests::{Backend, Case, EngineBackend, cases_dir, check, engine, load_cases};
use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    let args = Arguments::from_args();
    let cases = load_cases(&cases_dir()).expect("the cases are well formed");
    let mut trials = Vec::new();
    for runtime in engine().runtimes().expect("the manifest is read") {
        let backend = Arc::new(EngineBackend::of_runtime(&runtime.name));
        for case in cases.iter().filter(|case| case.language == runtime.language).cloned() {
            let backend = Arc::clone(&backend);
            trials.push(Trial::test(format!("{}/{}", runtime.name, case.name), move || show(&case, backend.as_ref())));
        }
    }
    libtest_mimic::run(&args, trials).exit_code()
}

fn show(case: &Case, backend: &dyn Backend) -> Result<(), Failed> {
    let results = backend.run(case);
    let mut report = String::new();
    for (step, result) in case.steps.iter().zip(&results) {
        for wrong in check(&step.expect, result, case.language) {
            report += &format!("[{}] {wrong}\n", step.name);
        }
    }
    if results.len() != case.steps.len() {
        report += &format!("{} steps gave {} results\n", case.steps.len(), results.len());
    }
    if report.is_empty() { Ok(()) } else { Err(Failed::from(report)) }
}
