//! The fuel prices of tool calls, in addition to those of the device (`glovebox_wasi::prices`).

/// A message to the tools, of any length.
const MESSAGE_FUEL: u64 = 5_000;

/// One byte of a message: reading it takes some 5 ns.
const MESSAGE_BYTE_FUEL: u64 = 64;

/// A call: the engine starts a thread for it.
pub const CALL_FUEL: u64 = 300_000;

/// The price of a message of this length.
#[must_use]
pub fn message_fuel(bytes: usize) -> u64 {
    MESSAGE_FUEL.saturating_add(MESSAGE_BYTE_FUEL.saturating_mul(bytes as u64))
}
