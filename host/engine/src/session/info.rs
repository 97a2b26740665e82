//! What is told about sessions.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::Language;

/// A session, seen from outside. It may be executing meanwhile: this is how its last execution left it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SessionInfo {
    /// Its id.
    pub id: String,
    /// The language of its scripts.
    pub language: Language,
    /// The runtime's name in the manifest.
    pub runtime_name: String,
    /// How many executions its state has behind it: going back and undoing take some away.
    pub executions: u64,
    /// Linear memory, the image's included, in bytes.
    pub memory_bytes: u64,
    /// What of it is the session's own, as of its last checkpoint: the pages that differ from the image's, in bytes.
    pub private_bytes: u64,
    /// What it counts for under `limits.session_total_bytes`: memory beyond the image and pages of its own within it, its
    /// checkpoints, and what the host holds for it.
    pub held_bytes: u64,
    /// How many states it can be set back to.
    pub checkpoints: usize,
    /// How many checkpoints that were due before an execution were not made, for want of room within
    /// `limits.session_total_bytes`. The session goes back to an earlier one, should it have to.
    pub checkpoints_skipped: u64,
    /// The number of rollbacks so far.
    pub rollbacks: u64,
    /// Why it has ended, if it has.
    pub ended: Option<String>,
}

/// What a handle can tell without waiting for its turn.
#[derive(Debug)]
pub(super) struct Status {
    pub(super) executions: u64,
    pub(super) memory_bytes: u64,
    pub(super) private_bytes: u64,
    pub(super) held_bytes: u64,
    pub(super) checkpoints: usize,
    pub(super) checkpoints_skipped: u64,
    pub(super) rollbacks: u64,
    pub(super) ended: Option<String>,
    pub(super) rests_since: Option<Instant>,
}

impl Default for Status {
    fn default() -> Self {
        Self {
            executions: 0,
            memory_bytes: 0,
            private_bytes: 0,
            held_bytes: 0,
            checkpoints: 0,
            checkpoints_skipped: 0,
            rollbacks: 0,
            ended: None,
            rests_since: Some(Instant::now()),
        }
    }
}

impl Status {
    pub(super) fn idle_for(&self) -> Option<Duration> {
        self.rests_since.map(|since| since.elapsed())
    }
}
