//! `glovebox session list` and `show`.

use std::fmt::Write as _;

use clap::Args;
use glovebox::{Timestamp, escaped_text};
use glovebox_sessions::{SessionId, StoredEntry};
use serde::Serialize;

use crate::{
    stored::{SessionDir, missing},
    terminal::{Align, HEAD, ago, bytes, grouped, out, out_json, table},
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
