//! What is told about sessions.

use std::time::{Duration, Instant};

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
