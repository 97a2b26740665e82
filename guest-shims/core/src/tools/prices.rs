//! The fuel prices of tool calls, in addition to those of the device (`glovebox_wasi::prices`).

/// The price of a message to the tools, regardless of its length.
const MESSAGE_FUEL: u64 = 5_000;

/// The price per byte of a message. Reading a byte takes some 5 ns.
const MESSAGE_BYTE_FUEL: u64 = 64;

/// The price of a call, for which the engine starts a thread.
pub const CALL_FUEL: u64 = 300_000;

/// Returns the price of a message of this length.
#[must_use]
pub fn message_fuel(bytes: usize) -> u64 {
    MESSAGE_FUEL.saturating_add(MESSAGE_BYTE_FUEL.saturating_mul(bytes as u64))
}
