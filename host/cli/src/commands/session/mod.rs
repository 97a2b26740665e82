//! `glovebox session`: the sessions that are kept in a directory.

mod files;
mod list;
mod prune;
mod transfer;

use clap::{Args, Subcommand};

pub(crate) use files::listed;

use self::{
    files::FilesArgs,
    list::{ListArgs, ShowArgs},
    prune::{DeleteArgs, PruneArgs},
    transfer::{ExportArgs, ForkArgs, ImportArgs},
};
use crate::{args::StoreArgs, cli::GlobalArgs, interrupt, kept::Shelf};

const AFTER_HELP: &str = "\
Examples:
  glovebox run --session trip -e 'x = 1'      make a session, or go on with it
  glovebox repl --session trip                the same, typing
  glovebox session list                       what is kept
  glovebox session fork trip other            a second one that has everything the first has
  glovebox session files trip ls '**/*.csv'   the files in it
  glovebox session export trip trip.glovebox  carry it to another machine
  glovebox session prune --older-than 30d --dry-run
  glovebox session delete trip

Sessions are kept in a directory that only you can write to: $XDG_STATE_HOME/glovebox/sessions, or what --store
or GLOVEBOX_STORE names. What a script may do and use is not kept with a session: it is what each command's flags
and policy file say.";

/// List, copy, carry, look into and delete the sessions that are kept
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
    let shelf = Shelf::open(&args.store, &cancel)?;
    match &args.command {
        SessionCommand::List(args) => list::list(&shelf, args),
        SessionCommand::Show(args) => list::show(&shelf, args),
        SessionCommand::Fork(args) => transfer::fork(global, &shelf, args),
        SessionCommand::Export(args) => transfer::export(&shelf, args),
        SessionCommand::Import(args) => transfer::import(&shelf, args),
        SessionCommand::Files(args) => files::run(global, &shelf, args),
        SessionCommand::Prune(args) => prune::prune(&shelf, args),
        SessionCommand::Delete(args) => prune::delete(&shelf, args),
    }
}
