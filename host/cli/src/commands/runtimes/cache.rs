//! `glovebox runtimes cache` and `prune`: listing and pruning the cache.

use std::time::Duration;

use anyhow::Context;
use clap::Args;
use glovebox::{CacheKind, CachePrune, CachePruned, CacheUsage, Timestamp};
use serde::Serialize;

use crate::{
    args,
    engine::Host,
    terminal::{
        Column::{Left, Right},
        ago, bytes, grouped, note, out, out_json, out_report, table,
    },
};

const PRUNE_HELP: &str = "\
Examples:
  glovebox runtimes prune --dry-run              show what exceeds the cache's limits
  glovebox runtimes prune --older-than 7d        remove code that has not been used for a week
  glovebox runtimes prune --max-bytes 500MB      remove the least recently used code first
  glovebox runtimes prune --all

Only compiled code is removed: runtimes, prepared images and modules, components. It is rebuilt at its next use, which \
takes up to half a minute and needs no network. Code in use, or being built, is not removed.

Without --older-than, --max-bytes or --all, the cache's own limits apply, as they do when code is added: --cache-age and \
--cache-bytes. Runtimes with their images and modules count separately from components.";

/// Show the contents of the cache by kind
#[derive(Args, Debug)]
pub(super) struct CacheArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Remove compiled code that is not in use from the cache, by age and size
#[derive(Args, Debug)]
#[command(after_help = PRUNE_HELP)]
pub(super) struct PruneArgs {
    /// Remove code that has not been used for this long, such as `30d`, `12h` or `90min`
    #[arg(long, value_name = "AGE", value_parser = args::duration)]
    older_than: Option<Duration>,

    /// Remove the least recently used code until the rest takes at most this many bytes
    #[arg(long, value_name = "BYTES", value_parser = args::bytes)]
    max_bytes: Option<u64>,

    /// Remove all code that is not in use
    #[arg(long, conflicts_with_all = ["older_than", "max_bytes"])]
    all: bool,

    /// Print what would be removed, without removing it
    #[arg(long)]
    dry_run: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn show(host: &Host, args: &CacheArgs) -> anyhow::Result<()> {
    /// Output as JSON.
    #[derive(Serialize)]
    struct CacheJson<'a> {
        path: &'a std::path::Path,
        bytes: u64,
        kinds: &'a [CacheUsage],
    }
    let kinds = host.engine.cache_usage().context("cannot read the cache")?;
    let bytes = kinds.iter().map(|usage| usage.bytes).sum();
    let shown = CacheJson { path: host.engine.cache_dir(), bytes, kinds: &kinds };
    out_report(args.json, &shown, || usage_table(&kinds))
}

/// Returns the contents of the cache as a table.
pub(super) fn usage_table(kinds: &[CacheUsage]) -> String {
    let now = Timestamp::now();
    let rows = kinds.iter().map(|usage| {
        let last_used = usage.last_used.map_or_else(|| "-".into(), |at| ago(now.since(at)));
        [name(usage.kind).into(), grouped(usage.count), grouped(usage.in_use), bytes(usage.bytes), last_used]
    });
    table([Left("CACHE"), Right("COUNT"), Right("IN USE"), Right("SIZE"), Left("LAST USED")], rows)
}

fn name(kind: CacheKind) -> &'static str {
    match kind {
        CacheKind::Binaries => "binaries",
        CacheKind::Packages => "packages",
        CacheKind::Code => "compiled runtimes",
        CacheKind::Images => "prepared images",
        CacheKind::Modules => "prepared modules",
        CacheKind::Components => "compiled components",
        _ => "other",
    }
}

pub(super) fn prune(host: &Host, args: &PruneArgs) -> anyhow::Result<()> {
    let mut prune = CachePrune::default();
    prune.older_than = args.older_than;
    prune.max_bytes = if args.all { Some(0) } else { args.max_bytes };
    prune.dry_run = args.dry_run;
    let report = host.engine.prune_cache(&prune).context("cannot prune the cache")?;
    if args.json {
        return out_json(&report);
    }
    let now = Timestamp::now();
    if !report.removed.is_empty() {
        let row = |CachePruned { kind, name: entry, bytes: size, last_used, .. }: &CachePruned| {
            [name(*kind).to_owned(), entry.clone(), bytes(*size), ago(now.since(*last_used))]
        };
        let columns = [Left("KIND"), Left("NAME"), Right("SIZE"), Left("LAST USED")];
        out(&table(columns, report.removed.iter().map(row)))?;
    }
    for entry in &report.in_use {
        note(&format!("`{}` was not removed: it is in use", entry.name));
    }
    let verb = if report.dry_run { "would remove" } else { "removed" };
    let count = match report.removed.len() {
        1 => "1 entry".to_owned(),
        count => format!("{} entries", grouped(count.try_into().unwrap_or(u64::MAX))),
    };
    Ok(out(&format!("{verb} {count}, {}\n", bytes(report.freed_bytes)))?)
}
