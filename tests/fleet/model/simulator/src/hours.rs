//! Activity by time of day.

/// Returns the activity at a time of day: a wave in hourly steps, highest at noon.
pub fn hourly(amplitude: f64, now_s: f64) -> f64 {
    let hour = (now_s / 3_600.0).floor() + 0.5;
    1.0 - amplitude * libm::cos(core::f64::consts::TAU * hour / 24.0)
}

/// Returns the time at which `gap_s` has passed on a clock whose rate is the activity.
pub fn later(mut now_s: f64, mut gap_s: f64, amplitude: f64) -> f64 {
    loop {
        let rate = hourly(amplitude, now_s);
        let hour_ends = ((now_s / 3_600.0).floor() + 1.0) * 3_600.0;
        if gap_s <= rate * (hour_ends - now_s) {
            return now_s + gap_s / rate;
        }
        gap_s -= rate * (hour_ends - now_s);
        now_s = hour_ends;
    }
}
