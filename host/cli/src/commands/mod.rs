//! Subcommands, one module each. Each `run` function receives a subcommand's arguments and returns the exit code.

#[cfg(feature = "full")]
pub(crate) mod daemon;
pub(crate) mod doctor;
#[cfg(feature = "full")]
pub(crate) mod fleet;
pub(crate) mod image;
#[cfg(feature = "full")]
pub(crate) mod mcp;
pub(crate) mod monty_worker;
pub(crate) mod packages;
pub(crate) mod policy;
#[cfg(feature = "full")]
pub(crate) mod repl;
pub(crate) mod replay;
pub(crate) mod resume;
pub(crate) mod run;
#[cfg(feature = "full")]
pub(crate) mod run_component;
pub(crate) mod runtimes;
#[cfg(feature = "full")]
pub(crate) mod serve;
#[cfg(feature = "full")]
pub(crate) mod serve_worker;
#[cfg(feature = "full")]
pub(crate) mod services;
#[cfg(not(feature = "full"))]
#[path = "placeholders.rs"]
pub(crate) mod services;
pub(crate) mod session;
#[cfg(feature = "full")]
pub(crate) mod tools;
pub(crate) mod validate;
#[cfg(feature = "full")]
pub(crate) mod weave;

use crate::cli::{Cli, Command};

/// Runs the subcommand.
pub(crate) fn dispatch(cli: &Cli) -> anyhow::Result<i32> {
    cli.global.color.apply();
    // A server reads its configuration before it starts logging, because the configuration names the trace collector.
    if !matches!(&cli.command, Command::Service(command) if command.starts_logging()) {
        crate::logging::start(&cli.global)?;
    }
    match &cli.command {
        Command::Run(args) => run::run(&cli.global, args),
        Command::Resume(args) => resume::run(&cli.global, args),
        Command::Replay(args) => replay::run(&cli.global, args),
        #[cfg(feature = "full")]
        Command::Repl(args) => repl::run(&cli.global, args),
        Command::Session(args) => session::run(&cli.global, args),
        Command::Validate(args) => validate::run(&cli.global, args),
        Command::Runtimes(args) => runtimes::run(&cli.global, args),
        Command::Packages(args) => packages::run(args),
        Command::Image(args) => image::run(&cli.global, args),
        Command::Policy(args) => policy::run(args),
        Command::Doctor(args) => doctor::run(&cli.global, args),
        Command::MontyWorker(args) => monty_worker::run(&cli.global, args),
        Command::Service(command) => services::run(&cli.global, command),
    }
}
