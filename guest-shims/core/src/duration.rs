//! Conversions between durations and milliseconds.

use std::time::Duration;

/// Returns a duration in milliseconds, rounded down to the microsecond.
#[must_use]
pub fn milliseconds(duration: Duration) -> f64 {
    let duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    #[expect(clippy::cast_precision_loss, reason = "2^53 microseconds are 285 years")]
    let duration_us = duration_us as f64;
    duration_us / 1000.0
}

/// Returns the duration of `ms` milliseconds, to the microsecond. Returns zero if `ms` is negative, not finite or too
/// large.
#[must_use]
pub fn from_milliseconds(ms: f64) -> Duration {
    let duration = Duration::try_from_secs_f64(ms / 1000.0).unwrap_or_default();
    // Adds half a microsecond before truncating, because the float may be slightly below the intended microsecond.
    let us = u64::try_from(duration.saturating_add(Duration::from_nanos(500)).as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(us)
}
