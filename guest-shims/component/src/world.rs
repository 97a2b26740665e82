//! The interfaces to the woven module and to the component's host, and their implementation by the component's imports.

use std::{fmt, rc::Rc, sync::Arc, time::Duration};

#[cfg(feature = "clock")]
use glovebox_core::contract::nanoseconds;

#[cfg(feature = "clock")]
use crate::bindings::clocks::wasi::clocks::{monotonic_clock, wall_clock};
#[cfg(feature = "tools")]
use crate::bindings::glovebox::sandbox::tools;
use crate::bindings::types;

/// The clocks of the component's host.
pub trait Clocks {
    /// Reads the monotonic clock and the cancellation flag. Called twice per millisecond, so one reading returns both.
    fn read(&self) -> Reading;

    /// Returns the wall-clock time, in nanoseconds since 1970.
    fn realtime_ns(&self) -> u64;

    /// Sleeps for a duration. Returns early if the host cancels the execution.
    fn sleep(&self, duration: Duration);
}

/// A reading of the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The time since an arbitrary start. Never decreases.
    pub now: Duration,
    /// `true` once the host has cancelled the running execution.
    pub is_cancelled: bool,
}

/// The tools of the component's host.
pub trait ToolHost {
    /// Returns the host's tools. The list never changes.
    fn list(&self) -> Vec<types::Tool>;

    /// Calls a tool with arguments as JSON text. Returns the result as JSON text.
    fn call(&self, name: &str, arguments: &str) -> Result<String, types::CallFailure>;
}

/// The interfaces through which a sandbox reaches the woven module and the component's host.
#[derive(Clone)]
pub struct World {
    /// The guests of the woven module.
    pub guests: Rc<dyn Guests>,
    /// The guests' libraries. File systems refer to the libraries, so the implementation must be thread-safe.
    pub libraries: Arc<dyn LibraryBytes>,
    /// The host's clocks. Without clocks, time limits do not apply.
    pub clocks: Option<Rc<dyn Clocks>>,
    /// The host's tools; `None` if the component does not import them.
    pub tools: Option<Rc<dyn ToolHost>>,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("has_clocks", &self.clocks.is_some())
            .field("has_tools", &self.tools.is_some())
            .finish_non_exhaustive()
    }
}

/// Access to the guests by number: their memories, pristine images, mutable globals and functions, and the fuel counter
/// that they share.
///
/// Addresses are not checked. An access outside a memory ends the whole instance, so callers must check first, as
/// [`GuestMemory`](crate::GuestMemory) does.
pub trait Guests {
    /// Returns the weaver's description of the guests: the JSON text of a [`Description`](crate::Description).
    fn describe(&self) -> Vec<u8>;

    /// Returns the real size of a guest's memory, in pages. The real size never decreases, and can differ from the
    /// virtual size.
    fn memory_size(&self, guest: u32) -> u32;

    /// Grows the real memory by `pages` pages of zeros. Returns `false` if the memory cannot grow.
    fn memory_grow(&self, guest: u32, pages: u32) -> bool;

    /// Returns the virtual size of a guest's memory, which the guest sees, in pages.
    fn virtual_size(&self, guest: u32) -> u32;

    /// Sets the virtual size of a guest's memory, in pages.
    fn set_virtual_size(&self, guest: u32, pages: u32);

    /// Copies bytes from guest memory.
    fn memory_read(&self, guest: u32, at: u32, into: &mut [u8]);

    /// Copies bytes into guest memory.
    fn memory_write(&self, guest: u32, at: u32, from: &[u8]);

    /// Fills a range of guest memory with a byte.
    fn memory_fill(&self, guest: u32, at: u32, byte: u8, len: u32);

    /// Returns `true` if guest memory equals these bytes at `at`.
    fn memory_equals(&self, guest: u32, at: u32, with: &[u8]) -> bool;

    /// Returns `true` if a range of guest memory is zero.
    fn memory_is_zero(&self, guest: u32, at: u32, len: u32) -> bool;

    /// Copies a range of the pristine image's bytes ([`ImageRuns`](crate::ImageRuns)) to guest memory.
    fn image_to_guest(&self, guest: u32, offset: u32, at: u32, len: u32);

    /// Copies a range of the pristine image's bytes to the shim's memory.
    fn image_to_shim(&self, guest: u32, offset: u32, into: &mut [u8]);

    /// Looks up a mutable global by its number in the guest's description. Returns its bits.
    fn global_get(&self, guest: u32, global: u32) -> u64;

    /// Looks up a mutable global by its number in the guest's description, and sets its bits.
    fn global_set(&self, guest: u32, global: u32, bits: u64);

    /// Returns the fuel counter, which metered code decrements. Negative after a charge that exceeded the counter.
    fn fuel(&self) -> i64;

    /// Sets the fuel counter.
    fn set_fuel(&self, fuel: i64);

    /// Calls the exported function with the number `export` in the guest's description.
    fn call_export(&self, guest: u32, export: u32, args: &[u64]) -> CallOutcome;

    /// Calls the function in a slot of a guest's table, with that function's own type.
    fn call_table(&self, guest: u32, slot: u32, args: &[u64]) -> CallOutcome;
}

/// The bytes of the guests' libraries, which never change.
pub trait LibraryBytes: Send + Sync {
    /// Copies a range of a guest's library to the shim's memory. Like [`Guests`], does not check offsets.
    fn read(&self, guest: u32, offset: u32, into: &mut [u8]);
}

/// The result of a call into a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// The function returned nothing.
    Nothing,
    /// The function returned an `i32`, as bits.
    I32(u32),
    /// The function returned an `i64`, as bits.
    I64(u64),
    /// The guest was unwound.
    Unwound(UnwindReason),
    /// The guest was not entered: the function does not exist or has a different type.
    Missing,
}

/// The reason why a guest was unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnwindReason {
    /// The shim requested the unwinding. The reason is in [`HostState`](crate::HostState).
    Requested,
    /// The guest executed `unreachable`: the interpreter aborted.
    Unreachable,
    /// The guest's calls were nested too deep.
    CallDepth,
    /// The guest threw an exception that it did not catch.
    Thrown,
}

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

    fn sleep(&self, duration: Duration) {
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

    fn call(&self, name: &str, arguments: &str) -> Result<String, types::CallFailure> {
        tools::call(name, arguments)
    }
}
