//! Durations for output.

use std::time::Duration;

/// A duration in milliseconds, to the microsecond.
#[must_use]
pub fn milliseconds(duration: Duration) -> f64 {
    let duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    #[expect(clippy::cast_precision_loss, reason = "2^53 microseconds are 285 years")]
    let duration_us = duration_us as f64;
    duration_us / 1000.0
}
