//! Measurement of elapsed time, on platforms with or without a clock.

use std::time::Duration;

/// Measures the time since a moment.
pub trait Watch: Clone {
    /// Returns the elapsed time; zero without a clock.
    fn elapsed(&self) -> Duration;

    /// Returns whether the platform has a clock. Without a clock, time limits do not apply.
    fn has_clock(&self) -> bool {
        true
    }
}
