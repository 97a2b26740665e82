//! Runs the hostile scripts with the portable provider in other component hosts. A trial is named
//! `everywhere_hostile/wasmtime/peers/repeat`. On every push, the scripts run in one host, and the hostile callers run
//! in all hosts.
//!
//! Each script must have the outcome that its row in `tests/hostile` names, and the same instance must answer the next
//! call. The only differences allowed are those in `everywhere::exceptions`. Some of them are traps that end the
//! instance: the host must report the trap, and a new instance must answer.

use std::process::Command;

use glovebox::{Language, Policy};
use glovebox_tests::{
    Action, Case, ObservedExecution, Request, StepResult,
    everywhere::{
        Host, HostPool,
        exceptions::{INSTANCE_ENDS, expected_of_hostile},
        keeps_secrets,
    },
    hostile::{Row, rows},
    missing_trial, portable_runtime, trial_with, whole_matrix,
};
use libtest_mimic::{Failed, Trial};

const MEMORY_BYTES: u64 = 64 << 20;
/// The timeout for endless scripts. A short timeout is sufficient.
const ENDLESS_TIMEOUT_MS: u64 = 300;
/// The timeout for terminating scripts, long enough for the slowest host on a busy machine.
const TIMEOUT_MS: u64 = 120_000;
/// Maximum time from a guest's deadline until the guest ends, in milliseconds.
const LATE_MS: f64 = 10_000.0;

pub(crate) fn trials(_: &[Case]) -> Vec<Trial> {
    let (mut trials, mut hosts) = (Vec::new(), Vec::new());
    for (host, hosted) in HostPool::all("everywhere") {
        match hosted {
            Ok(hosted) => hosts.push((host, hosted)),
            Err(line) => trials.push(missing_trial(format!("everywhere_hostile/{}", host.name()), line)),
        }
    }
    for row in rows() {
        // The inner loop iterates over the hosts, so that they work in parallel.
        for (host, hosted) in hosts.iter().filter(|(host, _)| *host == Host::Wasmtime || whole_matrix()) {
            let (host, hosted, row) = (*host, hosted.clone(), row.clone());
            let name = format!("everywhere_hostile/{}/{}", host.name(), row.name);
            trials.push(Trial::test(name, move || show(host, &hosted, &row)));
        }
    }
    for (host, _) in hosts {
        for language in Language::ALL {
            let name = format!("everywhere_hostile/{}/secrets/{}", host.name(), language.name());
            // Needs a separate process, so that no other case runs in between.
            trials.push(trial_with(name, HostPool::alone(host, "everywhere"), move |hosted| {
                Ok(keeps_secrets(&hosted, language)?)
            }));
        }
        let name = format!("everywhere_hostile/{}/abuse", host.name());
        trials.push(trial_with(name, host.command("everywhere-abuse"), abuse));
    }
    trials
}

/// Runs the program that acts as a hostile caller with hostile tools, and checks each attempt's result.
fn abuse(mut command: Command) -> Result<(), Failed> {
    let output = command.output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && printed == ABUSE {
        return Ok(());
    }
    let complained = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "the program exited with {} and printed\n{printed}instead of\n{ABUSE}{}",
        output.status,
        cut(&complained)
    )
    .into())
}

