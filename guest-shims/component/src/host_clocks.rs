//! The imported clocks of WASI.

use std::time::Duration;

use glovebox_core::contract::nanoseconds;

use crate::{
    Clocks, Reading,
    bindings::clocks::wasi::clocks::{monotonic_clock, wall_clock},
};

/// Bit of the time that a host sets to cancel. No clock reaches it in 292 years.
///
/// The component cannot be called while a guest runs, but it reads the clock twice per millisecond.
const CANCELLED: u64 = 1 << 63;

/// The clocks that the component imports.
#[derive(Clone, Copy, Debug)]
pub struct HostClocks;

impl Clocks for HostClocks {
    fn read(&self) -> Reading {
        let now = monotonic_clock::now();
        Reading { now: Duration::from_nanos(now & !CANCELLED), is_cancelled: now & CANCELLED != 0 }
    }

    fn realtime_ns(&self) -> u64 {
        let now = wall_clock::now();
        now.seconds.saturating_mul(1_000_000_000).saturating_add(u64::from(now.nanoseconds))
    }

    fn sleep(&self, duration: Duration) {
        monotonic_clock::subscribe_duration(nanoseconds(duration)).block();
    }
}
