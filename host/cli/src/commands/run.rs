//! `glovebox run`: runs scripts, each in a fresh sandbox.

use std::{fs::File, io, path::PathBuf};

use anyhow::Context;
use clap::Args;
use glovebox::{CancelToken, ExecuteError, Language, Policy, Sandbox};

use crate::{
    args::{PolicyArgs, RuntimeArgs, SourceArgs},
    cli::GlobalArgs,
    engine::{Host, Pooling},
    interrupt,
    output::{Passthrough, explain},
    source::{STDIN, Source, bounded},
    terminal::{BROKEN_PIPE_EXIT_CODE, Hinted, out_json},
};

const AFTER_HELP: &str = "\
Examples:
  glovebox run hello.py hello.js
  glovebox run -e 'import sys; print(sys.argv)' --arg one --arg two
  glovebox run --language javascript -e 'console.log([1, 2].map(x => x * 2))'
  echo 'print(1)' | glovebox run -
  seq 9 | glovebox run --stdin - -e 'print(sum(int(n) for n in __import__(\"sys\").stdin))'
  glovebox run --workspace out --mount data:/data:ro report.py
  glovebox run --timeout-ms 500 --memory-bytes 64MiB untrusted.py
  glovebox run --seed 7 --json -e 'import random; print(random.random())'

Without --json the script's output goes straight through, byte for byte, and so does its exit code:
  0    it ran to its end            124  out of time
  1    an exception reached the top 137  out of fuel or memory
  N    it exited with N             130  cancelled with Ctrl-C (twice: killed)
  134  the interpreter trapped      125  glovebox itself failed (2: wrong flags)
With several files it is the first failing one's; all of them are run.

With --json one line per script goes to standard output, an object with these names: success, outcome,
exit_code, stdout, stderr, stdout_truncated, stderr_truncated, fuel_consumed, memory_used_bytes,
duration_ms, files_created, files_modified, files_deleted, workspace_path, session_id, metadata.";

/// Run scripts, each in a fresh sandbox
///
/// A script sees an empty /app as its working directory, no network, no host files and no host environment, unless
/// the policy says otherwise. Its standard input is empty unless --stdin gives it one: a run never waits for a pipe
/// that it was merely started with.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    runtime: RuntimeArgs,

    /// Print what each script did and used as JSON instead of its output
    #[arg(long)]
    json: bool,

    /// What the script reads from standard input: a file, or `-` for ours, read to its end first [default: nothing]
    #[arg(long, value_name = "FILE")]
    stdin: Option<PathBuf>,

    /// A session id to stand in the result and the log
    #[arg(long, value_name = "ID")]
    session_id: Option<String>,

    #[command(flatten)]
    policy: PolicyArgs,
}

pub(crate) fn run(global: &GlobalArgs, args: &RunArgs) -> anyhow::Result<i32> {
    let policy = args.policy.resolve()?;
    let sources = Source::read_all(&args.source, policy.limits.source_bytes)?;
    let languages: Vec<Option<Language>> =
        sources.iter().map(|source| source.language(&args.source, &args.runtime)).collect::<Result<_, _>>()?;
    let stdin = read_stdin(args, &policy)?;
    // From here on nothing blocks without looking for Ctrl-C.
    let cancel = interrupt::install()?;
    let host = Host::open(global, Pooling::Single)?;

    let mut sandboxes: Vec<(Option<Language>, Sandbox)> = Vec::new();
    let mut exit_code = 0;
    for (source, language) in sources.iter().zip(languages) {
        let sandbox = match sandboxes.iter().find(|(of, _)| *of == language) {
            Some((_, sandbox)) => sandbox.clone(),
            None => {
                let sandbox = host.sandbox(&args.runtime, language, &policy)?;
                sandboxes.push((language, sandbox.clone()));
                sandbox
            }
        };
        let code = run_one(args, &sandbox, source, &stdin, &cancel)?;
        if exit_code == 0 {
            exit_code = code;
        }
        if cancel.is_cancelled() {
            break;
        }
    }
    Ok(exit_code)
}

/// Runs one script and gives its exit code.
fn run_one(
    args: &RunArgs,
    sandbox: &Sandbox,
    source: &Source,
    stdin: &[u8],
    cancel: &CancelToken,
) -> anyhow::Result<i32> {
    let passed = Passthrough::new(cancel);
    let mut request = source.request().stdin(stdin).cancel(cancel);
    if let Some(id) = &args.session_id {
        request = request.session_id(id);
    }
    if !args.json {
        let passed = passed.clone();
        request = request.on_output(move |stream, bytes| passed.write(stream, bytes));
    }
    let failure = format!("cannot run `{}`", source.label);
    let execution = match interrupt::guarded(|| sandbox.run(request)) {
        Ok(execution) => execution,
        Err(error) => {
            // The script has run; what it did is worth knowing though its files did not reach the host.
            if let ExecuteError::Commit { execution, .. } = &error
                && args.json
            {
                out_json(execution)?;
            }
            return Err(error).context(failure);
        }
    };
    if let Some(error) = passed.failure() {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Ok(BROKEN_PIPE_EXIT_CODE);
        }
        return Err(error).context("cannot write the script's output");
    }
    if args.json {
        out_json(&execution)?;
    } else {
        explain(&execution);
    }
    Ok(execution.outcome.exit_code())
}

/// What the script gets to read. Never our own standard input unasked: it may be a pipe that nobody ever closes.
fn read_stdin(args: &RunArgs, policy: &Policy) -> anyhow::Result<Vec<u8>> {
    let most_bytes = policy.limits.stdin_bytes;
    match &args.stdin {
        None => Ok(Vec::new()),
        Some(path) if path.as_os_str() == STDIN => {
            if args.source.code.files.iter().any(|file| file.as_os_str() == STDIN) {
                return Err(Hinted::new(
                    "the script and its input cannot both come from standard input",
                    "put one of them into a file",
                )
                .into());
            }
            bounded("standard input", io::stdin().lock(), most_bytes, "--stdin-bytes")
        }
        Some(path) => {
            let what = format!("input file `{}`", path.display());
            let file = File::open(path).map_err(|error| {
                Hinted::new(format!("cannot read {what}"), "check the path given to --stdin").because(error)
            })?;
            bounded(&what, file, most_bytes, "--stdin-bytes")
        }
    }
}
