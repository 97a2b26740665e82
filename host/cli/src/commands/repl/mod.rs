//! `glovebox repl`: a session at the terminal, or fed from a pipe.

mod complete;
mod console;
mod directive;
mod held;
mod lines;
mod undo;

use std::io::{self, IsTerminal};

use anyhow::Context as _;
use clap::Args;
use glovebox::{Language, Policy, Sandbox, SessionId, SessionRecord};

use self::{complete::Parser, console::Console, held::Held, lines::Lines};
use crate::{
    args::{ContextArgs, PolicyArgs, ProgramArgs, RuntimeArgs, StoreArgs},
    cli::GlobalArgs,
    engine::{Host, Pooling},
    interrupt,
    kept::{self, Shelf, runtime_of},
    state,
    terminal::Hinted,
};

const AFTER_HELP: &str = "\
Examples:
  glovebox repl                           Python
  glovebox repl -l javascript
  glovebox repl --session trip            one that is kept: `glovebox run --session trip` goes on with it
  glovebox repl --mount data:/data:ro
  glovebox repl --context data.json --tool search='./search --json'
  printf 'x = 20\\nx + 1\\n' | glovebox repl

An input runs when the language's own parser says that it is complete; in Python an indented block ends
with an empty line. The value of a trailing expression is shown, and what an input raises leaves the
session as it is. Ctrl-C stops what runs, or clears the line. Ctrl-D leaves, and so does `exit()`,
whose code becomes the REPL's.

Beside code there are commands, `:help` explains them:
  :fork NAME  :switch [NAME]  :undo [N]  :save FILE  :load FILE  :files [PATTERN]  :limits  :reset  :quit

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
    context: ContextArgs,

    #[command(flatten)]
    programs: ProgramArgs,

    /// Go on with the kept session of this name, made where there is none; it is saved after each input
    #[arg(long, value_name = "ID", help_heading = "Sessions")]
    session: Option<SessionId>,

    #[command(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    policy: PolicyArgs,
}

/// The name of a session that has none.
const UNNAMED: &str = "main";

pub(crate) fn run(global: &GlobalArgs, args: &ReplArgs) -> anyhow::Result<i32> {
    args.store.check(args.session.as_ref())?;
    let policy = args.policy.resolve()?;
    let context = args.context.value(&policy)?;
    let tools = args.programs.tools(&policy)?;
    let with_tools = |sandbox: Sandbox| sandbox.with_tools(&tools).context("cannot offer the tools");
    let cancel = interrupt::install()?;
    let host = Host::open(global, Pooling::Single)?;
    let (sandbox, name, session) = match &args.session {
        Some(id) => {
            let shelf = Shelf::open(&args.store, &cancel)?;
            let sandbox = with_tools(kept_sandbox(&host, args, &policy, shelf.record(id)?.as_ref())?)?;
            let session = shelf.awake(sandbox.clone(), id)?;
            (sandbox, id.to_string(), Held::Kept(Box::new(session)))
        }
        None => {
            let sandbox = with_tools(host.sandbox(&args.runtime, args.language, &policy)?)?;
            let session = Held::own(&sandbox)?;
            (sandbox, UNNAMED.to_owned(), session)
        }
    };
    if let Some(context) = &context {
        session.session()?.set_variable("context", context).context("cannot set `context`")?;
        session.save()?;
    }
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
    Console::new(sandbox, lines, &name, session, kept::key(&args.store)?).run()
}

/// The sandbox that a kept session runs in.
fn kept_sandbox(
    host: &Host,
    args: &ReplArgs,
    policy: &Policy,
    record: Option<&SessionRecord>,
) -> anyhow::Result<Sandbox> {
    let Some(record) = record else { return host.sandbox(&args.runtime, args.language, policy) };
    if let Some(wanted) = args.language.filter(|wanted| *wanted != record.language) {
        return Err(Hinted::new(
            format!("session `{}` runs {}, not {wanted}", record.id, record.language),
            "leave --language out, or open another session",
        )
        .into());
    }
    host.sandbox(&runtime_of(record, &args.runtime)?, Some(record.language), policy)
}
