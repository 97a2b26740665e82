//! `glovebox repl`: a session at the terminal, or fed from a pipe.

mod complete;
mod console;
mod directive;
mod lines;
mod undo;

use std::io::{self, IsTerminal};

use clap::Args;
use glovebox::{Language, Policy};

use self::{complete::Parser, console::Console, lines::Lines};
use crate::{
    args::{PolicyArgs, RuntimeArgs},
    cli::GlobalArgs,
    engine::{Host, Pooling},
    interrupt, state,
};

const AFTER_HELP: &str = "\
Examples:
  glovebox repl                           Python
  glovebox repl -l javascript
  glovebox repl --mount data:/data:ro
  printf 'x = 20\\nx + 1\\n' | glovebox repl

An input runs when the language's own parser says that it is complete; in Python an indented block ends
with an empty line. The value of a trailing expression is shown, and what an input raises leaves the
session as it is. Ctrl-C stops what runs, or clears the line. Ctrl-D leaves, and so does `exit()`,
whose code becomes the REPL's.

Beside code there are commands, `:help` explains them:
  :fork NAME  :switch [NAME]  :undo [N]  :limits  :reset  :quit

The limits hold for each input by itself. Inputs are kept in a history file of your own, one for each
language, under $XDG_STATE_HOME/glovebox; those that begin with a space are not.";

/// Type code and see what it does, in a session that remembers
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ReplArgs {
    /// python or javascript [default: python]
    #[arg(short, long, value_name = "LANGUAGE", value_parser = str::parse::<Language>)]
    language: Option<Language>,

    #[command(flatten)]
    runtime: RuntimeArgs,

    #[command(flatten)]
    policy: PolicyArgs,
}

pub(crate) fn run(global: &GlobalArgs, args: &ReplArgs) -> anyhow::Result<i32> {
    let policy = args.policy.resolve()?;
    interrupt::install()?;
    let host = Host::open(global, Pooling::Single)?;
    let sandbox = host.sandbox(&args.runtime, args.language, &policy)?;
    let language = sandbox.language();
    // The session's directories are none of the parser's business, and its limits may be too tight for it.
    let parser = Parser::new(host.sandbox(&args.runtime, Some(language), &Policy::default())?);
    let lines = if io::stdin().is_terminal() && io::stdout().is_terminal() {
        // A machine without a place for state still gets a REPL.
        let history = state::create().ok().map(|dir| dir.join(format!("history.{language}")));
        Lines::terminal(parser, history)?
    } else {
        Lines::piped(parser, policy.limits.source_bytes)
    };
    Console::open(sandbox, lines)?.run()
}
