//! `glovebox validate`: runs the interpreters' own parsers without executing anything.

use std::io::Write;

use anyhow::Context;
use clap::Args;
use glovebox::{Diagnostic, Policy, escaped, escaped_text};
use serde::Serialize;

use crate::{
    args::{GlobalArgs, RuntimeArgs, SourceArgs},
    engine::{Host, Pooling},
    interrupt,
    source::Source,
    terminal::{BAD, HEAD, out_json},
};

const AFTER_HELP: &str = "\
Examples:
  glovebox validate script.py
  glovebox validate --json -e 'print(1'
  git diff --name-only | grep -E '\\.(py|js)$' | xargs glovebox validate

Diagnostics go to standard error as FILE:LINE:COLUMN: MESSAGE. The exit code is 0 if all sources are
valid, and 1 if a parser reported a problem. With --json, one line per source goes to standard output:
  {\"file\":…,\"valid\":…,\"diagnostics\":[{\"line\":…,\"column\":…,\"message\":…}]}";

/// Check scripts with their interpreter's parser, without executing them
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ValidateArgs {
    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    runtime: RuntimeArgs,

    /// Print the diagnostics as JSON on standard output
    #[arg(long)]
    json: bool,
}

/// Diagnostics of one source, as JSON.
#[derive(Debug, Serialize)]
struct Checked<'a> {
    file: &'a str,
    valid: bool,
    diagnostics: &'a [Diagnostic],
}

pub(crate) fn run(global: &GlobalArgs, args: &ValidateArgs) -> anyhow::Result<i32> {
    let policy = Policy::default();
    let sources = Source::read_all(&args.source, policy.limits.source_bytes)?;
    let cancel = interrupt::install()?;
    let host = Host::open(global, Pooling::Single)?;
    let mut all_valid = true;
    for source in &sources {
        let language = source.language(&args.source, &args.runtime)?;
        let sandbox = host.sandbox(&args.runtime, language, &policy)?;
        let request = source.request().cancel(&cancel);
        let diagnostics = interrupt::guarded(|| sandbox.validate_request(request))
            .with_context(|| format!("cannot validate `{}`", escaped(&source.label)))?;
        all_valid &= diagnostics.is_empty();
        if args.json {
            out_json(&Checked { file: &source.label, valid: diagnostics.is_empty(), diagnostics: &diagnostics })?;
        } else {
            print(&source.label, &diagnostics);
        }
    }
    Ok(i32::from(!all_valid))
}

fn print(label: &str, diagnostics: &[Diagnostic]) {
    let mut err = anstream::stderr().lock();
    for Diagnostic { line, column, message } in diagnostics {
        // Parsers quote the source, which can contain control characters.
        let (label, message) = (escaped(label), escaped_text(message));
        let _ = writeln!(err, "{HEAD}{label}:{line}:{column}:{HEAD:#} {BAD}{message}{BAD:#}");
    }
}
