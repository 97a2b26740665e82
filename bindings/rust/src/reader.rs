//! Reads bytes in pieces.

use std::io;

use crate::Error;

/// The size of one read. A provider returns at most 16 MiB, but a component that only scans data should not have to
/// hold that much.
const PIECE_BYTES: u64 = 1 << 20;

/// Reads from the beginning with `fetch(offset, len)`, piece by piece, until it returns nothing.
pub(crate) struct Pieces<F> {
    fetch: F,
    piece: io::Cursor<Vec<u8>>,
    offset: u64,
}

impl<F: FnMut(u64, u64) -> Result<Vec<u8>, Error>> Pieces<F> {
    pub(crate) fn new(fetch: F) -> Self {
        Self { fetch, piece: io::Cursor::default(), offset: 0 }
    }

    /// Reads all bytes.
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

impl<F: FnMut(u64, u64) -> Result<Vec<u8>, Error>> io::BufRead for Pieces<F> {
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
        io::BufRead::fill_buf(self)?;
        self.piece.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    /// Returns fewer bytes than requested, as a provider may.
    fn from(bytes: &[u8], most: usize) -> impl FnMut(u64, u64) -> Result<Vec<u8>, Error> {
        move |offset, _| Ok(bytes.iter().copied().skip(usize::try_from(offset).unwrap()).take(most).collect())
    }

    #[test]
    fn pieces_make_the_whole() {
        let bytes: Vec<u8> = (0..=255).collect();
        for most in [1, 7, 255, 256, 1000] {
            assert_eq!(Pieces::new(from(&bytes, most)).into_vec().unwrap(), bytes);
            let mut read = Vec::new();
            Pieces::new(from(&bytes, most)).read_to_end(&mut read).unwrap();
            assert_eq!(read, bytes);
        }
        assert_eq!(Pieces::new(from(&[], 5)).into_vec().unwrap(), []);
    }

    #[test]
    fn what_is_added_at_the_end_is_read_too() {
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
    fn an_error_reaches_the_reader() {
        let mut reader = Pieces::new(|_, _| Err(Error::Unavailable("gone".into())));
        assert_eq!(reader.read(&mut [0]).unwrap_err().to_string(), "unavailable: gone");
    }
}
