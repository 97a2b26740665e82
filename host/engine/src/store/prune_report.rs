//! Results of pruning.

use serde::Serialize;

use super::SessionId;

/// Why a session was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PruneReason {
    /// It is older than `older_than`.
    Age,
    /// There are more than `max_count`.
    Count,
    /// Together they take more than `max_bytes`.
    Bytes,
}

impl PruneReason {
    /// The reason as one word, as serialized.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::Count => "count",
            Self::Bytes => "bytes",
        }
    }
}

/// A session removed, or selected in a dry run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Pruned {
    /// The session.
    pub id: SessionId,
    /// Its size in bytes.
    pub bytes: u64,
    /// Why.
    pub reason: PruneReason,
}

/// Why a session was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SkipReason {
    /// Another holds its lock.
    InUse,
    /// It was written after it was listed.
    Changed,
}

/// A session that was selected for removal but skipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PruneSkip {
    /// The session.
    pub id: SessionId,
    /// Why.
    pub reason: SkipReason,
}

/// A session that could not be removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PruneError {
    /// The session.
    pub id: SessionId,
    /// What went wrong.
    pub message: String,
}

/// What was removed, or would be in a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PruneReport {
    /// Removed sessions, oldest first.
    pub deleted: Vec<Pruned>,
    /// Skipped sessions.
    pub skipped: Vec<PruneSkip>,
    /// Bytes freed by removal.
    pub reclaimed_bytes: u64,
    /// Sessions that could not be removed.
    pub errors: Vec<PruneError>,
    /// Whether this was a dry run.
    pub dry_run: bool,
}
