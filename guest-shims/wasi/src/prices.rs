//! The price of host work in fuel. Every figure is here.
//!
//! The measure: a guest's operator costs 1 fuel and an interpreter runs about five operators a
//! nanosecond, so 5 fuel pay for a nanosecond of host work. The prices round up, so that no loop of
//! calls is cheaper CPU than the same time spent in the guest, and they depend only on what the guest
//! asked for and on the state it made, never on the host's: the same script costs the same fuel
//! everywhere.

/// Entering and leaving any call: crossing into the host, finding the descriptor, decoding a struct or two.
/// Measured at 60 to 100 ns in Wasmtime with the state taken out and put back.
pub const CALL: u64 = 500;

/// One byte moved between guest and host: what Wasmtime charges a guest that copies a byte itself (`memory.copy`).
/// These bytes are copied twice, through a bounded buffer, at about 10 bytes a nanosecond each time.
pub const BYTE: u64 = 1;

/// One entry of an `iovec` array, one subscription, one argument or environment variable.
pub const ELEMENT: u64 = 20;

/// One unit of the file system's work: a path component looked up, an entry listed, a 4 KiB piece touched, a node
/// walked. Charged as soon as the file system says how many there were; a path's length, and the limit on links
/// followed, bound how many one call can cause.
pub const FILE_SYSTEM_WORK: u64 = 200;

/// One directory entry delivered by `fd_readdir`.
pub const DIRECTORY_ENTRY: u64 = 100;

/// One byte from the seeded generator (ChaCha20 at about a byte a nanosecond without vector instructions).
pub const RANDOM_BYTE: u64 = 5;

/// A sleep: setting and cancelling a timer, waking. Waiting itself is bounded by the deadline and costs no fuel, so
/// that a sleep under a fixed clock costs the same as in real time.
pub const SLEEP: u64 = 5_000;

/// A message to the tools device or a reply from it: decoding or encoding it, finding the tool, waking its thread and
/// being woken by it. The tool's own work costs the guest no fuel; its number and time are limited.
pub const TOOL_MESSAGE: u64 = 20_000;

/// One byte of a message to the tools device or of a reply, moved and converted as JSON at four nanoseconds.
pub const TOOL_BYTE: u64 = 20;

/// A display: an allocation, and what the embedder makes of its parts.
pub const DISPLAY: u64 = 20_000;

/// A block of 128 bytes that scrypt mixes, with N · r · p of them in all: four Salsa20/8 at a hundred nanoseconds each.
pub const SCRYPT_BLOCK: u64 = 2_000;

/// One byte of a password or salt, or of a key.
pub const SCRYPT_BYTE: u64 = 20;

/// Creating, removing, renaming or linking a directory entry: allocation and change tracking behind it.
pub const DIRECTORY_CHANGE: u64 = 1_000;

/// The price of moving `count` bytes.
pub(crate) fn bytes(count: u64) -> u64 {
    count.saturating_mul(BYTE)
}
