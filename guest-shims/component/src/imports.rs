//! The component's imports of version 0.2.0: the clocks and the tools. Their calls block the component.

#[cfg(feature = "clock")]
use std::time::Duration;

#[cfg(feature = "clock")]
use glovebox_core::contract::nanoseconds;

#[cfg(feature = "clock")]
use crate::{
    Clocks, Reading,
    bindings::clocks::wasi::clocks::{monotonic_clock, wall_clock},
};
#[cfg(feature = "tools")]
use crate::{
    HostCall, HostCallFuture, ToolHost,
    bindings::{tools, types},
};

/// The bit that a host sets in the monotonic time to cancel an execution. No clock reaches this bit within 292 years.
///
/// The component cannot be called while a guest runs, but it reads the clock twice per millisecond.
#[cfg(feature = "clock")]
const CANCELLED: u64 = 1 << 63;

/// The clocks that the component imports.
#[cfg(feature = "clock")]
#[derive(Clone, Copy, Debug)]
pub struct HostClocks;

#[cfg(feature = "clock")]
impl Clocks for HostClocks {
    fn read(&self) -> Reading {
        let now = monotonic_clock::now();
        Reading { now: Duration::from_nanos(now & !CANCELLED), is_cancelled: now & CANCELLED != 0 }
    }

    fn realtime_ns(&self) -> u64 {
        let now = wall_clock::now();
        now.seconds.saturating_mul(1_000_000_000).saturating_add(u64::from(now.nanoseconds))
    }

    fn wait(&self, duration: Duration, _is_ready: &dyn Fn() -> bool) {
        monotonic_clock::subscribe_duration(nanoseconds(duration)).block();
    }
}

/// The component's import of `glovebox:sandbox/tools`.
#[cfg(feature = "tools")]
#[derive(Clone, Copy, Debug)]
pub struct HostTools;

#[cfg(feature = "tools")]
impl ToolHost for HostTools {
    fn list(&self) -> Vec<types::Tool> {
        tools::list_tools()
    }

    fn call(&self, call: HostCall) -> HostCallFuture {
        Box::pin(async move { tools::call(&call.name, &call.arguments) })
    }
}
