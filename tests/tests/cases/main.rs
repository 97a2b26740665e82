//! All tests that are generated from data or need a component, in one program so that Wasmtime is linked only once. The
//! name of a trial starts with its suite: `conformance/python/hello`.
//!
//! `cargo test --test cases conformance/` runs one suite. `GLOVEBOX_TESTS=full` runs the full matrix: every case on
//! every backend. A push runs all cases on the engine and once on the provider, and the smoke cases on all other
//! backends. Components are built before the trials.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test program: a panic is a failed test"
)]

mod budgets;
mod composed;
mod concurrent;
mod conformance;
mod conformance_component;
mod everywhere;
mod everywhere_hostile;
mod everywhere_providers;
mod hostile;
mod pages;
mod pooled;
mod programs;
mod served;

use std::process::ExitCode;

use glovebox_tests::{Case, build_components, cases_dir, everywhere::run_here, load_all_cases, process};
use libtest_mimic::{Arguments, Trial};

struct Suite {
    name: &'static str,
    needs_components: bool,
    has_all_runtimes: bool,
    trials: fn(&[Case]) -> Vec<Trial>,
}

const SUITES: [Suite; 13] = [
    Suite { name: "conformance", needs_components: false, has_all_runtimes: true, trials: conformance::trials },
    Suite { name: "hostile", needs_components: false, has_all_runtimes: false, trials: hostile::trials },
    Suite { name: "everywhere", needs_components: true, has_all_runtimes: false, trials: everywhere::trials },
    Suite {
        name: "everywhere_hostile",
        needs_components: true,
        has_all_runtimes: false,
        trials: everywhere_hostile::trials,
    },
    Suite {
        name: "everywhere_providers",
        needs_components: true,
        has_all_runtimes: false,
        trials: everywhere_providers::trials,
    },
    Suite {
        name: "conformance_component",
        needs_components: true,
        has_all_runtimes: false,
        trials: conformance_component::trials,
    },
    Suite { name: "composed", needs_components: true, has_all_runtimes: false, trials: composed::trials },
    Suite { name: "budgets", needs_components: true, has_all_runtimes: false, trials: budgets::trials },
    Suite { name: "pooled", needs_components: true, has_all_runtimes: false, trials: pooled::trials },
    Suite { name: "served", needs_components: true, has_all_runtimes: false, trials: served::trials },
    Suite { name: "concurrent", needs_components: true, has_all_runtimes: false, trials: concurrent::trials },
    Suite { name: "programs", needs_components: true, has_all_runtimes: false, trials: programs::trials },
    Suite { name: "pages", needs_components: true, has_all_runtimes: false, trials: pages::trials },
];

fn main() -> ExitCode {
    if let Some(task) = process::child_task() {
        match task.split_once(' ') {
            Some(("run", program)) => run_here(program).expect("the program runs"),
            Some(("hostile", row)) => hostile::child(row),
            Some(("thousand", program)) => concurrent::thousand(program.as_ref()),
            _ => panic!("unknown task `{task}`"),
        }
        return ExitCode::SUCCESS;
    }
    let args = Arguments::from_args();
    let named = args.filter.as_deref().and_then(|filter| filter.split_once('/')).map(|(suite, _)| suite);
    let is_named = |suite: &&Suite| named == Some(suite.name);
    let suites: Vec<_> = match SUITES.iter().find(is_named) {
        Some(suite) => vec![suite],
        None => SUITES.iter().collect(),
    };
    if !args.list && suites.iter().any(|suite| suite.needs_components) {
        build_components();
    }
    let cases = load_all_cases(&cases_dir()).expect("the cases are well formed");
    let common: Vec<Case> = cases.iter().filter(|case| case.runtime.is_none()).cloned().collect();
    let mut trials = Vec::new();
    for suite in suites {
        trials.extend((suite.trials)(if suite.has_all_runtimes { &cases } else { &common }));
    }
    libtest_mimic::run(&args, trials).exit_code()
}
