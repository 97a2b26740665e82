//! Runs hostile scripts, each of which must have exactly the expected outcome, in a separate process whose memory is
//! measured.
//!
//! The rows are data, in `hostile/*.toml`. An abort, a hang, excessive memory growth in the host, and any outcome other
//! than the row's are failures.

use std::time::Duration;

use glovebox_tests::{
    Case,
    hostile::{Row, rows},
    process, sandbox, short, spare_bytes,
};
use libtest_mimic::{Failed, Trial};

const MIB: u64 = 1 << 20;
const MEMORY_BYTES: u64 = 80 * MIB;
/// Allowed growth of the host in addition to the guest's memory: page tables of a pool slot, stacks, and this program's
/// buffers.
const SLACK_BYTES: u64 = 48 * MIB;
/// The timeout for endless scripts. It can be short, because they always reach it.
const ENDLESS_TIMEOUT_MS: u64 = 300;
/// The timeout for terminating scripts, long enough for a busy machine.
const TIMEOUT_MS: u64 = 20_000;
/// Maximum time from a guest's deadline until the guest ends, in milliseconds. Long enough for a slow machine, but much
/// shorter than the half minute that other sandboxes take to stop some of these scripts.
const LATE_MS: u64 = 10_000;

pub(crate) fn trials(_: &[Case]) -> Vec<Trial> {
    rows().into_iter().map(|row| Trial::test(format!("hostile/{}", row.name), move || show(&row))).collect()
}

fn timeout_ms(row: &Row) -> u64 {
    if row.is_endless() { ENDLESS_TIMEOUT_MS } else { TIMEOUT_MS }
}

/// Runs a script in the child process. Prints its outcome and memory growth on separate lines, followed by its output.
pub(crate) fn child(name: &str) {
    let row = &rows().into_iter().find(|row| row.name == name).expect("the parent names a row");
    let sandbox = sandbox(row.language, |policy| {
        policy.limits.timeout_ms = timeout_ms(row);
        // Disables the soft limit, so that the guest is unwound.
        policy.limits.timeout_reserve_ms = 0;
        policy.limits.fuel_reserve = 0;
        policy.limits.memory_bytes = MEMORY_BYTES;
        policy.limits.fuel = 1_000_000_000_000;
    });
    sandbox.execute("").unwrap();
    let before = process::resident_bytes();
    let execution = sandbox.execute(&row.source).unwrap();
    let grown = process::peak_resident_bytes().saturating_sub(before);
    let after = sandbox.execute(row.usable()).unwrap();
    println!("outcome={}", short(&execution.outcome));
    println!("grown={grown}");
    println!("duration={}", execution.duration.as_millis());
    println!("memory={}", execution.memory_used_bytes);
    println!("after={}", after.stdout.text().trim_end());
    println!("recycled={}", sandbox.compare_recycled().map_or_else(|difference| difference, |_| "as new".to_owned()));
    println!("stdout={:?}", execution.stdout.text().chars().take(2_000).collect::<String>());
    println!("stderr={}", execution.stderr.text().chars().take(2_000).collect::<String>());
}

fn show(row: &Row) -> Result<(), Failed> {
    let output = process::run_child(&row.name, &format!("hostile {}", row.name), Duration::from_secs(90));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let field =
        |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).unwrap_or("").to_owned();
    let number = |key: &str| field(key).parse::<u64>().unwrap_or(u64::MAX);
    let mut wrong = Vec::new();
    if !output.status.success() {
        wrong.push(format!("the host ended with {}:\n{}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    if field("outcome") != row.outcome {
        wrong.push(format!("expected `{}`, got `{}`", row.outcome, field("outcome")));
    }
    let stdout = format!("{:?}", row.stdout);
    if !field("stdout").contains(stdout.trim_matches('"')) {
        wrong.push(format!("standard output lacks {stdout}"));
    }
    if field("after") != "usable" {
        wrong.push("the next execution failed".into());
    }
    if field("recycled") != "as new" {
        wrong.push(format!("a recycled instance differs: {}", field("recycled")));
    }
    if number("grown") > MEMORY_BYTES + spare_bytes(row.language) + SLACK_BYTES {
        wrong.push(format!("the host grew by {} MiB", number("grown") / MIB));
    }
    if number("memory") > MEMORY_BYTES {
        wrong.push(format!("{} bytes of memory used at a limit of {MEMORY_BYTES}", number("memory")));
    }
    if number("duration") > timeout_ms(row) + LATE_MS {
        wrong.push(format!("it took {} ms", number("duration")));
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failed::from(format!("{}\n{text}", wrong.join("\n")))) }
}
