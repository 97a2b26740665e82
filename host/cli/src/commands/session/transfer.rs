//! `glovebox session fork`, `export` and `import`.

use std::{
    fs::File,
    io::{self, IsTerminal, Write},
    path::PathBuf,
};

use anyhow::Context;
use clap::Args;
use glovebox::{IfExists, escaped};
use glovebox_sessions::{SessionId, SessionsError};
use serde::Serialize;

use crate::{
    args::{self, ActivateArgs, GlobalArgs},
    engine::{Host, Pooling},
    file::{self, NotCreated},
    source::STDIN,
    stored::{SessionDir, read_exported},
    terminal::{Hinted, bytes, out, out_json},
};

const FORK_HELP: &str = "\
Examples:
  glovebox session fork trip rain
  glovebox run --session rain -e 'cities.clear()'   the other session still has them

Both sessions have the same variables, functions, imports and files, and are independent from then on. Their random
numbers differ.";

const EXPORT_HELP: &str = "\
Examples:
  glovebox session export trip trip.glovebox
  glovebox session export trip - | ssh elsewhere glovebox session import - --as trip

The file is compressed and contains all of the session's variables and files. It can be imported on any
machine with the same interpreter. The session then runs under the policy given there.";

const IMPORT_HELP: &str = "\
Examples:
  glovebox session import trip.glovebox               as `trip`
  glovebox session import trip.glovebox --as other
  glovebox session import trip.glovebox --replace     replacing `trip`

An untrusted file is untrusted code: it can do in the sandbox what a script can, and nothing else. Its
interpreter and its limits are checked when the session is used. With --key-file, only files that were exported with
that key are accepted.";

/// Copy a session
#[derive(Args, Debug)]
#[command(after_help = FORK_HELP)]
pub(super) struct ForkArgs {
    /// Name of the session
    #[arg(value_name = "ID")]
    id: SessionId,

    /// Name of the copy
    #[arg(value_name = "NEW")]
    fork: SessionId,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    activate: ActivateArgs,
}

/// Write a session to a file, for import here or elsewhere
#[derive(Args, Debug)]
#[command(after_help = EXPORT_HELP)]
pub(super) struct ExportArgs {
    /// Name of the session
    #[arg(value_name = "ID")]
    id: SessionId,

    /// File to write; `-` is standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Replace an existing file
    #[arg(short, long)]
    force: bool,
}

/// Import a session from a file
#[derive(Args, Debug)]
#[command(after_help = IMPORT_HELP)]
pub(super) struct ImportArgs {
    /// File to read; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Name of the session [default: the file's name without its last extension]
    #[arg(long = "as", value_name = "ID")]
    id: Option<SessionId>,

    /// Replace an existing session of this name
    #[arg(long)]
    replace: bool,

    /// Maximum size of the file
    #[arg(long, value_name = "BYTES", value_parser = args::bytes, default_value = "1GiB")]
    max_bytes: u64,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The output of `fork` and `import`.
#[derive(Debug, Serialize)]
struct CreatedJson<'a> {
    id: &'a SessionId,
    bytes: u64,
}

fn print_created(session_dir: &SessionDir, id: &SessionId, json: bool) -> anyhow::Result<()> {
    let size = session_dir.existing(id)?.bytes;
    if json {
        return out_json(&CreatedJson { id, bytes: size });
    }
    Ok(out(&format!("{id}: {}\n", bytes(size)))?)
}

pub(super) fn fork(global: &GlobalArgs, session_dir: &SessionDir, args: &ForkArgs) -> anyhow::Result<i32> {
    let host = Host::open(global, Pooling::Single)?;
    let original = session_dir.activate_existing(&host, &args.activate, &args.id)?;
    original.fork(args.fork.clone()).with_context(|| format!("cannot fork session `{}`", args.id))?;
    print_created(session_dir, &args.fork, args.json)?;
    Ok(0)
}

pub(super) fn export(session_dir: &SessionDir, args: &ExportArgs) -> anyhow::Result<i32> {
    session_dir.existing(&args.id)?;
    let bytes =
        session_dir.sessions().export(&args.id).with_context(|| format!("cannot export session `{}`", args.id))?;
    if args.file.as_os_str() != STDIN {
        if args.force {
            file::replace(&args.file, &bytes)?;
            return Ok(0);
        }
        return match file::create(&args.file, &bytes) {
            Ok(()) => Ok(0),
            Err(NotCreated::Failed(error)) => Err(error),
            Err(NotCreated::Exists) => {
                let message = format!("file `{}` already exists", escaped(&args.file));
                Err(Hinted::new(message, "choose another file, or overwrite this one with --force").into())
            }
        };
    }
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        return Err(
            Hinted::new("a session cannot be written to a terminal", "use a file, or send `-` through a pipe").into()
        );
    }
    out.write_all(&bytes)?;
    out.flush()?;
    Ok(0)
}

pub(super) fn import(session_dir: &SessionDir, args: &ImportArgs) -> anyhow::Result<i32> {
    let (what, bytes) = if args.file.as_os_str() == STDIN {
        let what = "standard input".to_owned();
        let bytes = read_exported(&what, io::stdin().lock(), args.max_bytes, "--max-bytes")?;
        (what, bytes)
    } else {
        let what = format!("session file `{}`", escaped(&args.file));
        let file = File::open(&args.file)
            .map_err(|error| Hinted::new(format!("cannot read {what}"), "check the path").because(error))?;
        let bytes = read_exported(&what, file, args.max_bytes, "--max-bytes")?;
        (what, bytes)
    };
    let id = match &args.id {
        Some(id) => id.clone(),
        None => named_after(args)?,
    };
    let if_exists = if args.replace { IfExists::Replace } else { IfExists::Fail };
    session_dir.sessions().import(id.clone(), &bytes, if_exists).map_err(|error| match error {
        SessionsError::Exists { .. } => anyhow::Error::from(Hinted::new(
            format!("session `{id}` already exists"),
            "choose another name with --as ID, or replace the session with --replace",
        )),
        error => anyhow::Error::from(error).context(format!("cannot import {what}")),
    })?;
    print_created(session_dir, &id, args.json)?;
    Ok(0)
}

/// Returns the session ID that is derived from the name of the file.
fn named_after(args: &ImportArgs) -> anyhow::Result<SessionId> {
    let stem = args.file.file_stem().filter(|_| args.file.as_os_str() != STDIN).unwrap_or_default();
    SessionId::new(stem.to_string_lossy()).map_err(|error| {
        Hinted::new("the file's name is not a valid session ID", "set the ID with --as ID").because(error).into()
    })
}
