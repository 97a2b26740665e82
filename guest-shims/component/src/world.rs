//! The interfaces to the woven module and to the component's host.

use std::{fmt, pin::Pin, rc::Rc, sync::Arc, time::Duration};

use crate::{Live, bindings::types};

/// The clocks of the component's host.
pub trait Clocks {
    /// Reads the monotonic clock and the cancellation flag. Called twice per millisecond, so one reading returns both.
    fn read(&self) -> Reading;

    /// Returns the wall-clock time, in nanoseconds since 1970.
    fn realtime_ns(&self) -> u64;

    /// Waits for a duration. Returns early if the host cancels the execution, or if the host runs other calls meanwhile
    /// and `is_ready` returns `true`.
    fn wait(&self, duration: Duration, is_ready: &dyn Fn() -> bool);
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

    /// Calls a tool. The future starts the call when it is polled first, and returns the result as JSON text. Dropping
    /// the future cancels the call.
    fn call(&self, call: HostCall) -> HostCallFuture;
}

/// A call to one of the host's tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCall {
    /// The tool's name.
    pub name: String,
    /// The arguments as JSON text.
    pub arguments: String,
    /// The call's position in the execution, from 0.
    pub index: usize,
    /// The session's ID, if the execution is in a session.
    pub session_id: Option<String>,
    /// The time until the call is dropped.
    pub timeout: Duration,
}

/// The result of a call to one of the host's tools.
pub type HostCallFuture = Pin<Box<dyn Future<Output = Result<String, types::CallFailure>>>>;

/// A function that lets the host run other calls, and serves the observers of the running execution.
pub type Pause = fn(Option<&Live>);

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
    /// Called between slices of fuel; `None` if the host cannot run other calls meanwhile.
    pub pause: Option<Pause>,
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
