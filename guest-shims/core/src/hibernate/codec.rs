//! Compression of a body.

use std::io::{self, Read, Write};

/// The window of a compressor, as a power of two: 1 MiB. Readers refuse a larger one.
pub const WINDOW_LOG: u32 = 20;

/// Zstandard (RFC 8878), as the backend provides it.
pub trait Codec {
    /// Compresses all of `body` into one frame, with a window of at most 1 MiB.
    fn pack(&self, body: &mut dyn Read, into: &mut dyn Write) -> io::Result<()>;

    /// Decompresses the frame at the beginning of the bytes. A larger window is an error, and so is a frame that needs
    /// a dictionary. Nothing is allocated for sizes that the frame only claims.
    fn unpack<'a>(&self, packed: &'a [u8]) -> io::Result<Box<dyn Unpacked<'a> + 'a>>;
}

/// A frame being decompressed: reading ends at its end.
pub trait Unpacked<'a>: Read {
    /// The bytes after the frame, once it has been read to its end.
    fn rest(self: Box<Self>) -> &'a [u8];
}
