//! `glovebox session fork`, `export` and `import`.

use std::{
    fs::File,
    io::{self, IsTerminal, Write},
    path::PathBuf,
};

use anyhow::Context;
use clap::Args;
use glovebox::{IfExists, SessionId, SessionsError, escaped};
use serde::Serialize;

use crate::{
    args::{WakeArgs, quantity},
    cli::GlobalArgs,
    engine::{Host, Pooling},
    file::{self, NotCreated},
    kept::Shelf,
    source::{STDIN, bounded},
    terminal::{Hinted, bytes, out, out_json},
};

const FORK_HELP: &str = "\
Examples:
  glovebox session fork trip rain
  glovebox run --session rain -e 'cities.clear()'   the other one still has them

Both have the same variables, functions, imports and files, and from then on neither sees what the other does.
Their random numbers differ.";

const EXPORT_HELP: &str = "\
Examples:
  glovebox session export trip trip.glovebox
  glovebox session export trip - | ssh elsewhere glovebox session import - --as trip

The file is compressed and holds all that the session's variables and files hold. It continues wherever the same
interpreter is prepared, under the policy that is given there.";

const IMPORT_HELP: &str = "\
Examples:
  glovebox session import trip.glovebox               as `trip`
  glovebox session import trip.glovebox --as other
  glovebox session import trip.glovebox --replace     in the place of what `trip` was

A file from a stranger is a stranger's code: it can do in the sandbox what a script can, and nothing else. Whether
its interpreter is here, and whether it fits the limits, is seen when it is used. With --key-file only files that
were exported with that key are taken.";

/// Make a second session that has everything the first has
#[derive(Args, Debug)]
#[command(after_help = FORK_HELP)]
pub(super) struct ForkArgs {
    /// The session
    #[arg(value_name = "ID")]
    id: SessionId,

    /// The name of the second
    #[arg(value_name = "NEW")]
    fork: SessionId,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    wake: WakeArgs,
}

/// Write a session to a file, to be imported here or elsewhere
#[derive(Args, Debug)]
#[command(after_help = EXPORT_HELP)]
pub(super) struct ExportArgs {
    /// The session
    #[arg(value_name = "ID")]
    id: SessionId,

    /// The file; `-` is standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Replace a file that is there
    #[arg(short, long)]
    force: bool,
}

/// Take a session from a file
#[derive(Args, Debug)]
#[command(after_help = IMPORT_HELP)]
pub(super) struct ImportArgs {
    /// The file; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The session's name [default: the file's, without what follows its last dot]
    #[arg(long = "as", value_name = "ID")]
    id: Option<SessionId>,

    /// Take the place of a session that has this name
    #[arg(long)]
    replace: bool,

    /// The longest file
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes, default_value = "1GiB")]
    max_bytes: u64,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What `fork` and `import` print.
#[derive(Debug, Serialize)]
struct Made<'a> {
    id: &'a SessionId,
    bytes: u64,
}

fn print_made(shelf: &Shelf, id: &SessionId, json: bool) -> anyhow::Result<()> {
    let size = shelf.existing(id)?.bytes;
    if json {
        return out_json(&Made { id, bytes: size });
    }
    Ok(out(&format!("{id}: {}\n", bytes(size)))?)
}

pub(super) fn fork(global: &GlobalArgs, shelf: &Shelf, args: &ForkArgs) -> anyhow::Result<i32> {
    let host = Host::open(global, Pooling::Single)?;
    let original = shelf.wake(&host, &args.wake, &args.id)?;
    original.fork(args.fork.clone()).with_context(|| format!("cannot fork session `{}`", args.id))?;
    print_made(shelf, &args.fork, args.json)?;
    Ok(0)
}

pub(super) fn export(shelf: &Shelf, args: &ExportArgs) -> anyhow::Result<i32> {
    shelf.existing(&args.id)?;
    let bytes = shelf.sessions().export(&args.id).with_context(|| format!("cannot export session `{}`", args.id))?;
    if args.file.as_os_str() != STDIN {
        if args.force {
            file::replace(&args.file, &bytes)?;
            return Ok(0);
        }
        return match file::create(&args.file, &bytes) {
            Ok(()) => Ok(0),
            Err(NotCreated::Failed(error)) => Err(error),
            Err(NotCreated::Exists) => {
                let message = format!("there is a file `{}` already", escaped(&args.file));
                Err(Hinted::new(message, "name another, or say --force to replace it").into())
            }
        };
    }
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        return Err(
            Hinted::new("a session is no text for a terminal", "name a file, or send `-` through a pipe").into()
        );
    }
    out.write_all(&bytes)?;
    out.flush()?;
    Ok(0)
}

pub(super) fn import(shelf: &Shelf, args: &ImportArgs) -> anyhow::Result<i32> {
    let (what, bytes) = if args.file.as_os_str() == STDIN {
        let what = "standard input".to_owned();
        let bytes = bounded(&what, io::stdin().lock(), args.max_bytes, "--max-bytes")?;
        (what, bytes)
    } else {
        let what = format!("session file `{}`", escaped(&args.file));
        let file = File::open(&args.file)
            .map_err(|error| Hinted::new(format!("cannot read {what}"), "check the path").because(error))?;
        let bytes = bounded(&what, file, args.max_bytes, "--max-bytes")?;
        (what, bytes)
    };
    let id = match &args.id {
        Some(id) => id.clone(),
        None => named_after(args)?,
    };
    let if_exists = if args.replace { IfExists::Replace } else { IfExists::Fail };
    shelf.sessions().import(id.clone(), &bytes, if_exists).map_err(|error| match error {
        SessionsError::Exists { .. } => anyhow::Error::from(Hinted::new(
            format!("there is a session `{id}` already"),
            "give another name with --as ID, or say --replace",
        )),
        error => anyhow::Error::from(error).context(format!("cannot import {what}")),
    })?;
    print_made(shelf, &id, args.json)?;
    Ok(0)
}

/// The session that a file is named after.
fn named_after(args: &ImportArgs) -> anyhow::Result<SessionId> {
    let stem = args.file.file_stem().filter(|_| args.file.as_os_str() != STDIN).unwrap_or_default();
    SessionId::new(stem.to_string_lossy()).map_err(|error| {
        Hinted::new("the file's name cannot be the session's", "name the session with --as ID").because(error).into()
    })
}
