//! What is told about sessions.

use std::time::{Duration, Instant};

use glovebox_core::session::SessionReport;

/// What a handle can tell without waiting for its turn.
#[derive(Debug)]
pub(super) struct Status {
    pub(super) report: SessionReport,
    pub(super) idle_since: Option<Instant>,
}

impl Default for Status {
    fn default() -> Self {
        Self { report: SessionReport::default(), idle_since: Some(Instant::now()) }
    }
}

impl Status {
    pub(super) fn idle_for(&self) -> Option<Duration> {
        self.idle_since.map(|since| since.elapsed())
    }
}
