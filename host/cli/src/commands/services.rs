//! Subcommands of the `full` feature, except `repl`: servers, components and weaving.

use std::path::PathBuf;

use clap::Subcommand;

use super::{daemon, fleet, mcp, run_component, serve, serve_worker, tools, weave};
use crate::{
    args::GlobalArgs,
    typecheck::{self, CheckerMode},
};

#[derive(Debug, Subcommand)]
pub(crate) enum ServiceCommand {
    RunComponent(Box<run_component::RunComponentArgs>),
    Serve(Box<serve::ServeArgs>),
    Mcp(Box<mcp::McpArgs>),
    Daemon(Box<daemon::DaemonArgs>),
    Fleet(Box<fleet::FleetArgs>),
    Weave(weave::WeaveArgs),
    Tools(tools::ToolsCommandArgs),
    /// Compile the component on standard input; used by `run-component`
    #[command(hide = true)]
    CompileComponent,
    /// Convert the component's text on standard input to a binary; used by `run-component`
    #[command(hide = true)]
    ParseComponent,
    /// Execute requests that the server forwards; used by `serve` and `mcp --listen`
    #[command(hide = true)]
    ServeWorker,
    /// Check the types of the script in a directory; used by `--types`
    #[command(hide = true)]
    CheckTypes {
        /// Task and output of the type checker
        #[arg(long, value_enum)]
        mode: CheckerMode,
        /// Absolute path of a directory with packages
        #[arg(long)]
        packages: Option<PathBuf>,
        /// Absolute path of the type checker
        program: PathBuf,
        /// Absolute path of the directory
        directory: PathBuf,
    },
}

impl ServiceCommand {
    /// Returns `true` if the subcommand starts logging itself.
    pub(crate) fn starts_logging(&self) -> bool {
        matches!(self, Self::Serve(_))
    }

    /// Returns `true` if the subcommand serves any number of clients. Over standard input and output, a server has a
    /// single client, which starts it.
    pub(crate) fn is_server(&self) -> bool {
        match self {
            Self::Serve(args) => args.is_server(),
            Self::Mcp(args) => args.is_server(),
            Self::Daemon(args) => args.is_server(),
            _ => false,
        }
    }
}

pub(crate) fn run(global: &GlobalArgs, command: &ServiceCommand) -> anyhow::Result<i32> {
    match command {
        ServiceCommand::RunComponent(args) => run_component::run(global, args),
        ServiceCommand::Serve(args) => serve::run(global, args),
        ServiceCommand::Mcp(args) => mcp::run(global, args),
        ServiceCommand::Daemon(args) => daemon::run(global, args),
        ServiceCommand::Fleet(args) => fleet::run(global, args),
        ServiceCommand::Weave(args) => weave::run(global, args),
        ServiceCommand::Tools(args) => tools::run(args),
        ServiceCommand::CompileComponent => Ok(glovebox_component_runner::compile_stdin()),
        ServiceCommand::ParseComponent => Ok(run_component::parse_stdin()),
        ServiceCommand::ServeWorker => serve_worker::run(global),
        ServiceCommand::CheckTypes { mode, packages, program, directory } => {
            typecheck::execute_confined(program, directory, packages.as_deref(), *mode)
        }
    }
}
