//! Files of a workspace and large byte strings. Both are read in chunks.

use std::io::{self, BufRead, Write};

use crate::{Error, FileEntry, bindings::glovebox::sandbox::sandbox as raw};

/// A snapshot of a workspace's files. Later changes to the workspace do not affect it.
///
/// Paths are relative to `/app`, and neither `..` nor links lead out of it. Errors are [`Error::File`], with the kind
/// and the path.
#[derive(Debug)]
pub struct Files {
    pub(crate) raw: raw::Files,
}

impl Files {
    /// Returns the files, directories and links whose path matches the pattern, sorted. `*`, `?` and `[…]` match within
    /// a name, and `**` matches any number of directories.
    ///
    /// # Errors
    /// [`Error::File`] for an invalid pattern, or if more than 10,000 paths match.
    pub fn list(&self, pattern: &str) -> Result<Vec<FileEntry>, Error> {
        Ok(self.raw.list(pattern)?)
    }

    /// Describes the entry at a path. Does not follow a link in the last component.
    ///
    /// # Errors
    /// [`Error::File`] if the path does not exist.
    pub fn stat(&self, path: &str) -> Result<FileEntry, Error> {
        Ok(self.raw.stat(path)?)
    }

    /// Reads a whole file. The size is untrusted, so check it first with [`stat`](Self::stat).
    ///
    /// # Errors
    /// [`Error::File`] if the path does not lead to a file.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, Error> {
        Pieces::new(|offset, len| self.read_at(path, offset, len)).into_vec()
    }

    /// Reads at most `len` bytes of a file, starting at `offset`. Returns at most 16,777,216 bytes, and no bytes at the
    /// end of the file.
    ///
    /// # Errors
    /// [`Error::File`] if the path does not lead to a file.
    pub fn read_at(&self, path: &str, offset: u64, len: u64) -> Result<Vec<u8>, Error> {
        Ok(self.raw.read(path, offset, len)?)
    }

    /// Opens a reader that reads the file in chunks.
    ///
    /// # Errors
    /// [`Error::File`] if the path does not lead to a file.
    pub fn open(&self, path: impl Into<String>) -> Result<impl BufRead + '_, Error> {
        let path = path.into();
        self.read_at(&path, 0, 0)?;
        Ok(Pieces::new(move |offset, len| self.read_at(&path, offset, len)))
    }
}

/// Maximum number of bytes per write, because providers limit the length of a list.
const WRITE_BYTES: usize = 1 << 20;

/// Bytes that the provider stores because they are too large for a list: a hibernated session, a suspended execution,
/// or a large file.
///
/// [`Write`] appends bytes, which can be read from any offset. Dropping the blob frees the bytes.
#[derive(Debug)]
pub struct Blob {
    pub(crate) raw: raw::Blob,
}

impl Blob {
    /// Creates an empty blob. Traps the component if the provider has no handles left, because this function cannot
    /// return an error.
    #[must_use]
    pub fn new() -> Self {
        Self { raw: raw::Blob::new() }
    }

    /// Creates a blob from bytes.
    ///
    /// # Errors
    /// [`Error::QuotaExceeded`] if the blob would exceed the provider's memory quota.
    pub fn of(bytes: &[u8]) -> Result<Self, Error> {
        let blob = Self::new();
        for piece in bytes.chunks(WRITE_BYTES) {
            blob.raw.append(piece)?;
        }
        Ok(blob)
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.raw.size()
    }

    /// Returns at most `len` bytes of the blob, starting at `offset`. Returns at most 16,777,216 bytes, and no bytes at
    /// the end of the blob.
    #[must_use]
    pub fn read_at(&self, offset: u64, len: u64) -> Vec<u8> {
        self.raw.read(offset, len)
    }

    /// Returns a reader that starts at the first byte of the blob.
    pub fn reader(&self) -> impl BufRead + '_ {
        self.pieces()
    }

    /// Copies all bytes into the component's memory.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        // Ignore errors, because reading a blob cannot fail.
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

/// The size of one read in bytes. A provider returns up to 16 MiB, but a component that only scans data should not have
/// to buffer that much.
const PIECE_BYTES: u64 = 1 << 20;

/// A reader that calls `fetch(offset, len)` from offset 0, chunk by chunk, until `fetch` returns no bytes.
pub(crate) struct Pieces<F> {
    fetch: F,
    piece: io::Cursor<Vec<u8>>,
    offset: u64,
}

impl<F: FnMut(u64, u64) -> Result<Vec<u8>, Error>> Pieces<F> {
    pub(crate) fn new(fetch: F) -> Self {
        Self { fetch, piece: io::Cursor::default(), offset: 0 }
    }

    pub(crate) fn into_vec(mut self) -> Result<Vec<u8>, Error> {
        let mut all = Vec::new();
        loop {
            let mut piece = (self.fetch)(all.len() as u64, PIECE_BYTES)?;
            if piece.is_empty() {
                return Ok(all);
            }
            all.append(&mut piece);
        }
    }
}

impl<F: FnMut(u64, u64) -> Result<Vec<u8>, Error>> BufRead for Pieces<F> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.piece.position() >= self.piece.get_ref().len() as u64 {
            let piece = (self.fetch)(self.offset, PIECE_BYTES)?;
            self.offset = self.offset.saturating_add(piece.len() as u64);
            self.piece = io::Cursor::new(piece);
        }
        self.piece.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.piece.consume(amount);
    }
}

impl<F: FnMut(u64, u64) -> Result<Vec<u8>, Error>> io::Read for Pieces<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.fill_buf()?;
        self.piece.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    /// Returns a function that reads fewer bytes than requested, as providers are allowed to.
    fn from(bytes: &[u8], max: usize) -> impl FnMut(u64, u64) -> Result<Vec<u8>, Error> {
        move |offset, _| Ok(bytes.iter().copied().skip(usize::try_from(offset).unwrap()).take(max).collect())
    }

    #[test]
    fn chunked_reads_return_all_bytes() {
        let bytes: Vec<u8> = (0..=255).collect();
        for max in [1, 7, 255, 256, 1000] {
            assert_eq!(Pieces::new(from(&bytes, max)).into_vec().unwrap(), bytes);
            let mut read = Vec::new();
            Pieces::new(from(&bytes, max)).read_to_end(&mut read).unwrap();
            assert_eq!(read, bytes);
        }
        assert_eq!(Pieces::new(from(&[], 5)).into_vec().unwrap(), []);
    }

    #[test]
    fn reader_returns_bytes_appended_later() {
        let written = std::cell::RefCell::new(vec![1_u8, 2]);
        let mut reader = Pieces::new(|offset, _| {
            Ok(written.borrow().iter().copied().skip(usize::try_from(offset).unwrap()).collect())
        });
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        written.borrow_mut().push(3);
        reader.read_to_end(&mut read).unwrap();
        assert_eq!(read, [1, 2, 3]);
    }

    #[test]
    fn reader_returns_errors() {
        let mut reader = Pieces::new(|_, _| Err(Error::Unavailable("gone".into())));
        assert_eq!(reader.read(&mut [0]).unwrap_err().to_string(), "unavailable: gone");
    }
}
