//! Fuel prices of host work. This module contains all prices.
//!
//! A guest operator costs 1 fuel, and an interpreter executes about five operators per nanosecond, so 5 fuel pay for a
//! nanosecond of host work. Prices are rounded up, so that no loop of calls is cheaper than the same CPU time in the
//! guest. Prices depend only on the guest's requests and on the state that the guest created, never on the host's
//! state. The same script therefore costs the same fuel everywhere.

/// The price of any call: entering the host, finding the descriptor, decoding one or two structures. Measured at 60 to
/// 100 ns in Wasmtime, including the time to take the WASI state out and put it back.
pub const CALL: u64 = 500;

/// The price of a byte moved between guest and host. Wasmtime charges the same price for a byte that the guest copies
/// itself (`memory.copy`). The host copies each byte twice, through a bounded buffer, at about 10 bytes per nanosecond
/// each time.
pub const BYTE: u64 = 1;

/// The price of an `iovec` array entry, a subscription, an argument or an environment variable.
pub const ELEMENT: u64 = 20;

/// The price of a unit of file system work: a path component looked up, an entry listed, a 4 KiB block touched, or a
/// node visited. Charged as soon as the file system reports the number of units. The length of a path and the limit on
/// followed links bound that number for one call.
pub const FILE_SYSTEM_WORK: u64 = 200;

/// The price of a directory entry delivered by `fd_readdir`.
pub const DIRECTORY_ENTRY: u64 = 100;

/// The price of a byte from the seeded generator (ChaCha20, at about one byte per nanosecond without vector
/// instructions).
pub const RANDOM_BYTE: u64 = 5;

/// The price of a sleep: setting and cancelling a timer, and waking up. The waiting time costs no fuel, so that a sleep
/// costs the same with a fixed clock and in real time. The deadline bounds the waiting time.
pub const SLEEP: u64 = 5_000;

/// The price of a message to the tools device, or of a reply from it: decoding or encoding, finding the tool, and two
/// wake-ups between the tool's thread and the guest's. The tool's own work costs the guest no fuel; the number and
/// duration of calls are limited.
pub const TOOL_MESSAGE: u64 = 20_000;

/// The price of a byte in a message to the tools device or in a reply. Moving a byte and converting it as JSON takes
/// four nanoseconds.
pub const TOOL_BYTE: u64 = 20;

/// The price of a display: an allocation, and the embedder's processing of its contents.
pub const DISPLAY: u64 = 20_000;

/// The price of a 128-byte block that scrypt mixes: four Salsa20/8 permutations of a hundred nanoseconds each. A
/// derivation has N · r · p blocks.
pub const SCRYPT_BLOCK: u64 = 2_000;

/// The price of each byte in a request to the scrypt device, and of each byte that the derivation hashes.
pub const SCRYPT_BYTE: u64 = 20;

/// The price of a byte that the text device decodes.
pub const DECODED_BYTE: u64 = 20;

/// The price of creating, removing, renaming or linking a directory entry: allocation and change tracking.
pub const DIRECTORY_CHANGE: u64 = 1_000;

/// Returns the price of moving `count` bytes.
pub(crate) fn bytes(count: u64) -> u64 {
    count.saturating_mul(BYTE)
}
