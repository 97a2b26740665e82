//! `glovebox policy`: the policy in force, to read or to start a file from.

use clap::{Args, Subcommand};

use crate::{
    args::PolicyArgs,
    terminal::{out, out_json},
};

const AFTER_HELP: &str = "\
Examples:
  glovebox policy show                          every default, as a policy file
  glovebox policy show > policy.toml            start one
  glovebox policy show --policy policy.toml --fuel 5_000_000
  glovebox run --policy policy.toml script.py

A policy file's relative host paths start at the directory the file is in.";

/// Show the policy that scripts would run under
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct PolicyCommandArgs {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Print the policy in force: the defaults, a file over them, flags over that
    #[command(after_help = AFTER_HELP)]
    Show {
        #[command(flatten)]
        policy: Box<PolicyArgs>,

        /// Print it as JSON instead of TOML
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: &PolicyCommandArgs) -> anyhow::Result<i32> {
    let PolicyCommand::Show { policy, json } = &args.command;
    let policy = policy.resolve()?;
    if *json {
        out_json(&policy)?;
    } else {
        out(&policy.to_toml())?;
    }
    Ok(0)
}
