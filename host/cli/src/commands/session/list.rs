//! `glovebox session list`, `show`, `prune` and `delete`.

use std::{fmt::Write as _, time::Duration};

use clap::Args;
use glovebox::{Timestamp, escaped_text};
use glovebox_sessions::{Prune, PruneReason, PruneReport, SessionId, SkipReason, StoredEntry};
use serde::Serialize;

use crate::{
    args::global,
    stored::{SessionDir, missing},
    terminal::{Align, HEAD, ago, bytes, counted, grouped, note, out, out_json, table},
};

/// List the stored sessions, most recently used first
#[derive(Args, Debug)]
pub(super) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Show the record of one session
#[derive(Args, Debug)]
pub(super) struct ShowArgs {
    /// Name of the session
    #[arg(value_name = "ID")]
    id: SessionId,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn list(session_dir: &SessionDir, args: &ListArgs) -> anyhow::Result<i32> {
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

/// Output of `show`.
#[derive(Debug, Serialize)]
struct Shown {
    #[serde(flatten)]
    entry: StoredEntry,
    in_use: bool,
}

pub(super) fn show(session_dir: &SessionDir, args: &ShowArgs) -> anyhow::Result<i32> {
    let entry = session_dir.entry(&args.id)?.ok_or_else(|| missing(&args.id))?;
    let in_use = session_dir.is_in_use(&args.id)?;
    if args.json {
        out_json(&Shown { entry, in_use })?;
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

Sessions that another process uses, or has used meanwhile, are not deleted. The exit code is 1 if a deletion fails.";

/// Delete sessions by age, number and size
#[derive(Args, Debug)]
#[command(after_help = PRUNE_HELP)]
pub(super) struct PruneArgs {
    #[command(flatten)]
    what: WhatArgs,

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
struct WhatArgs {
    /// Delete sessions that were not used for this long, such as `30d`, `12h` or `90min`
    #[arg(long, value_name = "AGE", value_parser = humantime::parse_duration)]
    older_than: Option<Duration>,

    /// Delete all but this many of the most recently used sessions
    #[arg(long, value_name = "N", value_parser = keep_count)]
    keep: Option<usize>,

    /// Delete the least recently used sessions until the rest takes at most this many bytes
    #[arg(long, value_name = "BYTES", value_parser = global::bytes)]
    max_bytes: Option<u64>,
}

fn keep_count(text: &str) -> Result<usize, String> {
    usize::try_from(global::count(text)?).map_err(|_| format!("the maximum is {}", usize::MAX))
}

/// Delete sessions
#[derive(Args, Debug)]
pub(super) struct DeleteArgs {
    /// Names of the sessions
    #[arg(value_name = "ID", required = true)]
    ids: Vec<SessionId>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn prune(session_dir: &SessionDir, args: &PruneArgs) -> anyhow::Result<i32> {
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
            _ => "it has been used meanwhile",
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

pub(super) fn delete(session_dir: &SessionDir, args: &DeleteArgs) -> anyhow::Result<i32> {
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
