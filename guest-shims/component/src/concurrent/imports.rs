//! The component's imports of version 0.3.0: the clocks and the tools. While the component waits for them, its host
//! runs other components.

#[cfg(feature = "tools")]
use std::future::poll_fn;
#[cfg(feature = "clock")]
use std::{
    pin::pin,
    task::{Poll, Waker},
    time::Duration,
};

#[cfg(feature = "clock")]
use glovebox_core::contract::nanoseconds;

use super::blocking;
use crate::Live;
#[cfg(feature = "clock")]
use crate::wait;
#[cfg(feature = "clock")]
use crate::{
    Clocks, Reading,
    bindings::clocks::wasi::clocks::{monotonic_clock, system_clock},
};
#[cfg(feature = "tools")]
use crate::{
    HostCall, HostCallFuture, ToolHost,
    bindings::{tools, types},
};

#[cfg(all(feature = "tools", not(feature = "clock")))]
compile_error!("the feature `tools` needs `clock`, to wait for answers");

/// The longest single wait.
#[cfg(feature = "clock")]
const MAX_WAIT: Duration = Duration::from_secs(3_600);

/// The clocks that the component imports.
#[cfg(feature = "clock")]
pub(crate) struct HostClocks;

#[cfg(feature = "clock")]
impl Clocks for HostClocks {
    fn read(&self) -> Reading {
        Reading { now: Duration::from_nanos(monotonic_clock::now()), is_cancelled: false }
    }

    fn realtime_ns(&self) -> u64 {
        let now = system_clock::now();
        let seconds = u64::try_from(now.seconds).unwrap_or(0);
        seconds.saturating_mul(1_000_000_000).saturating_add(u64::from(now.nanoseconds))
    }

    fn wait(&self, duration: Duration, is_ready: &dyn Fn() -> bool) {
        let mut timer = pin!(monotonic_clock::wait_for(nanoseconds(duration.min(MAX_WAIT))));
        blocking::block_on(|cx| {
            wait::set_waker(cx.waker());
            if is_ready() { Poll::Ready(()) } else { timer.as_mut().poll(cx) }
        });
        wait::set_waker(Waker::noop());
    }
}

/// Lets the host run other calls, serves the execution's observers, and delivers the answers of tools to a guest that
/// polls for them.
pub(crate) fn pause(live: Option<&Live>) {
    wit_bindgen::yield_blocking();
    let live = live.filter(|live| live.task_count() > 0);
    if live.is_some() || blocking::has_operations() {
        blocking::poll_once(|cx| live.into_iter().for_each(|live| live.serve(cx)));
    }
}

/// The component's import of `glovebox:sandbox/tools`.
#[cfg(feature = "tools")]
pub(crate) struct HostTools;

#[cfg(feature = "tools")]
impl ToolHost for HostTools {
    fn list(&self) -> Vec<types::Tool> {
        tools::list_tools()
    }

    fn call(&self, call: HostCall) -> HostCallFuture {
        let HostCall { name, arguments, index, session_id, timeout } = call;
        let timeout_ms = Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        let info = tools::CallInfo { id: index as u64, session_id, timeout_ms };
        let mut call = Box::pin(tools::call(name, arguments, info));
        // The executor of the task would not deliver the answer to a guest that polls without waiting.
        Box::pin(poll_fn(move |cx| blocking::as_executor(|| call.as_mut().poll(cx))))
    }
}
