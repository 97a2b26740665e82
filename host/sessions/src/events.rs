//! Structured log events of stored sessions, through `tracing`: target `glovebox`.
//!
//! | event | fields |
//! |---|---|
//! | `session.created`, `session.retrieved`, `session.hibernated`, `session.resumed`, `session.fenced`, `session.deleted` | `session_id`: of sessions in a store; fenced: another process has taken it over |
//! | `session.prune.delete` | `session_id`, `bytes`, `reason`, `dry_run` |
//! | `session.prune.complete` | `deleted`, `skipped`, `failed`, `reclaimed_bytes`, `dry_run` |

use crate::{PruneReport, Pruned, SessionId};

/// A change to a stored session.
pub(crate) fn session(message: &'static str, id: &SessionId) {
    tracing::info!(target: "glovebox", session_id = id.as_str(), "{message}");
}

/// A session that was pruned, or would be.
pub(crate) fn pruned(pruned: &Pruned, dry_run: bool) {
    tracing::info!(
        target: "glovebox",
        session_id = pruned.id.as_str(),
        bytes = pruned.bytes,
        reason = pruned.reason.word(),
        dry_run,
        "session.prune.delete"
    );
}

pub(crate) fn prune_complete(report: &PruneReport) {
    tracing::info!(
        target: "glovebox",
        deleted = report.deleted.len(),
        skipped = report.skipped.len(),
        failed = report.errors.len(),
        reclaimed_bytes = report.reclaimed_bytes,
        dry_run = report.dry_run,
        "session.prune.complete"
    );
}
