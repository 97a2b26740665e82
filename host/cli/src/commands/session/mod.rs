//! `glovebox session`: stored sessions. This file implements `list`, `show`, `prune` and `delete`.

mod files;
mod transfer;

use std::{fmt::Write as _, time::Duration};

use clap::{Args, Subcommand};
use files::FilesArgs;
use glovebox::{Timestamp, escaped_text};
use glovebox_sessions::{Prune, PruneReason, PruneReport, SessionId, SkipReason, StoredEntry};
use serde::Serialize;
use transfer::{ExportArgs, ForkArgs, ImportArgs};

use crate::{
    args::{self, GlobalArgs, StoreArgs},
    interrupt,
    stored::{SessionDir, missing},
    terminal::{Align, HEAD, ago, bytes, counted, grouped, note, out, out_json, table},
};

pub(crate) use files::listed;

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
        SessionCommand::List(args) => list(&session_dir, args),
        SessionCommand::Show(args) => show(&session_dir, args),
        SessionCommand::Fork(args) => transfer::fork(global, &session_dir, args),
        SessionCommand::Export(args) => transfer::export(&session_dir, args),
        SessionCommand::Import(args) => transfer::import(&session_dir, args),
        SessionCommand::Files(args) => files::run(global, &session_dir, args),
        SessionCommand::Prune(args) => prune(&session_dir, args),
        SessionCommand::Delete(args) => delete(&session_dir, args),
    }
}

/// List the stored sessions, most recently used first
#[derive(Args, Debug)]
struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Show the record of one session
#[derive(Args, Debug)]
struct ShowArgs {
    /// Name of the session
    #[arg(value_name = "ID")]
    id: SessionId,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn list(session_dir: &SessionDir, args: &ListArgs) -> anyhow::Result<i32> {
    let mut entries = session_dir.entries()?;
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.updated_at()));
    if args.json {
        out_json(&entries)?;
        return Ok(0);
    }
    let now = Timestamp::now();
    let head = ["ID", "LANGUAGE", "EXECUTIONS", "FILES", "SIZE", "LAST USED"].map(str::to_owned);
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
    let rows: Vec<[String; 6]> = std::iter::once(head).chain(rows).collect();
    out(&table([Align::Left, Align::Left, Align::Right, Align::Right, Align::Right, Align::Left], &rows))?;
    Ok(0)
}

/// The output of `show`.
#[derive(Debug, Serialize)]
struct ShownSession {
    #[serde(flatten)]
    entry: StoredEntry,
    in_use: bool,
}

fn show(session_dir: &SessionDir, args: &ShowArgs) -> anyhow::Result<i32> {
    let entry = session_dir.entry(&args.id)?.ok_or_else(|| missing(&args.id))?;
    let in_use = session_dir.is_in_use(&args.id)?;
    if args.json {
        out_json(&ShownSession { entry, in_use })?;
        return Ok(0);
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
    out(&text)?;
    Ok(0)
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

/// Criteria. At least one must be given.
#[derive(Args, Debug)]
#[group(required = true, multiple = true)]
struct PruneCriteriaArgs {
    /// Delete sessions that were not used for this long, such as `30d`, `12h` or `90min`
    #[arg(long, value_name = "AGE", value_parser = humantime::parse_duration)]
    older_than: Option<Duration>,

    /// Delete all but this many of the most recently used sessions
    #[arg(long, value_name = "N", value_parser = keep_count)]
    keep: Option<usize>,

    /// Delete the least recently used sessions until the rest takes at most this many bytes
    #[arg(long, value_name = "BYTES", value_parser = args::bytes)]
    max_bytes: Option<u64>,
}

fn keep_count(text: &str) -> Result<usize, String> {
    usize::try_from(args::count(text)?).map_err(|_| format!("the maximum is {}", usize::MAX))
}

/// Delete sessions
#[derive(Args, Debug)]
struct DeleteArgs {
    /// Names of the sessions
    #[arg(value_name = "ID", required = true)]
    ids: Vec<SessionId>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn prune(session_dir: &SessionDir, args: &PruneArgs) -> anyhow::Result<i32> {
    let mut prune = Prune::default();
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
        let head = ["ID", "SIZE", "BECAUSE OF"].map(str::to_owned);
        let rows = report.deleted.iter().map(|pruned| {
            let reason = match pruned.reason {
                PruneReason::Age => "--older-than",
                PruneReason::Count => "--keep",
                PruneReason::Bytes => "--max-bytes",
                _ => "",
            };
            [pruned.id.to_string(), bytes(pruned.bytes), reason.into()]
        });
        let rows: Vec<[String; 3]> = std::iter::once(head).chain(rows).collect();
        out(&table([Align::Left, Align::Right, Align::Left], &rows))?;
    }
    for skipped in &report.skipped {
        let reason = match skipped.reason {
            SkipReason::InUse => "another process has it open",
            _ => "it was used in the meantime",
        };
        note(&format!("`{}` was not deleted: {reason}", skipped.id));
    }
    for error in &report.errors {
        note(&format!("`{}` could not be deleted: {}", error.id, error.message));
    }
    let verb = if report.dry_run { "would delete" } else { "deleted" };
    let count = counted(report.deleted.len().try_into().unwrap_or(u64::MAX), "session");
    out(&format!("{verb} {count}, {}\n", bytes(report.reclaimed_bytes)))?;
    Ok(())
}

fn delete(session_dir: &SessionDir, args: &DeleteArgs) -> anyhow::Result<i32> {
    let sessions = session_dir.sessions();
    for id in &args.ids {
        let freed_bytes = session_dir.entry(id)?.map_or(0, |entry| entry.stored_bytes);
        if !sessions.delete(id)? {
            return Err(missing(id));
        }
        if args.json {
            out_json(&serde_json::json!({ "id": id, "freed_bytes": freed_bytes }))?;
        } else {
            out(&format!("{id}: freed {}\n", bytes(freed_bytes)))?;
        }
    }
    Ok(0)
}
