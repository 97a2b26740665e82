//! A clock for the time since a start.

use std::time::{Duration, Instant};

use glovebox_core::Watch;

/// The start of a measured time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(pub(crate) Instant);

impl Watch for Stopwatch {
    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

impl Stopwatch {
    /// Returns the time from the start to `instant`.
    pub(crate) fn at(self, instant: Instant) -> Duration {
        instant.saturating_duration_since(self.0)
    }

    /// Returns the system's instant for a time since the start. A time too far away to be represented gives the current
    /// instant.
    pub(crate) fn instant(self, at: Duration) -> Instant {
        self.0.checked_add(at).unwrap_or_else(Instant::now)
    }
}
