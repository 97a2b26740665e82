//! Time that passes, where there is a clock.

use std::time::Duration;

/// Counts the time from a moment on.
pub trait Watch: Clone {
    /// How long ago that was; zero where there is no clock.
    fn elapsed(&self) -> Duration;

    /// Whether there is a clock: without one there are no limits on time.
    fn has_clock(&self) -> bool {
        true
    }
}
