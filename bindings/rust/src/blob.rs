//! Large byte strings.

use std::io::{self, BufRead, Write};

use crate::{Error, bindings::glovebox::sandbox::sandbox as raw, reader::Pieces};

/// The maximum number of bytes written in one call: providers limit a single list.
const WRITE_BYTES: usize = 1 << 20;

/// Bytes that the provider holds for the component because they are too large for a list: a hibernated session, a large
/// file.
///
/// Bytes are appended through [`Write`] and read from any offset. Dropping the blob frees them.
#[derive(Debug)]
pub struct Blob {
    pub(crate) raw: raw::Blob,
}

impl Blob {
    /// Creates an empty blob. If the provider grants no more handles, the component traps, because this function cannot
    /// return an error.
    #[must_use]
    pub fn new() -> Self {
        Self { raw: raw::Blob::new() }
    }

    /// Creates a blob from bytes.
    ///
    /// # Errors
    /// [`Error::QuotaExceeded`] if the provider grants no more memory.
    pub fn of(bytes: &[u8]) -> Result<Self, Error> {
        let blob = Self::new();
        for piece in bytes.chunks(WRITE_BYTES) {
            blob.raw.append(piece)?;
        }
        Ok(blob)
    }

    /// The length in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.raw.size()
    }

    /// Returns bytes from `offset` on, at most `len` and at most 16,777,216; empty at the end of the blob.
    #[must_use]
    pub fn read_at(&self, offset: u64, len: u64) -> Vec<u8> {
        self.raw.read(offset, len)
    }

    /// Returns a reader that starts at the beginning.
    pub fn reader(&self) -> impl BufRead + '_ {
        self.pieces()
    }

    /// Copies all bytes into the component's own memory.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        // Reading a blob does not fail.
        self.pieces().into_vec().unwrap_or_default()
    }

    fn pieces(&self) -> Pieces<impl FnMut(u64, u64) -> Result<Vec<u8>, Error>> {
        Pieces::new(|offset, len| Ok(self.raw.read(offset, len)))
    }
}

impl Default for Blob {
    fn default() -> Self {
        Self::new()
    }
}

impl Write for Blob {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = bytes.get(..WRITE_BYTES).unwrap_or(bytes);
        self.raw.append(piece).map_err(Error::from)?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
