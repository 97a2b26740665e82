//! State of a session that is available without its turn.

use std::time::{Duration, Instant};

use crate::SessionInfo;

/// State that a handle can read without waiting for its turn.
#[derive(Debug)]
pub(super) struct Status {
    pub(super) info: SessionInfo,
    pub(super) idle_since: Option<Instant>,
}

impl Status {
    pub(super) fn new(info: SessionInfo) -> Self {
        Self { info, idle_since: Some(Instant::now()) }
    }

    pub(super) fn idle_for(&self) -> Option<Duration> {
        self.idle_since.map(|since| since.elapsed())
    }
}
