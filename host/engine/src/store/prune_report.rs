//! What pruning did.

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
    /// The reason in a word, as it is serialized.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::Count => "count",
            Self::Bytes => "bytes",
        }
    }
}

/// A session that was removed, or would be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Pruned {
    /// The session.
    pub id: SessionId,
    /// What it took.
    pub bytes: u64,
    /// Why.
    pub reason: PruneReason,
}

/// Why a session was left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SkipReason {
    /// Somebody has it locked.
    InUse,
    /// It was written after it was listed.
    Changed,
}

/// A session that was to be removed and was left alone.
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
    /// Those removed, the oldest first.
    pub deleted: Vec<Pruned>,
    /// Those left alone.
    pub skipped: Vec<PruneSkip>,
    /// What removing them freed.
    pub reclaimed_bytes: u64,
    /// Those that could not be removed.
    pub errors: Vec<PruneError>,
    /// Whether nothing was removed in truth.
    pub dry_run: bool,
}
