//! Time that passes.

use std::time::{Duration, Instant};

use glovebox_core::Watch;

/// A moment that time is counted from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(pub(crate) Instant);

impl Watch for Stopwatch {
    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

impl Stopwatch {
    /// When that is on this watch.
    pub(crate) fn at(self, instant: Instant) -> Duration {
        instant.saturating_duration_since(self.0)
    }

    /// The same in the system's time. What is too far away to be told is now.
    pub(crate) fn instant(self, at: Duration) -> Instant {
        self.0.checked_add(at).unwrap_or_else(Instant::now)
    }
}
