//! Placeholders for the subcommands of the `full` feature in builds without it. They report how to get the feature.

use std::ffi::OsString;

use clap::{Args, Subcommand};

use crate::{args::GlobalArgs, terminal::HintedError};

#[derive(Debug, Subcommand)]
pub(crate) enum ServiceCommand {
    /// Evaluate code interactively, in a session that keeps its state (in builds with the `full` feature)
    Repl(AnyArgs),
    /// Run a component that uses the sandbox (in builds with the `full` feature)
    RunComponent(AnyArgs),
    /// Answer requests over HTTP (in builds with the `full` feature)
    Serve(AnyArgs),
    /// Serve the Model Context Protocol (in builds with the `full` feature)
    Mcp(AnyArgs),
    /// Serve programs on this machine over a Unix socket (in builds with the `full` feature)
    Daemon(AnyArgs),
    /// Serve sessions that outlive their machine (in builds with the `full` feature)
    Fleet(AnyArgs),
    /// Make a provider component (in builds with the `full` feature)
    Weave(AnyArgs),
    /// Describe the tools of scripts (in builds with the `full` feature)
    Tools(AnyArgs),
}

#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct AnyArgs {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _args: Vec<OsString>,
}

impl ServiceCommand {
    #[expect(clippy::unused_self, reason = "the subcommand `serve` starts logging itself")]
    pub(crate) fn starts_logging(&self) -> bool {
        false
    }
}

pub(crate) fn run(_: &GlobalArgs, command: &ServiceCommand) -> anyhow::Result<i32> {
    let name = match command {
        ServiceCommand::Repl(_) => "repl",
        ServiceCommand::RunComponent(_) => "run-component",
        ServiceCommand::Serve(_) => "serve",
        ServiceCommand::Mcp(_) => "mcp",
        ServiceCommand::Daemon(_) => "daemon",
        ServiceCommand::Fleet(_) => "fleet",
        ServiceCommand::Weave(_) => "weave",
        ServiceCommand::Tools(_) => "tools",
    };
    Err(missing(&format!("`glovebox {name}`")).into())
}

/// Returns the error for a subcommand or store that needs the `full` feature.
pub(crate) fn missing(what: &str) -> HintedError {
    HintedError::new(
        format!("this build does not include {what}"),
        "build the complete command with `cargo build --workspace --bin glovebox`",
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::run;
    use crate::cli::{Cli, Command};

    #[test]
    fn a_missing_subcommand_says_how_to_build_it() {
        for words in [
            "glovebox repl",
            "glovebox serve --listen 127.0.0.1:0",
            "glovebox mcp --help",
            "glovebox run-component a.wasm",
        ] {
            let cli = Cli::try_parse_from(words.split(' ')).unwrap();
            let Command::Service(command) = &cli.command else { panic!("{words}") };
            let error = run(&cli.global, command).unwrap_err().to_string();
            assert!(error.starts_with("this build does not include `glovebox "), "{error}");
        }
    }
}
