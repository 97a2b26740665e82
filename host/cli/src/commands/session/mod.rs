//! `glovebox session`: stored sessions. This file implements all of its subcommands except `files`.

mod files;

use std::{
    fmt::Write as _,
    fs::File,
    io::{self, IsTerminal, Read, StdoutLock, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use clap::{Args, Subcommand};
use glovebox::{IfExists, Timestamp, escaped, escaped_text};
use glovebox_sessions::{PruneLimits, PruneReason, PruneReport, SessionId, SessionsError, SkipReason, StoredEntry};
use serde::Serialize;

use crate::{
    args::{self, ActivateArgs, GlobalArgs, StoreArgs},
    engine::{Host, Pooling},
    file::{self, NotCreated},
    interrupt,
    session_dir::{SessionDir, missing, read_exported},
    source::STDIN,
    terminal::{
        Column::{Left, Right},
        HEAD, HintedError, OrHint as _, ago, bytes, format_count, grouped, note, out, out_json, out_report, table,
    },
};
use files::FilesArgs;

#[cfg(feature = "full")]
pub(crate) use files::file_table;

const AFTER_HELP: &str = "\
Examples:
  glovebox run --session trip -e 'x = 1'      create or resume a session
  glovebox repl --session trip                use the session interactively
  glovebox session list                       list the stored sessions
  glovebox session fork trip other            copy a session
  glovebox session files trip ls '**/*.csv'   list the files of a session
  glovebox session export trip trip.glovebox  write a session to a file, for example to move it to another machine
  glovebox session prune --older-than 30d --dry-run
  glovebox session delete trip

Sessions are stored in a directory that only you can write to: $XDG_STATE_HOME/glovebox/sessions, or the one \
named by --store or GLOVEBOX_STORE. Permissions and limits are not stored with a session: each command's flags and policy \
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
    /// List the stored sessions, most recently used first
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the record of one session
    Show {
        /// Name of the session
        #[arg(value_name = "ID")]
        id: SessionId,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    Fork(Box<ForkArgs>),
    Export(ExportArgs),
    Import(ImportArgs),
    Files(Box<FilesArgs>),
    Prune(PruneArgs),
    /// Delete sessions
    Delete {
        /// Names of the sessions
        #[arg(value_name = "ID", required = true)]
        ids: Vec<SessionId>,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(global: &GlobalArgs, args: &SessionArgs) -> anyhow::Result<i32> {
    let cancel = interrupt::install()?;
    let session_dir = SessionDir::open(&args.store, &cancel)?;
    match &args.command {
        SessionCommand::List { json } => list(&session_dir, *json),
        SessionCommand::Show { id, json } => show(&session_dir, id, *json),
        SessionCommand::Fork(args) => fork(global, &session_dir, args),
        SessionCommand::Export(args) => export(&session_dir, args),
        SessionCommand::Import(args) => import(&session_dir, args),
        SessionCommand::Files(args) => files::run(global, &session_dir, args),
        SessionCommand::Prune(args) => return prune(&session_dir, args),
        SessionCommand::Delete { ids, json } => delete(&session_dir, ids, *json),
    }?;
    Ok(0)
}

fn list(session_dir: &SessionDir, json: bool) -> anyhow::Result<()> {
    let mut entries = session_dir.entries()?;
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.updated_at()));
    let now = Timestamp::now();
    let rows = entries.iter().map(|entry| {
        let id = entry.id.to_string();
        let (size, used) = (bytes(entry.stored_bytes), ago(now.since(entry.updated_at())));
        match &entry.record {
            Some(record) => [
                id,
                record.language.to_string(),
                grouped(record.executions),
                record.files.map_or_else(String::new, grouped),
                size,
                used,
            ],
            None => [id, "damaged".into(), String::new(), String::new(), size, used],
        }
    });
    let columns = [Left("ID"), Left("LANGUAGE"), Right("EXECUTIONS"), Right("FILES"), Right("SIZE"), Left("LAST USED")];
    out_report(json, &entries, || table(columns, rows))
}

/// The output of `show`.
#[derive(Debug, Serialize)]
struct SessionJson {
    #[serde(flatten)]
    entry: StoredEntry,
    in_use: bool,
}

fn show(session_dir: &SessionDir, id: &SessionId, json: bool) -> anyhow::Result<()> {
    let entry = session_dir.entry(id)?.ok_or_else(|| missing(id))?;
    let in_use = session_dir.is_in_use(id)?;
    if json {
        return out_json(&SessionJson { entry, in_use });
    }
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{HEAD}{name:<11}{HEAD:#} {}", escaped_text(value));
    };
    line("id", entry.id.as_str());
    if let Some(record) = &entry.record {
        let version = record.version.as_deref().unwrap_or_default();
        line("runtime", format!("{} {version}", record.runtime).trim_end());
        line("executions", &grouped(record.executions));
        if let Some(files) = record.files {
            line("files", &grouped(files));
        }
        if let Some(workspace) = &record.workspace {
            line("workspace", workspace);
        }
        line("created", &record.created_at.to_string());
        line("image", &record.image_sha256);
    }
    line("last used", &format!("{}, {}", entry.updated_at(), ago(Timestamp::now().since(entry.updated_at()))));
    line("size", &bytes(entry.stored_bytes));
    line("in use", if in_use { "yes" } else { "no" });
    if let Some(damage) = &entry.damage {
        line("damaged", damage);
    }
    Ok(out(&text)?)
}

const PRUNE_HELP: &str = "\
Examples:
  glovebox session prune --older-than 30d --dry-run   show what would be deleted
  glovebox session prune --older-than 12h
  glovebox session prune --keep 100 --max-bytes 1GB   delete the least recently used first

Sessions in use by another process, or used since the command started, are not deleted. The exit code is 1 if a deletion fails.";

/// Delete sessions by age, number and size
#[derive(Args, Debug)]
#[command(after_help = PRUNE_HELP)]
struct PruneArgs {
    #[command(flatten)]
    what: PruneCriteriaArgs,

    /// Print what would be deleted, without deleting it
    #[arg(long)]
    dry_run: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Criteria for deletion. At least one must be given.
#[derive(Args, Debug)]
#[group(required = true, multiple = true)]
struct PruneCriteriaArgs {
    /// Delete sessions that have not been used for this long, such as `30d`, `12h` or `90min`
    #[arg(long, value_name = "AGE", value_parser = args::duration)]
    older_than: Option<Duration>,

    /// Delete all sessions except the N most recently used
    #[arg(long, value_name = "N", value_parser = keep_count)]
    keep: Option<usize>,

    /// Delete the least recently used sessions until the rest takes at most this many bytes
    #[arg(long, value_name = "BYTES", value_parser = args::bytes)]
    max_bytes: Option<u64>,
}

fn keep_count(text: &str) -> Result<usize, String> {
    usize::try_from(args::count(text)?).map_err(|_| format!("the maximum is {}", usize::MAX))
}

fn prune(session_dir: &SessionDir, args: &PruneArgs) -> anyhow::Result<i32> {
    let mut prune = PruneLimits::default();
    prune.older_than = args.what.older_than;
    prune.max_count = args.what.keep;
    prune.max_bytes = args.what.max_bytes;
    prune.dry_run = args.dry_run;
    let report = session_dir.sessions().prune(&prune)?;
    if args.json {
        out_json(&report)?;
    } else {
        print(&report)?;
    }
    Ok(i32::from(!report.errors.is_empty()))
}

fn print(report: &PruneReport) -> anyhow::Result<()> {
    if !report.deleted.is_empty() {
        let rows = report.deleted.iter().map(|pruned| {
            let reason = match pruned.reason {
                PruneReason::Age => "--older-than",
                PruneReason::Count => "--keep",
                PruneReason::Bytes => "--max-bytes",
                _ => "",
            };
            [pruned.id.to_string(), bytes(pruned.bytes), reason.into()]
        });
        out(&table([Left("ID"), Right("SIZE"), Left("BECAUSE OF")], rows))?;
    }
    for skipped in &report.skipped {
        let reason = match skipped.reason {
            SkipReason::InUse => "another process is using it",
            _ => "it was used after the list was read",
        };
        note(&format!("`{}` was not deleted: {reason}", skipped.id));
    }
    for error in &report.errors {
        note(&format!("`{}` could not be deleted: {}", error.id, error.message));
    }
    let verb = if report.dry_run { "would delete" } else { "deleted" };
    let count = format_count(report.deleted.len().try_into().unwrap_or(u64::MAX), "session");
    Ok(out(&format!("{verb} {count}, {}\n", bytes(report.reclaimed_bytes)))?)
}

fn delete(session_dir: &SessionDir, ids: &[SessionId], json: bool) -> anyhow::Result<()> {
    let sessions = session_dir.sessions();
    for id in ids {
        let freed_bytes = session_dir.entry(id)?.map_or(0, |entry| entry.stored_bytes);
        if !sessions.delete(id)? {
            return Err(missing(id));
        }
        let report = serde_json::json!({ "id": id, "freed_bytes": freed_bytes });
        out_report(json, &report, || format!("{id}: freed {}\n", bytes(freed_bytes)))?;
    }
    Ok(())
}

const FORK_HELP: &str = "\
Examples:
  glovebox session fork trip rain
  glovebox run --session rain -e 'cities.clear()'   the other session still has them

Both sessions have the same variables, functions, imports and files, and are independent from then on. Their random \
numbers differ.";

const EXPORT_HELP: &str = "\
Examples:
  glovebox session export trip trip.glovebox
  glovebox session export trip - | ssh elsewhere glovebox session import - --as trip

The file is compressed and contains all of the session's variables and files. It can be imported on any \
machine with the same interpreter. The session then runs under the policy given there.";

const IMPORT_HELP: &str = "\
Examples:
  glovebox session import trip.glovebox               as `trip`
  glovebox session import trip.glovebox --as other
  glovebox session import trip.glovebox --replace     replacing `trip`

An untrusted file is untrusted code: it can do in the sandbox what a script can, and nothing else. Its \
interpreter and its limits are checked when the session is used. With --key-file, only files that were exported with \
that key are accepted.";

/// Copy a session
#[derive(Args, Debug)]
#[command(after_help = FORK_HELP)]
struct ForkArgs {
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
struct ExportArgs {
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
struct ImportArgs {
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
    out_report(json, &CreatedJson { id, bytes: size }, || format!("{id}: {}\n", bytes(size)))
}

fn fork(global: &GlobalArgs, session_dir: &SessionDir, args: &ForkArgs) -> anyhow::Result<()> {
    let host = Host::open(global, Pooling::Single)?;
    let original = session_dir.activate_existing(&host, &args.activate, &args.id)?;
    original.fork(args.fork.clone()).with_context(|| format!("cannot fork session `{}`", args.id))?;
    print_created(session_dir, &args.fork, args.json)
}

fn export(session_dir: &SessionDir, args: &ExportArgs) -> anyhow::Result<()> {
    session_dir.existing(&args.id)?;
    let bytes =
        session_dir.sessions().export(&args.id).with_context(|| format!("cannot export session `{}`", args.id))?;
    if args.file.as_os_str() != STDIN {
        if args.force {
            return file::replace(&args.file, &bytes);
        }
        return match file::create(&args.file, &bytes) {
            Ok(()) => Ok(()),
            Err(NotCreated::Failed(error)) => Err(error),
            Err(NotCreated::Exists) => {
                let message = format!("file `{}` already exists", escaped(&args.file));
                Err(HintedError::new(message, "choose another file, or overwrite this one with --force").into())
            }
        };
    }
    let mut out = stdout_for("a session")?;
    out.write_all(&bytes)?;
    Ok(out.flush()?)
}

fn import(session_dir: &SessionDir, args: &ImportArgs) -> anyhow::Result<()> {
    let (what, file) = open_input(&args.file, "session file")?;
    let bytes = read_exported(&what, file, args.max_bytes, "--max-bytes")?;
    let id = match &args.id {
        Some(id) => id.clone(),
        None => named_after(args)?,
    };
    let if_exists = if args.replace { IfExists::Replace } else { IfExists::Fail };
    session_dir.sessions().import(id.clone(), &bytes, if_exists).map_err(|error| match error {
        SessionsError::Exists { .. } => anyhow::Error::from(HintedError::new(
            format!("session `{id}` already exists"),
            "choose another name with --as ID, or replace the session with --replace",
        )),
        error => anyhow::Error::from(error).context(format!("cannot import {what}")),
    })?;
    print_created(session_dir, &id, args.json)
}

/// Opens a file, or standard input for `-`. Also returns its name for messages.
fn open_input(path: &Path, kind: &str) -> Result<(String, Box<dyn Read>), HintedError> {
    if path.as_os_str() == STDIN {
        return Ok(("standard input".to_owned(), Box::new(io::stdin().lock())));
    }
    let what = format!("{kind} `{}`", escaped(path));
    let file = File::open(path).or_hint(|| format!("cannot read {what}"), "check the path")?;
    Ok((what, Box::new(file)))
}

/// Returns standard output for binary data. Fails if it is a terminal.
fn stdout_for(what: &str) -> Result<StdoutLock<'static>, HintedError> {
    let out = io::stdout().lock();
    if out.is_terminal() {
        let message = format!("{what} cannot be written to a terminal");
        return Err(HintedError::new(message, "use a file, or send `-` through a pipe"));
    }
    Ok(out)
}

/// Returns the session ID that is derived from the name of the file.
fn named_after(args: &ImportArgs) -> anyhow::Result<SessionId> {
    let stem = args.file.file_stem().filter(|_| args.file.as_os_str() != STDIN).unwrap_or_default();
    Ok(SessionId::new(stem.to_string_lossy())
        .or_hint(|| "the file's name is not a valid session ID".into(), "set the ID with --as ID")?)
}
