//! Runs every case in `cases/` on the Rust engine, for each language of its scripts and each runtime in the manifest.
//!
//! Each case is a trial named after its runtime: `conformance/python/<case>`. Runtimes that take minutes to download
//! and compile are only tested in the full matrix, and on machines that have prepared them.
//!
//! `conformance/suspended/python/<case>` runs a case with tools again, and suspends and resumes each execution whenever
//! it waits for a tool. The expected results are the same. Cases with slow tools are excluded, because they compare
//! host times, which a suspension changes.

use std::sync::Arc;

use glovebox_tests::{Backend, Case, EngineBackend, check_case, tested_runtimes};
use libtest_mimic::{Failed, Trial};

pub(crate) fn trials(cases: &[Case]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for runtime in tested_runtimes() {
        let backend = Arc::new(EngineBackend::of_runtime(&runtime.name));
        let suspending = Arc::new(EngineBackend::of_runtime(&runtime.name).suspending());
        for case in cases.iter().filter_map(|case| case.on_runtime(&runtime.name)) {
            let mut trial = |suite: &str, case: Case, backend: &Arc<EngineBackend>| {
                let (name, backend) = (format!("{suite}/{}/{}", runtime.name, case.name), Arc::clone(backend));
                trials.push(Trial::test(name, move || show(&case, &backend)));
            };
            let are_fast = case.tools.values().all(|tool| tool.delay_ms == 0);
            if !case.tools.is_empty() && are_fast && !case.carry {
                trial("conformance/suspended", case.clone(), &suspending);
            }
            trial("conformance", case, &backend);
        }
    }
    trials
}

/// Runs a case. A case with a short timeout can fail on a slow machine, and then runs again with longer timeouts
/// and delays.
fn show(case: &Case, backend: &EngineBackend) -> Result<(), Failed> {
    let mut report = check_case(case, &backend.run(case));
    if !report.is_empty()
        && let Some(longer) = case.with_longer_times(10)
    {
        let again = check_case(&longer, &backend.run(&longer));
        if again.is_empty() {
            report.clear();
        } else {
            report += &format!("with longer times:\n{again}");
        }
    }
    // After the case, every idle instance must equal a new one.
    if let Err(difference) = backend.compare_recycled(case) {
        report += &format!("a recycled instance differs: {difference}\n");
    }
    if report.is_empty() { Ok(()) } else { Err(Failed::from(report)) }
}
