//! Compression of the body.

use std::io::{self, Read, Write};

/// The window of a compressor as a power of two: 1 MiB. Readers reject a larger one.
pub const WINDOW_LOG: u32 = 20;

/// Zstandard (RFC 8878), provided by the backend.
pub trait Codec {
    /// Compresses all of `body` into one frame, with a window of at most 1 MiB.
    fn pack(&self, body: &mut dyn Read, into: &mut dyn Write) -> io::Result<()>;

    /// Decompresses the frame at the beginning of the bytes. Allocates nothing for sizes that the frame only claims.
    ///
    /// # Errors
    /// The window is larger than 1 MiB, or the frame needs a dictionary.
    fn unpack<'a>(&self, packed: &'a [u8]) -> io::Result<Box<dyn Unpacked<'a> + 'a>>;
}

/// A frame that is being decompressed. Reading ends at the end of the frame.
pub trait Unpacked<'a>: Read {
    /// Returns the bytes after the frame, once the frame has been read to its end.
    fn rest(self: Box<Self>) -> &'a [u8];
}
