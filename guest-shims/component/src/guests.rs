//! What the woven module provides to the shim.

/// The guests beside the shim, by their number: their memories, the pristine image, their mutable globals, their functions, and the
/// counter of fuel that they share.
///
/// Nothing here checks an address: an access outside a memory ends the whole instance. Callers check first
/// ([`GuestMemory`](crate::GuestMemory) does).
pub trait Guests {
    /// The weaver's description of the guests: the JSON text of a [`Description`](crate::Description).
    fn describe(&self) -> Vec<u8>;

    /// The real size of a guest's memory in pages. It never shrinks, and differs from the size that the guest sees.
    fn memory_size(&self, guest: u32) -> u32;

    /// Grows the real memory by zero pages.
    fn memory_grow(&self, guest: u32, pages: u32) -> bool;

    /// The size of the memory in pages that the guest sees.
    fn virtual_size(&self, guest: u32) -> u32;

    /// Sets it.
    fn set_virtual_size(&self, guest: u32, pages: u32);

    /// Copies guest memory out.
    fn memory_read(&self, guest: u32, at: u32, into: &mut [u8]);

    /// Copies into guest memory.
    fn memory_write(&self, guest: u32, at: u32, from: &[u8]);

    /// Fills guest memory.
    fn memory_fill(&self, guest: u32, at: u32, byte: u8, len: u32);

    /// Whether guest memory holds these bytes.
    fn memory_equals(&self, guest: u32, at: u32, with: &[u8]) -> bool;

    /// Whether guest memory holds nothing but zeros.
    fn memory_is_zero(&self, guest: u32, at: u32, len: u32) -> bool;

    /// Copies a part of the pristine image's bytes ([`ImageRuns`](crate::ImageRuns)) into the guest's memory.
    fn image_to_guest(&self, guest: u32, offset: u32, at: u32, len: u32);

    /// Copies a part of the pristine image's bytes out.
    fn image_to_shim(&self, guest: u32, offset: u32, into: &mut [u8]);

    /// The bits of one of the guest's mutable globals, in the order of its description.
    fn global_get(&self, guest: u32, global: u32) -> u64;

    /// Sets the bits of one of the guest's mutable globals.
    fn global_set(&self, guest: u32, global: u32, bits: u64);

    /// The counter of fuel: what metered code counts down. Less than 0 after a charge that it had no room for.
    fn fuel(&self) -> i64;

    /// Sets the counter.
    fn set_fuel(&self, fuel: i64);

    /// Calls one of a guest's functions that its description lists.
    fn call_export(&self, guest: u32, export: u32, args: &[u64]) -> Called;

    /// Calls the function in a slot of a guest's table, by its own type.
    fn call_table(&self, guest: u32, slot: u32, args: &[u64]) -> Called;
}

/// The bytes of the guests' libraries, which never change.
pub trait LibraryBytes: Send + Sync {
    /// Copies a part of a guest's library out. As with [`Guests`], nothing is checked here.
    fn read(&self, guest: u32, offset: u32, into: &mut [u8]);
}

/// How a call into a guest ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// It returned nothing.
    Nothing,
    /// It returned an `i32`: its bits.
    I32(u32),
    /// It returned an `i64`: its bits.
    I64(u64),
    /// It was unwound.
    Unwound(Unwound),
    /// It was not entered: there is no such function, or it has other types.
    Missing,
}

/// Why a call into a guest was unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwound {
    /// The shim asked for it; [`State`](crate::State) says why.
    Asked,
    /// It reached `unreachable`: the interpreter aborted.
    Unreachable,
    /// Its calls are too deep.
    CallDepth,
    /// It threw an exception that it does not catch.
    Thrown,
}
