//! Runs every case in `cases/` inside a component, through `glovebox:sandbox`, on the small runtimes in the manifest. A
//! push only runs the smoke cases.
//!
//! A trial runs its case three times: unchanged, with every execution stepped through, and with a fixed clock and
//! seeded entropy. In the third run, the component must produce exactly the engine's results, including fuel. The
//! trials have the same names as in `conformance`.
//!
//! The trials `conformance_component/0.3/…` do the same through version 0.3.0 of the contract, with all executions either
//! called or started.
//!
//! `CASES_PROGRAM` names a composition with another provider. If it is set, a trial makes only the first two runs,
//! because their expectations apply to any provider. `CASES_RUNTIMES` sets the names of its runtimes, as
//! `python=NAME,javascript=NAME`; the default is the names in the manifest. `CASES_SAME_AS_ENGINE=1` replaces the first
//! run with the third, for a provider that forwards all calls to this engine.

use std::env;

use glovebox::Language;
use glovebox_tests::{
    Backend, Case, ComponentBackend, ConcurrentBackend, EngineBackend, check_case,
    compare::{comparable, depends_on_time},
    engine, fixed, is_large, missing_trial, program_path, whole_matrix,
};
use libtest_mimic::{Failed, Trial};

pub(crate) fn trials(cases: &[Case]) -> Vec<Trial> {
    let mut trials = Vec::new();
    if let Err(line) = program_path("cases") {
        return vec![missing_trial("conformance_component", line)];
    }
    for (language, runtime) in runtimes() {
        let own = cases.iter().filter(|case| case.language == language);
        for case in own.filter(|case| case.smoke || whole_matrix()) {
            let name = format!("conformance_component/{runtime}/{}", case.name);
            // The runtime of another provider can have any name. For an unknown name, the general expectations apply.
            let case = case.on_runtime(&runtime).unwrap_or_else(|| case.clone());
            let runtime = runtime.clone();
            trials.push(Trial::test(name, move || show(&runtime, case)));
        }
    }
    // Other providers do not export version 0.3.0.
    if env::var_os("CASES_PROGRAM").is_none() {
        trials.extend(concurrent_trials(cases));
    }
    trials
}

/// Creates the trials of version 0.3.0.
fn concurrent_trials(cases: &[Case]) -> Vec<Trial> {
    if let Err(line) = program_path("cases-concurrent") {
        return vec![missing_trial("conformance_component/0.3", line)];
    }
    let mut trials = Vec::new();
    for (language, runtime) in runtimes() {
        let own = cases.iter().filter(|case| case.language == language);
        for case in own.filter(|case| case.smoke || whole_matrix()) {
            let name = format!("conformance_component/0.3/{runtime}/{}", case.name);
            let case = case.on_runtime(&runtime).unwrap_or_else(|| case.clone());
            let runtime = runtime.clone();
            trials.push(Trial::test(name, move || show_concurrent(&runtime, case)));
        }
    }
    trials
}

/// Returns the runtimes to run the cases on.
fn runtimes() -> Vec<(Language, String)> {
    let Ok(named) = env::var("CASES_RUNTIMES") else {
        let known = engine().runtimes().expect("the manifest can be read");
        // Components can use a large runtime only if it is the default or was added (`glovebox runtimes add`).
        return known
            .into_iter()
            .filter(|runtime| !is_large(runtime))
            .map(|runtime| (runtime.language, runtime.name))
            .collect();
    };
    let one = |pair: &str| {
        let (language, name) = pair.split_once('=').expect("`CASES_RUNTIMES` is `LANGUAGE=NAME,…`");
        (language.parse().expect("a language's name"), name.to_owned())
    };
    named.split(',').map(one).collect()
}

fn show(runtime: &str, case: Case) -> Result<(), Failed> {
    let called = ComponentBackend::of_runtime(runtime, false)?;
    let stepped = ComponentBackend::of_runtime(runtime, true)?;
    let in_between = env::var_os("CASES_PROGRAM").is_some();
    let same_as_engine = !in_between || env::var_os("CASES_SAME_AS_ENGINE").is_some_and(|set| set == "1");
    let mut report = run("stepped", &case, &stepped);
    if !(in_between && same_as_engine) {
        report += &run("called", &case, &called);
    }
    if same_as_engine {
        report += &differences(&called, runtime, case);
    }
    if report.is_empty() { Ok(()) } else { Err(Failed::from(report)) }
}

fn show_concurrent(runtime: &str, case: Case) -> Result<(), Failed> {
    let called = ConcurrentBackend::of_runtime(runtime, false)?;
    let started = ConcurrentBackend::of_runtime(runtime, true)?;
    let mut report = run("started", &case, &started);
    report += &run("called", &case, &called);
    report += &differences(&called, runtime, case);
    if report.is_empty() { Ok(()) } else { Err(Failed::from(report)) }
}

/// Describes how the component's results differ from the engine's under a fixed clock and seeded entropy.
fn differences(called: &dyn Backend, runtime: &str, mut case: Case) -> String {
    let mut report = String::new();
    fixed(&mut case.policy);
    let expected = EngineBackend::of_runtime(runtime).run(&case);
    for (step, (expected, seen)) in case.steps.iter().zip(expected.iter().zip(&called.run(&case))) {
        let by_time = depends_on_time(&case, step, expected) || depends_on_time(&case, step, seen);
        let (one, other) = (comparable(expected, by_time), comparable(seen, by_time));
        if one != other {
            report += &format!("[fixed: {}] the engine says\n{one:#?}\nthe component\n{other:#?}\n", step.name);
        }
        if by_time {
            break;
        }
    }
    report
}

/// Runs a case and describes how the results differ from its expectations. A case with a short timeout can fail on a
/// slow machine, and then runs again with longer times.
fn run(how: &str, case: &Case, backend: &dyn Backend) -> String {
    let mut report = check_case(case, &backend.run(case));
    if !report.is_empty()
        && let Some(longer) = case.with_longer_times(10)
    {
        report = check_case(&longer, &backend.run(&longer));
    }
    if report.is_empty() { report } else { format!("{how}:\n{report}") }
}
