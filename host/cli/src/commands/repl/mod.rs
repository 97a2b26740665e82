//! `glovebox repl`: an interactive session at the terminal, or a session whose inputs come from a pipe.

mod completer;
mod console;
mod directive;
mod displays;
mod last_value;
mod lines;
mod parser;
mod session;
mod tokens;

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal},
};

use anyhow::Context as _;
use clap::Args;
use glovebox::{Policy, Sandbox};
use glovebox_sessions::{SessionId, SessionRecord};
use tokens::Dialect;

use self::{
    completer::Completer,
    console::Console,
    lines::Lines,
    parser::Parser,
    session::{ReplSession, Source},
};
use crate::{
    args::{ContextArgs, GlobalArgs, LanguageArg, PolicyArgs, ProgramArgs, RuntimeArgs, StoreArgs},
    engine::{Host, Pooling},
    interrupt,
    script_packages::add_allowed,
    session_dir::{self, SessionDir, runtime_of},
    terminal::HintedError,
};

const AFTER_HELP: &str = "\
Examples:
  glovebox repl                           Python
  glovebox repl -l javascript             or typescript, whose types are stripped
  glovebox repl --session trip            a stored session, shared with `glovebox run --session trip`
  glovebox repl --mount data:/data:ro
  glovebox repl --context data.json --tool search='./search --json'
  printf 'x = 20\\nx + 1\\n' | glovebox repl

An input runs when the language's own parser accepts it as complete; in Python an indented block ends \
with an empty line. The value of a trailing expression is shown, and an exception does not end the \
session. Ctrl-C stops the running input, or clears the line. Ctrl-D quits, and so does `exit()`, whose \
exit code becomes the REPL's.

At a terminal, Tab completes variables, attributes, keywords, commands and their files; a second Tab lists \
the candidates. `_` is the last value. Up and Down browse the history, Ctrl-R searches it. Lines are indented \
and coloured, unless NO_COLOR is set.

Commands (`:help` explains them):
  :fork NAME  :switch [NAME]  :undo [N]  :save FILE  :load FILE  :files [PATTERN]  :limits  :reset  :quit

The limits apply to each input separately. Inputs are stored in a private history file per language \
under $XDG_STATE_HOME/glovebox, except those that begin with a space.";

/// Evaluate code interactively, in a session that keeps its state
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ReplArgs {
    /// Language: python, javascript or typescript [default: python]
    #[arg(short, long, value_name = "LANGUAGE")]
    language: Option<LanguageArg>,

    #[command(flatten)]
    runtime: RuntimeArgs,

    #[command(flatten)]
    context: ContextArgs,

    #[command(flatten)]
    programs: ProgramArgs,

    /// Stored session to resume or create; it is saved after each input
    #[arg(long, value_name = "ID", help_heading = "Sessions")]
    session: Option<SessionId>,

    /// Pass control characters in printed output to the terminal. By default, they are escaped
    #[arg(long)]
    raw_output: bool,

    #[command(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    policy: PolicyArgs,
}

/// The name of the initial session if it is temporary.
const UNNAMED: &str = "main";

pub(crate) fn run(global: &GlobalArgs, args: &ReplArgs) -> anyhow::Result<i32> {
    args.store.check(args.session.as_ref())?;
    let policy = args.policy.resolve()?;
    add_allowed(&policy)?;
    let context = args.context.value(&policy)?;
    let tools = args.programs.tools(&policy)?;
    let with_tools = |sandbox: Sandbox| sandbox.with_tools(&tools).context("cannot add the tools");
    let cancel = interrupt::install()?;
    let host = Host::open(global, Pooling::Single)?;
    let (sandbox, name, source) = match &args.session {
        Some(id) => {
            let session_dir = SessionDir::open(&args.store, &cancel)?;
            let sandbox = with_tools(session_sandbox(&host, args, &policy, session_dir.record(id)?.as_ref())?)?;
            let session = session_dir.activate(sandbox.clone(), id)?;
            (sandbox, id.to_string(), Source::Stored(Box::new(session)))
        }
        None => {
            let sandbox = with_tools(session_sandbox(&host, args, &policy, None)?)?;
            let session = sandbox.session().context("cannot open a session")?;
            (sandbox, UNNAMED.to_owned(), Source::Temporary(session))
        }
    };
    let session = ReplSession::new(source);
    if let Some(context) = &context {
        session.session()?.set_variable_text("context", context).context("cannot set `context`")?;
        session.save()?;
    }
    let dialect = Dialect::new(sandbox.language(), args.language);
    // The parser does not need the session's directories, and the session's limits may be too low for the parser.
    let parser = Parser::new(sibling(&host, args, &sandbox, &Policy::default())?, dialect);
    let lines = if io::stdin().is_terminal() && io::stdout().is_terminal() {
        let inspection = sibling(&host, args, &sandbox, &completer::inspection_policy(&policy))?;
        // If there is no state directory, the REPL works without a history.
        let history = session_dir::create_state_dir().ok().map(|dir| dir.join(dialect.history_file()));
        Lines::terminal(&parser, Completer { dialect, inspection, session: None }, history)?
    } else {
        Lines::piped(parser.clone(), policy.limits.source_bytes)
    };
    let (key, is_raw) = (session_dir::key(&args.store)?, args.raw_output);
    let sessions = BTreeMap::from([(name.clone(), session)]);
    Console { sandbox, parser, lines, sessions, current: name, key, is_raw }.run()
}

/// Creates a sandbox with the runtime of `sandbox`, another policy and no tools.
fn sibling(host: &Host, args: &ReplArgs, sandbox: &Sandbox, policy: &Policy) -> anyhow::Result<Sandbox> {
    host.sandbox(&args.runtime.or(sandbox.runtime_name()), Some(sandbox.language()), policy)
}

/// Creates the sandbox for a stored session with this record, or for a new session.
fn session_sandbox(
    host: &Host,
    args: &ReplArgs,
    policy: &Policy,
    record: Option<&SessionRecord>,
) -> anyhow::Result<Sandbox> {
    let wanted = args.language.map(LanguageArg::language);
    let Some(record) = record else { return host.sandbox(&args.runtime, wanted, policy) };
    if let Some(wanted) = wanted.filter(|wanted| *wanted != record.language) {
        return Err(HintedError::new(
            format!("session `{}` runs {}, not {wanted}", record.id, record.language),
            "remove --language, or open another session",
        )
        .into());
    }
    host.sandbox(&runtime_of(record, &args.runtime)?, Some(record.language), policy)
}
