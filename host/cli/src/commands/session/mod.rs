//! `glovebox session`: stored sessions.

mod files;
mod list;
mod transfer;

use clap::{Args, Subcommand};

pub(crate) use files::listed;

use self::{
    files::FilesArgs,
    list::{DeleteArgs, ListArgs, PruneArgs, ShowArgs},
    transfer::{ExportArgs, ForkArgs, ImportArgs},
};
use crate::{
    args::{GlobalArgs, StoreArgs},
    interrupt,
    stored::SessionDir,
};

const AFTER_HELP: &str = "\
Examples:
  glovebox run --session trip -e 'x = 1'      create or resume a session
  glovebox repl --session trip                use the session interactively
  glovebox session list                       list the stored sessions
  glovebox session fork trip other            copy a session
  glovebox session files trip ls '**/*.csv'   list its files
  glovebox session export trip trip.glovebox  write it to a file, for example for another machine
  glovebox session prune --older-than 30d --dry-run
  glovebox session delete trip

Sessions are stored in a directory that only you can write to: $XDG_STATE_HOME/glovebox/sessions, or the one
named by --store or GLOVEBOX_STORE. Permissions and limits are not stored with a session: each command's flags and policy
file set them.";

/// List, copy, export, inspect and delete stored sessions
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SessionArgs {
    #[command(flatten)]
    store: StoreArgs,

    #[command(subcommand)]
    command: SessionCommand,
}

#[derive(Debug, Subcommand)]
enum SessionCommand {
    List(ListArgs),
    Show(ShowArgs),
    Fork(Box<ForkArgs>),
    Export(ExportArgs),
    Import(ImportArgs),
    Files(Box<FilesArgs>),
    Prune(PruneArgs),
    Delete(DeleteArgs),
}

pub(crate) fn run(global: &GlobalArgs, args: &SessionArgs) -> anyhow::Result<i32> {
    let cancel = interrupt::install()?;
    let session_dir = SessionDir::open(&args.store, &cancel)?;
    match &args.command {
        SessionCommand::List(args) => list::list(&session_dir, args),
        SessionCommand::Show(args) => list::show(&session_dir, args),
        SessionCommand::Fork(args) => transfer::fork(global, &session_dir, args),
        SessionCommand::Export(args) => transfer::export(&session_dir, args),
        SessionCommand::Import(args) => transfer::import(&session_dir, args),
        SessionCommand::Files(args) => files::run(global, &session_dir, args),
        SessionCommand::Prune(args) => list::prune(&session_dir, args),
        SessionCommand::Delete(args) => list::delete(&session_dir, args),
    }
}
