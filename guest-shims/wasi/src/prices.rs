//! The prices of host work in fuel. This module contains every figure.
//!
//! An operator of the guest costs 1 fuel, and an interpreter runs about five operators per nanosecond, so 5 fuel pay
//! for a nanosecond of host work. The prices round up, so that no loop of calls is cheaper CPU time than the same time
//! in the guest. They depend only on the guest's requests and on the state that it created, never on the host's state:
//! the same script costs the same fuel everywhere.

/// Any call: crossing into the host, finding the descriptor, decoding one or two structures. Measured at 60 to 100 ns
/// in Wasmtime, including taking the state out and putting it back.
pub const CALL: u64 = 500;

/// A byte moved between guest and host, at the price that Wasmtime charges a guest for copying a byte itself
/// (`memory.copy`). These bytes are copied twice, through a bounded buffer, at about 10 bytes per nanosecond each time.
pub const BYTE: u64 = 1;

/// An entry of an `iovec` array, a subscription, an argument or an environment variable.
pub const ELEMENT: u64 = 20;

/// A unit of the file system's work: a path component looked up, an entry listed, a 4 KiB piece touched, a node walked.
/// Charged as soon as the file system reports the number of units. A path's length, and the limit on followed links,
/// bound that number for one call.
pub const FILE_SYSTEM_WORK: u64 = 200;

/// A directory entry delivered by `fd_readdir`.
pub const DIRECTORY_ENTRY: u64 = 100;

/// A byte from the seeded generator (ChaCha20 at about one byte per nanosecond without vector instructions).
pub const RANDOM_BYTE: u64 = 5;

/// A sleep: setting and cancelling a timer, waking up. The deadline bounds the wait itself, which costs no fuel, so
/// that a sleep under a fixed clock costs the same as in real time.
pub const SLEEP: u64 = 5_000;

/// A message to the tools device or a reply from it: decoding or encoding it, finding the tool, and two wake-ups
/// between its thread and the guest's. The tool's own work costs the guest no fuel; the number and the time of calls
/// are limited.
pub const TOOL_MESSAGE: u64 = 20_000;

/// A byte of a message to the tools device or of a reply, moved and converted as JSON in four nanoseconds.
pub const TOOL_BYTE: u64 = 20;

/// A display: an allocation, and the embedder's work on its parts.
pub const DISPLAY: u64 = 20_000;

/// A block of 128 bytes that scrypt mixes: four Salsa20/8 at a hundred nanoseconds each. A derivation has N · r · p
/// blocks.
pub const SCRYPT_BLOCK: u64 = 2_000;

/// A byte of a password, a salt or a key.
pub const SCRYPT_BYTE: u64 = 20;

/// A byte that the text device decodes.
pub const DECODED_BYTE: u64 = 20;

/// Creating, removing, renaming or linking a directory entry: allocation and change tracking.
pub const DIRECTORY_CHANGE: u64 = 1_000;

/// Returns the price of moving `count` bytes.
pub(crate) fn bytes(count: u64) -> u64 {
    count.saturating_mul(BYTE)
}
