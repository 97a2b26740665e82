//! What calls of tools cost a guest in fuel, beside what the device itself costs (`glovebox_wasi::prices`).

/// What a message to the tools costs, whatever its length.
const MESSAGE_FUEL: u64 = 5_000;

/// One byte of a message: reading it takes some 5 ns.
const MESSAGE_BYTE_FUEL: u64 = 64;

/// A call: the engine starts a thread for it.
pub const CALL_FUEL: u64 = 300_000;

/// What a message of so many bytes costs.
#[must_use]
pub fn message_fuel(bytes: usize) -> u64 {
    MESSAGE_FUEL.saturating_add(MESSAGE_BYTE_FUEL.saturating_mul(bytes as u64))
}
