//! `glovebox policy`: shows the effective policy, for reading or as the start of a policy file.

use clap::{Args, Subcommand};

use crate::{
    args::PolicyArgs,
    terminal::{out, out_json},
};

const AFTER_HELP: &str = "\
Examples:
  glovebox policy show                          every default, as a policy file
  glovebox policy show > policy.toml            start a policy file
  glovebox policy show --policy policy.toml --fuel 5_000_000
  glovebox run --policy policy.toml script.py

Relative host paths in a policy file are resolved against the file's directory.";

/// Show the effective policy of scripts
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct PolicyCommandArgs {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Print the effective policy: the defaults, overridden by a file and by flags
    #[command(after_help = AFTER_HELP)]
    Show {
        #[command(flatten)]
        policy: Box<PolicyArgs>,

        /// Print JSON instead of TOML
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: &PolicyCommandArgs) -> anyhow::Result<i32> {
    let PolicyCommand::Show { policy, json } = &args.command;
    let policy = policy.resolve()?;
    if *json {
        out_json(&policy)?
    } else {
        out(&policy.to_toml()?)?
    }
    Ok(0)
}
