//! Every case in `cases/` again, on every runtime of the manifest, from inside a component, through `glovebox:sandbox`.
//!
//! A trial runs its case three times: as the case says, with every execution stepped through, and under a fixed clock and seeded
//! entropy, where all that the component is told must be what the engine says, fuel to the unit. The trials are those of
//! `conformance`, under the same names.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test program: a panic is a failed test")]

use std::process::ExitCode;

use glovebox_tests::{
    Action, Backend, Case, ComponentBackend, EngineBackend, Expect, Step, StepResult, cases_dir, check, engine, fixed,
    load_cases, program_trial,
};
use libtest_mimic::{Arguments, Failed};

/// Cases that cannot pass from inside a component, and why. A trial of each shows that it does not.
const NOT_FOR_COMPONENTS: [(&str, &str); 1] =
    [("session-id", "the ids of a component's sessions are the host's: it gives none to an execution")];

fn main() -> ExitCode {
    let args = Arguments::from_args();
    let cases = load_cases(&cases_dir()).expect("the cases are well formed");
    for (name, _) in NOT_FOR_COMPONENTS {
        assert!(cases.iter().any(|case| case.name == name), "`{name}` is no case");
    }
    let mut trials = Vec::new();
    for runtime in engine().runtimes().expect("the manifest is read") {
        for case in cases.iter().filter(|case| case.language == runtime.language).cloned() {
            let name = format!("{}/{}", runtime.name, case.name);
            let runtime = runtime.name.clone();
            let reason = NOT_FOR_COMPONENTS.iter().find(|(name, _)| *name == case.name).map(|(_, reason)| *reason);
            trials.push(program_trial(name, "cases", move |_| match reason {
                None => show(&runtime, with_files_written(case)),
                Some(reason) => show_not(&runtime, &case, reason),
            }));
        }
    }
    libtest_mimic::run(&args, trials).exit_code()
}

fn show(runtime: &str, mut case: Case) -> Result<(), Failed> {
    let called = ComponentBackend::of_runtime(runtime, false)?;
    let stepped = ComponentBackend::of_runtime(runtime, true)?;
    let mut report = wrong("called", &case, &called.run(&case)) + &wrong("stepped", &case, &stepped.run(&case));

    fixed(&mut case.policy);
    let expected = EngineBackend::of_runtime(runtime).run(&case);
    for (step, (expected, seen)) in case.steps.iter().zip(expected.into_iter().zip(called.run(&case))) {
        let (expected, seen) = (comparable(expected), comparable(seen));
        if expected != seen {
            report += &format!("[fixed: {}] the engine says\n{expected:#?}\nthe component\n{seen:#?}\n", step.name);
        }
    }
    if report.is_empty() { Ok(()) } else { Err(Failed::from(report)) }
}

fn show_not(runtime: &str, case: &Case, reason: &str) -> Result<(), Failed> {
    let results = ComponentBackend::of_runtime(runtime, false)?.run(case);
    if wrong("called", case, &results).is_empty() {
        return Err(format!("it passes: {reason} is no longer so").into());
    }
    Ok(())
}

fn wrong(how: &str, case: &Case, results: &[StepResult]) -> String {
    let mut report = String::new();
    for (step, result) in case.steps.iter().zip(results) {
        for wrong in check(&step.expect, result, case.language) {
            report += &format!("[{how}: {}] {wrong}\n", step.name);
        }
    }
    if results.len() != case.steps.len() {
        report += &format!("[{how}] {} steps gave {} results\n", case.steps.len(), results.len());
    }
    report
}

/// Components have files before the first execution only in a session: each step becomes a session that they are written into.
fn with_files_written(mut case: Case) -> Case {
    if case.files.is_empty() {
        return case;
    }
    assert!(!case.kept && case.steps.len() == 1, "{}: a case with files has one step", case.name);
    let text = |(path, bytes)| (path, String::from_utf8(bytes).expect("the cases' files are text"));
    let files = std::mem::take(&mut case.files).into_iter().map(text).collect();
    let session = case.steps.first().map(|step| step.session.clone()).unwrap_or_default();
    let write = Step { name: "files".into(), session, action: Action::Write { files }, expect: Expect::default() };
    case.steps.insert(0, write);
    case.kept = true;
    case
}

/// What is the same each time under a fixed clock and seeded entropy.
fn comparable(result: StepResult) -> StepResult {
    match result {
        StepResult::Ran { mut observed, files } => {
            observed.duration_ms = 0.0;
            observed.session_id = None;
            for call in &mut observed.tool_calls {
                for time in ["started_ms", "duration_ms"] {
                    call.as_object_mut().expect("a call is an object").remove(time);
                }
            }
            // Time that ran out, ran out on the host's clock.
            if matches!(observed.outcome.get("resource").and_then(|resource| resource.as_str()), Some("time")) {
                observed.fuel_consumed = 0;
            }
            StepResult::Ran { observed, files }
        }
        // The engine's and the contract's words for the same refusal differ.
        StepResult::Refused(_) => StepResult::Refused(String::new()),

        other => other,
    }
}
