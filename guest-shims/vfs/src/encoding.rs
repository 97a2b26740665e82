//! Encodes plain values, for saved file systems and for the state that other crates save.
//!
//! The encoding is canonical: each value has exactly one encoding. The decoder accepts untrusted bytes: it allocates
//! memory only for bytes that exist.

use thiserror::Error;

/// An error for saved bytes that are truncated, modified, or in a different format.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[error("the saved state is damaged: {0}")]
pub struct DecodeError(
    /// The description of the damage, for a log.
    pub &'static str,
);

/// A buffer to which values are encoded one after another.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    /// Creates an empty encoder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the encoded bytes.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// Encodes one byte.
    pub fn byte(&mut self, value: u8) {
        self.bytes.push(value);
    }

    /// Encodes a number in LEB128 (seven bits per byte, least significant bits first), which is short for small
    /// numbers.
    pub fn number(&mut self, value: u64) {
        let mut rest = value;
        loop {
            let [low, ..] = rest.to_le_bytes();
            rest >>= 7;
            if rest == 0 {
                self.byte(low);
                return;
            }
            self.byte(low | 0x80);
        }
    }

    /// Encodes a number as eight little-endian bytes. This encoding is shorter than LEB128 for large numbers, for
    /// example timestamps.
    pub fn fixed(&mut self, value: u64) {
        self.raw(&value.to_le_bytes());
    }

    /// Encodes a length in the same way as [`number`](Self::number).
    pub fn length(&mut self, value: usize) {
        self.number(u64::try_from(value).unwrap_or(u64::MAX));
    }

    /// Encodes a string, prefixed by its length in bytes.
    pub fn text(&mut self, value: &str) {
        self.run(value.as_bytes());
    }

    /// Encodes bytes, prefixed by their length.
    pub fn run(&mut self, value: &[u8]) {
        self.length(value.len());
        self.raw(value);
    }

    /// Encodes bytes without their length, which the decoder must know.
    pub fn raw(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
    }
}

/// A reader of an [`Encoder`]'s output.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Creates a decoder at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Finishes decoding.
    ///
    /// # Errors
    /// Returns [`DecodeError`] if bytes remain.
    pub fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError("it has trailing bytes")) }
    }

    /// Returns the remaining bytes, for another decoder.
    pub fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// Decodes `len` bytes written by [`Encoder::raw`].
    ///
    /// # Errors
    /// Returns [`DecodeError`] if fewer bytes remain.
    pub fn raw(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(DecodeError("it is truncated"))?;
        self.rest = rest;
        Ok(taken)
    }

    /// Decodes a byte written by [`Encoder::byte`].
    ///
    /// # Errors
    /// Returns [`DecodeError`] if no bytes remain.
    pub fn byte(&mut self) -> Result<u8, DecodeError> {
        let (&byte, rest) = self.rest.split_first().ok_or(DecodeError("it is truncated"))?;
        self.rest = rest;
        Ok(byte)
    }

    /// Decodes a number written by [`Encoder::number`].
    ///
    /// # Errors
    /// Returns [`DecodeError`] if the bytes end too early, for more than 64 bits, and for an encoding that is longer
    /// than necessary.
    pub fn number(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                let padded = byte == 0 && shift > 0;
                return if padded { Err(DecodeError("a number is not in its shortest form")) } else { Ok(value) };
            }
        }
        Err(DecodeError("a number has more than 64 bits"))
    }

    /// Decodes a number written by [`Encoder::fixed`].
    ///
    /// # Errors
    /// Returns [`DecodeError`] if the bytes end too early.
    pub fn fixed(&mut self) -> Result<u64, DecodeError> {
        let bytes = self.raw(8)?.try_into().map_err(|_| DecodeError("it is truncated"))?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Decodes bytes written by [`Encoder::run`].
    ///
    /// # Errors
    /// Returns [`DecodeError`] if fewer bytes remain than the length claims.
    pub fn run(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = usize::try_from(self.number()?).map_err(|_| DecodeError("it is truncated"))?;
        self.raw(len)
    }

    /// Decodes a string written by [`Encoder::text`].
    ///
    /// # Errors
    /// Returns [`DecodeError`] if the text is truncated or not UTF-8.
    pub fn text(&mut self) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.run()?).map_err(|_| DecodeError("a string is not UTF-8"))
    }
}

#[cfg(test)]
mod tests {
    use super::{DecodeError, Decoder, Encoder};

    #[test]
    fn numbers_of_every_length_round_trip() {
        for value in (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1]).chain([u64::MAX]) {
            let mut encoder = Encoder::new();
            encoder.number(value);
            encoder.fixed(value);
            let bytes = encoder.finish();
            assert_eq!(bytes.len(), usize::try_from((64 - value.leading_zeros()).max(1).div_ceil(7)).unwrap() + 8);
            let mut decoder = Decoder::new(&bytes);
            assert_eq!((decoder.number(), decoder.fixed()), (Ok(value), Ok(value)));
            assert_eq!(decoder.finish(), Ok(()));
        }
    }

    #[test]
    fn non_canonical_numbers_are_rejected() {
        for bytes in [&[0x80, 0][..], &[0xFF, 0x80, 0], &[0x80; 10], &[0xFF; 11], &[0x80], &[]] {
            assert!(Decoder::new(bytes).number().is_err(), "{bytes:?}");
        }
        let max = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1];
        assert_eq!(Decoder::new(&max).number(), Ok(u64::MAX));
        let over = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2];
        assert_eq!(Decoder::new(&over).number(), Err(DecodeError("a number has more than 64 bits")));
    }

    #[test]
    fn length_beyond_the_end_allocates_nothing() {
        let mut encoder = Encoder::new();
        encoder.number(u64::MAX);
        encoder.raw(b"abc");
        let bytes = encoder.finish();
        assert_eq!(Decoder::new(&bytes).run(), Err(DecodeError("it is truncated")));
        assert_eq!(Decoder::new(&[2, 0xC3, 0x28]).text(), Err(DecodeError("a string is not UTF-8")));
        assert_eq!(Decoder::new(&[0]).finish(), Err(DecodeError("it has trailing bytes")));
    }
}
