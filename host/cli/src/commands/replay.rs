//! `glovebox replay`: repeats a recorded script and compares the results.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::Args;
use glovebox::{ExecuteError, Execution, Outcome, Recording, escaped};
use serde::Serialize;

use crate::{
    args::{GlobalArgs, PolicyArgs, RuntimeArgs},
    engine::{Host, Pooling},
    interrupt,
    terminal::{OrHint as _, format_count, grouped, note, on_one_line, out, out_json},
};

/// Maximum number of bytes to read from a file: one more than the maximum length of a recording, 64 MiB.
const MAX_FILE_BYTES: u64 = (64 << 20) + 1;

const AFTER_HELP: &str = "\
Examples:
  glovebox run --record run.recording --tool price='python3 price.py' shop.py
  glovebox replay run.recording                            # on any machine, without price.py
  glovebox run --record run.recording --fuel 5_000_000 a.py
  glovebox replay run.recording --fuel 5_000_000           # use the policy of the first run

The script receives the recorded tool answers, times, random numbers and input. No tool is called, host directories \
are not changed, and the script's output is not printed. If the outcome, the fuel, the output, the tool calls and the \
changed files are equal, the exit code is 0. Otherwise, it is 125, and the error names the first difference.

Use every option from the original run that affects what the script sees: limits, --seed, --arg, --env, --mount, \
--workspace. FILE contains the script, its input and the definitions of its tools, but no policy and no files. If the \
script has changed a --workspace, restore its earlier files first. Time limits can differ.

FILE proves nothing by itself: its author can claim any results. Repeat the script to verify them.";

/// Replay a recorded script and compare the results, down to the unit of fuel
///
/// `glovebox run --record FILE` writes the recording.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ReplayArgs {
    /// File with the recording, written by `glovebox run --record`
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Print a report as JSON: equal, outcome, exit_code, fuel_consumed, tool_calls; or equal, difference
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    runtime: RuntimeArgs,

    #[command(flatten)]
    policy: PolicyArgs,
}

/// The report of a replay with equal results.
#[derive(Serialize)]
struct EqualReport<'a> {
    equal: bool,
    outcome: &'a Outcome,
    exit_code: i32,
    fuel_consumed: u64,
    tool_calls: usize,
}

/// The report of a replay with a different result.
#[derive(Serialize)]
struct DifferenceReport<'a> {
    equal: bool,
    difference: &'a str,
}

pub(crate) fn run(global: &GlobalArgs, args: &ReplayArgs) -> anyhow::Result<i32> {
    let recording = read(&args.file)?;
    let policy = args.policy.resolve()?;
    // From here on, every blocking operation checks for Ctrl-C.
    let cancel = interrupt::install()?;
    let host = Host::open(global, Pooling::Single)?;
    let sandbox = host.sandbox(&args.runtime.or(recording.runtime_name()), None, &policy)?;
    let request = recording.request().cancel(&cancel);
    match interrupt::run_guest(|| sandbox.run(request)) {
        Ok(execution) => {
            report(args, &execution)?;
            Ok(0)
        }
        Err(_) if cancel.is_cancelled() => {
            note("interrupted");
            Ok(interrupt::EXIT_CODE)
        }
        Err(error) => {
            if let (true, ExecuteError::NotRepeated { difference }) = (args.json, &error) {
                out_json(&DifferenceReport { equal: false, difference })?;
            }
            Err(anyhow::Error::from(error).context(format!("cannot repeat `{}`", escaped(&args.file))))
        }
    }
}

fn report(args: &ReplayArgs, execution: &Execution) -> anyhow::Result<()> {
    let (outcome, fuel_consumed, calls) = (&execution.outcome, execution.fuel_consumed, execution.tool_calls.len());
    if args.json {
        let exit_code = outcome.exit_code();
        return out_json(&EqualReport { equal: true, outcome, exit_code, fuel_consumed, tool_calls: calls });
    }
    let line = format!(
        "equal: {}; {} units of fuel, {}",
        on_one_line(&outcome.describe()),
        grouped(fuel_consumed),
        format_count(calls as u64, "tool call")
    );
    out(&format!("{line}\n")).context("cannot write to standard output")
}

fn read(path: &Path) -> anyhow::Result<Recording> {
    let message = || format!("cannot read `{}`", escaped(path));
    let hint = "pass a file created by `glovebox run --record`";
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE_BYTES).read_to_end(&mut bytes));
    read.or_hint(message, hint)?;
    Ok(Recording::from_bytes(&bytes).or_hint(message, hint)?)
}
