//! What packs and unpacks a body.

use std::io::{self, Read, Write};

/// How far back a compressor may refer, as a power of two: 1 MiB. Readers refuse more than they need to hold.
pub const WINDOW_LOG: u32 = 20;

/// Zstandard (RFC 8878), as a backend has it.
pub trait Codec {
    /// Packs all of `body` into one frame, with a window of at most 1 MiB.
    fn pack(&self, body: &mut dyn Read, into: &mut dyn Write) -> io::Result<()>;

    /// Unpacks the frame that the bytes begin with. One with a larger window is an error, and so is one that needs a
    /// dictionary. Nothing is allocated for what the frame only claims.
    fn unpack<'a>(&self, packed: &'a [u8]) -> io::Result<Box<dyn Unpacked<'a> + 'a>>;
}

/// A frame, being unpacked: reading ends with it.
pub trait Unpacked<'a>: Read {
    /// What of the bytes follows the frame, when it has been read to its end.
    fn rest(self: Box<Self>) -> &'a [u8];
}
