//! The command line as a type.

use std::{path::PathBuf, time::Duration};

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use crate::args::quantity;
use crate::commands::{bench, doctor, host, packages, policy, repl, run, runtimes, session, validate, weave};

const AFTER_HELP: &str = "\
Examples:
  glovebox run hello.py hello.js             run files, each in a fresh sandbox
  glovebox run -e 'print(6 * 7)'             run code given here
  glovebox run --json -e 'print(1)'          what it did and used, as JSON
  glovebox run --fuel 5_000_000 loop.py      stop it after so much work
  glovebox run --workspace out report.py     keep the files it writes to /app
  glovebox run --session trip -e 'x = 1'      go on where the last run with this name ended
  glovebox host agent.wasm                   run a component that uses the sandbox
  glovebox repl                              type code and see what it does
  glovebox session list                      the sessions that are kept
  glovebox validate *.py *.js                check the syntax, run nothing
  glovebox doctor                            is this machine all right?

The first run of a language fetches and prepares its interpreter, once. After that nothing is downloaded.";

/// Runs untrusted Python and JavaScript inside WebAssembly, with limits that hold.
///
/// A script gets a real CPython or QuickJS of its own, an empty file system and nothing else: no network, no host
/// files, no host environment, unless a flag or a policy file gives them.
#[derive(Debug, Parser)]
#[command(name = "glovebox", version, after_help = AFTER_HELP, arg_required_else_help = true, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags that every subcommand has.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// Where interpreters and their prepared images are kept [default: $XDG_CACHE_HOME/glovebox]
    #[arg(long, global = true, value_name = "DIR", env = "GLOVEBOX_CACHE_DIR", hide_env_values = true)]
    pub(crate) cache_dir: Option<PathBuf>,

    /// What prepared images may take in the cache, and compiled components as much again; those longest unused make room
    /// [default: 2GiB]
    #[arg(long, global = true, value_name = "BYTES", env = "GLOVEBOX_CACHE_BYTES", hide_env_values = true, value_parser = quantity::bytes, hide_short_help = true)]
    pub(crate) cache_bytes: Option<u64>,

    /// What was compiled and then not used for so long leaves the cache, such as `12h` or `30d` [default: 30d]
    #[arg(long, global = true, value_name = "AGE", env = "GLOVEBOX_CACHE_AGE", hide_env_values = true, value_parser = humantime::parse_duration, hide_short_help = true)]
    pub(crate) cache_age: Option<Duration>,

    /// Do without the Python packages at /app/site-packages: an interpreter without them is prepared by itself
    #[arg(long, global = true)]
    pub(crate) no_packages: bool,

    /// Log what the engine does to standard error; twice for more
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    /// Log by filter, such as `info` or `glovebox=debug`
    #[arg(long, global = true, value_name = "FILTER", env = "GLOVEBOX_LOG", hide_env_values = true)]
    pub(crate) log: Option<String>,

    /// Colour what glovebox itself writes; guest output is never touched
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t)]
    pub(crate) color: Color,
}

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Color {
    /// Makes it hold for everything written through `anstream`.
    pub(crate) fn apply(self) {
        let choice = match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        };
        choice.write_global();
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Box<run::RunArgs>),
    Host(Box<host::HostArgs>),
    Repl(Box<repl::ReplArgs>),
    Session(session::SessionArgs),
    Validate(validate::ValidateArgs),
    Runtimes(runtimes::RuntimesArgs),
    Packages(packages::PackagesArgs),
    Weave(weave::WeaveArgs),
    Policy(policy::PolicyCommandArgs),
    Doctor(doctor::DoctorArgs),
    Bench(bench::BenchArgs),
    /// Compile the component on standard input; `host` starts it
    #[command(hide = true)]
    CompileComponent,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        super::Cli::command().debug_assert();
    }
}