const ABUSE: &str = "\
sessions-without-end: 5, TooManySessions; one closed: 1, TooManySessions
forks-without-end: 4, TooManySessions, [\"2\", \"2\", \"2\", \"2\"]
state-without-end: bounded: true, TooManySessions; all closed: ok
checkpoints-without-end: retained few: true, NoCheckpoint
forged-states: forged NotResumable, others NotResumable, itself ok
large-reply: ToolLimit
deep-reply: ToolError
odd-replies: empty ToolError, cut ToolError, surrogate ToolError, huge_number ToolError, long_error ToolError
deep-values: set Variable InvalidArgument InvalidArgument InvalidArgument ok ok, got Variable ok ok
odd-names: ok/InvalidArgument ok/ok ok/Variable, \"true\"
odd-paths: File ok, [\"a\", \"a/b\", \"f\", \"loop\", \"up\", \"up/x\"]
odd-patterns: ok File
odd-ranges: 5/5/6 2/2/3 0/0/1 0/0/0 0/0/0 0/0/0 0/0/0
odd-policies: InvalidPolicy InvalidPolicy InvalidPolicy InvalidPolicy InvalidPolicy InvalidPolicy InvalidPolicy InvalidPolicy
large-sources: SourceTooLarge StdinTooLarge ok/Ok(false)
left-in-the-middle: SessionBusy, ok, ok
";

fn show(host: Host, hosted: &HostPool, row: &Row) -> Result<(), Failed> {
    let timeout_ms = if row.is_endless() { ENDLESS_TIMEOUT_MS } else { TIMEOUT_MS };
    let (hostile, next) = (case(row, &row.source, timeout_ms), case(row, row.usable(), TIMEOUT_MS));
    let (results, one_instance) = hosted.run(portable_runtime(row.language), &[&hostile, &next]);
    let named = expected_of_hostile(host, &row.name).map(|exception| exception.outcome);
    let wanted = named.unwrap_or(&row.outcome);
    let mut wrong = Vec::new();
    match &results[0] {
        Ok(results) => match ran(results) {
            Ok(seen) => wrong.extend(compared(seen, row, wanted, timeout_ms)),
            Err(other) => wrong.push(other),
        },
        // Checks the message, because the host may have aborted instead of trapping.
        Err(broke) if wanted == INSTANCE_ENDS && is_reported(broke) => {}
        Err(broke) => wrong.push(format!("expected `{wanted}`: {broke}")),
    }
    match results[1].as_ref().map(|results| ran(results)) {
        Ok(Ok(seen)) if seen.stdout == "usable\n" => {}
        other => wrong.push(format!("the next execution failed: {other:?}")),
    }
    if one_instance == (wanted == INSTANCE_ENDS) {
        wrong.push(format!("the next execution was in the same instance: {one_instance}"));
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failed::from(wrong.join("\n"))) }
}

/// Returns `true` if the output of a host that ended reports a trap.
fn is_reported(broke: &str) -> bool {
    ["wasm trap", "RuntimeError", "RangeError", "trap"].iter().any(|word| broke.contains(word))
}

fn compared(seen: &ObservedExecution, row: &Row, wanted: &str, timeout_ms: u64) -> Vec<String> {
    let mut wrong = Vec::new();
    let outcome = short(seen);
    if outcome != wanted {
        wrong.push(format!("expected `{wanted}`, got `{outcome}`; standard error:\n{}", cut(&seen.stderr)));
    }
    if wanted == row.outcome && !seen.stdout.contains(&row.stdout) {
        wrong.push(format!("standard output lacks {:?}:\n{}", row.stdout, cut(&seen.stdout)));
    }
    if seen.memory_used_bytes > MEMORY_BYTES {
        wrong.push(format!("{} bytes of memory used at a limit of {MEMORY_BYTES}", seen.memory_used_bytes));
    }
    if seen.duration_ms > timeout_ms as f64 + LATE_MS {
        wrong.push(format!("it took {} ms", seen.duration_ms));
    }
    wrong
}

/// Returns the result of a single executed step.
fn ran(results: &[StepResult]) -> Result<&ObservedExecution, String> {
    match results {
        [StepResult::Executed { observed, .. }] => Ok(observed),
        other => Err(format!("{other:?}")),
    }
}

/// Formats the outcome as the rows do.
fn short(seen: &ObservedExecution) -> String {
    let field = |key: &str| seen.outcome.get(key).map(|value| value.as_str().map_or(value.to_string(), str::to_owned));
    let detail = ["code", "type", "resource", "trap"].into_iter().find_map(field);
    let kind = field("kind").unwrap_or_default();
    detail.map_or(kind.clone(), |detail| format!("{kind} {detail}"))
}

fn cut(text: &str) -> String {
    text.chars().take(2_000).collect()
}

fn case(row: &Row, source: &str, timeout_ms: u64) -> Case {
    let mut policy = Policy::default();
    policy.limits.timeout_ms = timeout_ms;
    // Disables the soft limit, so that the guest is unwound.
    policy.limits.timeout_reserve_ms = 0;
    policy.limits.fuel_reserve = 0;
    policy.limits.memory_bytes = MEMORY_BYTES;
    policy.limits.fuel = 1_000_000_000_000;
    let action = Action::Run { source: source.to_owned(), request: Request::default() };
    Case::of_steps(&row.name, row.language, policy, vec![("main", action)])
}
