//! The interfaces to the woven module and to the component's host, and the imports that implement the latter.

use std::{fmt, rc::Rc, sync::Arc, time::Duration};

#[cfg(feature = "clock")]
use glovebox_core::contract::nanoseconds;

#[cfg(feature = "clock")]
use crate::bindings::clocks::wasi::clocks::{monotonic_clock, wall_clock};
#[cfg(feature = "tools")]
use crate::bindings::glovebox::sandbox::tools;
use crate::bindings::types;

/// The clocks of the host.
pub trait Clocks {
    /// Reads the clock. One reading gives both values, because it happens twice per millisecond.
    fn read(&self) -> Reading;

    /// Returns nanoseconds since 1970.
    fn realtime_ns(&self) -> u64;

    /// Waits. Returns early if the host cancels.
    fn sleep(&self, duration: Duration);
}

/// A reading of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The time since a fixed moment. Never decreases.
    pub now: Duration,
    /// `true` once the host cancels the running execution.
    pub is_cancelled: bool,
}

/// Answers the calls of scripts, through the component's import of the interface `tools`.
pub trait ToolHost {
    /// Returns the tools. The list never changes.
    fn list(&self) -> Vec<types::Tool>;

    /// Calls a tool.
    fn call(&self, name: &str, arguments: &str) -> Result<String, types::CallFailure>;
}

/// The interfaces through which a sandbox reaches the woven module and the component's host.
#[derive(Clone)]
pub struct World {
    /// The guests of the woven module.
    pub guests: Rc<dyn Guests>,
    /// The guests' libraries. File systems hold them, and may be shared between threads.
    pub libraries: Arc<dyn LibraryBytes>,
    /// The clocks. Without them, time limits do not apply.
    pub clocks: Option<Rc<dyn Clocks>>,
    /// The host's tools, if the component imports them.
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
/// Addresses are not checked here. An access outside a memory ends the whole instance, so callers check first, as
/// [`GuestMemory`](crate::GuestMemory) does.
pub trait Guests {
    /// Returns the weaver's description of the guests: the JSON text of a [`Description`](crate::Description).
    fn describe(&self) -> Vec<u8>;

    /// Returns the real size of a guest's memory in pages. The memory never shrinks, and the guest sees another size.
    fn memory_size(&self, guest: u32) -> u32;

    /// Grows the real memory by `pages` pages of zeros. Returns `false` if it cannot grow.
    fn memory_grow(&self, guest: u32, pages: u32) -> bool;

    /// Returns the size of the memory that the guest sees, in pages.
    fn virtual_size(&self, guest: u32) -> u32;

    /// Sets the size of the memory that the guest sees, in pages.
    fn set_virtual_size(&self, guest: u32, pages: u32);

    /// Copies bytes out of guest memory.
    fn memory_read(&self, guest: u32, at: u32, into: &mut [u8]);

    /// Copies bytes into guest memory.
    fn memory_write(&self, guest: u32, at: u32, from: &[u8]);

    /// Fills a range of guest memory with a byte.
    fn memory_fill(&self, guest: u32, at: u32, byte: u8, len: u32);

    /// Returns whether guest memory has these bytes at `at`.
    fn memory_equals(&self, guest: u32, at: u32, with: &[u8]) -> bool;

    /// Returns whether a range of guest memory is zero.
    fn memory_is_zero(&self, guest: u32, at: u32, len: u32) -> bool;

    /// Copies a part of the pristine image's bytes ([`ImageRuns`](crate::ImageRuns)) into guest memory.
    fn image_to_guest(&self, guest: u32, offset: u32, at: u32, len: u32);

    /// Copies a part of the pristine image's bytes into the shim's memory.
    fn image_to_shim(&self, guest: u32, offset: u32, into: &mut [u8]);

    /// Returns the bits of a mutable global, by its index in the guest's description.
    fn global_get(&self, guest: u32, global: u32) -> u64;

    /// Sets the bits of a mutable global, by its index in the guest's description.
    fn global_set(&self, guest: u32, global: u32, bits: u64);

    /// Returns the fuel counter, which metered code decrements. The value is negative after a charge that exceeded it.
    fn fuel(&self) -> i64;

    /// Sets the fuel counter.
    fn set_fuel(&self, fuel: i64);

    /// Calls a function from the list of exports in the guest's description.
    fn call_export(&self, guest: u32, export: u32, args: &[u64]) -> Called;

    /// Calls the function in a slot of a guest's table, with the function's own type.
    fn call_table(&self, guest: u32, slot: u32, args: &[u64]) -> Called;
}

/// The bytes of the guests' libraries, which never change.
pub trait LibraryBytes: Send + Sync {
    /// Copies a part of a guest's library into the shim's memory. Like [`Guests`], it checks no offsets.
    fn read(&self, guest: u32, offset: u32, into: &mut [u8]);
}

/// The result of a call into a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// The function returned nothing.
    Nothing,
    /// The function returned an `i32`, as bits.
    I32(u32),
    /// The function returned an `i64`, as bits.
    I64(u64),
    /// The guest was unwound.
    Unwound(Unwound),
    /// The guest was not entered: the function does not exist or has another type.
    Missing,
}

/// The reason for unwinding a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwound {
    /// The shim requested it; the reason is in [`HostState`](crate::HostState).
    Asked,
    /// The guest reached `unreachable`: the interpreter aborted.
    Unreachable,
    /// The guest's calls are nested too deep.
    CallDepth,
    /// The guest threw an exception that it does not catch.
    Thrown,
}

/// Bit of the time that a host sets to cancel. No clock reaches it in 292 years.
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

/// The exporter of `glovebox:sandbox/tools` to this component.
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
