//! The subcommands, one file each. Each takes its arguments and returns the process's exit code.

pub(crate) mod daemon;
pub(crate) mod doctor;
pub(crate) mod fleet;
pub(crate) mod image;
pub(crate) mod mcp;
pub(crate) mod packages;
pub(crate) mod policy;
pub(crate) mod repl;
pub(crate) mod run;
pub(crate) mod run_component;
pub(crate) mod runtimes;
pub(crate) mod serve;
pub(crate) mod serve_worker;
pub(crate) mod session;
pub(crate) mod validate;
pub(crate) mod weave;

use crate::cli::{Cli, Command};

/// Runs the subcommand.
pub(crate) fn dispatch(cli: &Cli) -> anyhow::Result<i32> {
    cli.global.color.apply();
    // A server reads its configuration first, because that contains the collector of traces.
    if !matches!(cli.command, Command::Serve(_)) {
        crate::logging::start(&cli.global)?;
    }
    match &cli.command {
        Command::Run(args) => run::run(&cli.global, args),
        Command::RunComponent(args) => run_component::run(&cli.global, args),
        Command::Repl(args) => repl::run(&cli.global, args),
        Command::Serve(args) => serve::run(&cli.global, args),
        Command::ServeWorker => serve_worker::run(&cli.global),
        Command::Session(args) => session::run(&cli.global, args),
        Command::Validate(args) => validate::run(&cli.global, args),
        Command::Runtimes(args) => runtimes::run(&cli.global, args),
        Command::Packages(args) => packages::run(args),
        Command::Image(args) => image::run(&cli.global, args),
        Command::Mcp(args) => mcp::run(&cli.global, args),
        Command::Weave(args) => weave::run(&cli.global, args),
        Command::Policy(args) => policy::run(args),
        Command::Daemon(args) => daemon::run(&cli.global, args),
        Command::Fleet(args) => fleet::run(&cli.global, args),
        Command::Doctor(args) => doctor::run(&cli.global, args),
        Command::CompileComponent => Ok(glovebox_component_runner::compile_stdin()),
        Command::ParseComponent => Ok(run_component::parse_stdin()),
    }
}
