//! The clocks of WASI.

use std::time::Duration;

use glovebox_core::contract::nanoseconds;

use crate::{
    Clocks,
    bindings::clocks::wasi::clocks::{monotonic_clock, wall_clock},
};

/// The clocks that the component imports.
#[derive(Clone, Copy, Debug)]
pub struct HostClocks;

impl Clocks for HostClocks {
    fn now(&self) -> Duration {
        Duration::from_nanos(monotonic_clock::now())
    }

    fn realtime_ns(&self) -> u64 {
        let now = wall_clock::now();
        now.seconds.saturating_mul(1_000_000_000).saturating_add(u64::from(now.nanoseconds))
    }

    fn sleep(&self, duration: Duration) {
        monotonic_clock::subscribe_duration(nanoseconds(duration)).block();
    }
}
