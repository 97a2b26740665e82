//! The clocks of WASI.

use std::time::Duration;

use glovebox_core::contract::nanoseconds;

use crate::{
    Clocks, Reading,
    bindings::clocks::wasi::clocks::{monotonic_clock, wall_clock},
};

/// Set in the time of a host that cancels. No clock comes to it by itself in 292 years.
///
/// While a guest runs a component can be told of nothing, but it asks for the time twice in a millisecond.
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
