//! Results of pruning.

use serde::Serialize;

use super::SessionId;

/// The limit that a removed session exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PruneReason {
    /// The session is older than `older_than`.
    Age,
    /// There are more than `max_count` sessions.
    Count,
    /// The sessions together take more than `max_bytes`.
    Bytes,
}

impl PruneReason {
    /// Returns the reason as one word, as serialized.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::Count => "count",
            Self::Bytes => "bytes",
        }
    }
}

/// A removed session, or one that would be removed without `dry_run`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Pruned {
    /// The session's id.
    pub id: SessionId,
    /// Size of the session in bytes.
    pub bytes: u64,
    /// The limit that it exceeded.
    pub reason: PruneReason,
}

/// The reason why a session was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SkipReason {
    /// A different process holds the session's lock.
    InUse,
    /// The session was written after it was listed.
    Changed,
}

/// A session that was selected for removal but skipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PruneSkip {
    /// The session's id.
    pub id: SessionId,
    /// The reason for skipping it.
    pub reason: SkipReason,
}

/// A session that could not be removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PruneError {
    /// The session's id.
    pub id: SessionId,
    /// The error message.
    pub message: String,
}

/// The result of pruning. In a dry run, lists the sessions that would be removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PruneReport {
    /// Removed sessions, oldest first.
    pub deleted: Vec<Pruned>,
    /// Skipped sessions.
    pub skipped: Vec<PruneSkip>,
    /// Total size of the removed sessions in bytes.
    pub reclaimed_bytes: u64,
    /// Sessions that could not be removed.
    pub errors: Vec<PruneError>,
    /// Set for a dry run: nothing was removed.
    pub dry_run: bool,
}
