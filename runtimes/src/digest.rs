//! SHA-256 digests, which identify binaries, recipes and images.

use glovebox_vfs::escaped;
use std::fmt;
use std::io::{self, Read, Write};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest. Its text form is 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// The text is not a SHA-256 digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a sha256: 64 hexadecimal digits are expected", name = escaped(.0))]
pub struct DigestError(String);

impl Digest {
    /// Computes the digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Computes the digest of several fields. Each is prefixed by its length, so that different lists never give the
    /// same input.
    pub fn of_fields(fields: &[&[u8]]) -> Self {
        let mut hasher = Sha256::new();
        for field in fields {
            let length = u64::try_from(field.len()).unwrap_or(u64::MAX);
            hasher.update(length.to_le_bytes());
            hasher.update(field);
        }
        Self(hasher.finalize().into())
    }

    /// Returns the 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the first 16 hexadecimal digits, for file names that people compare.
    pub fn short(&self) -> String {
        self.to_string().chars().take(16).collect()
    }

    /// Reads `from` to its end. Returns the digest and the number of bytes.
    pub(crate) fn of_reader(from: &mut dyn Read) -> io::Result<(Self, u64)> {
        let mut hashing = Hashing::new(io::sink());
        let bytes = io::copy(from, &mut hashing)?;
        Ok((hashing.finish().1, bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let wrong = || DigestError(text.chars().take(80).collect());
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut bytes = [0u8; 32];
        for (pair, byte) in text.as_bytes().chunks_exact(2).zip(&mut bytes) {
            let pair = std::str::from_utf8(pair).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

/// A writer that hashes its input.
pub(crate) struct Hashing<W> {
    inner: W,
    hasher: Sha256,
}

impl<W> Hashing<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, hasher: Sha256::new() }
    }

    /// Returns the inner writer and the digest.
    pub(crate) fn finish(self) -> (W, Digest) {
        (self.inner, Digest(self.hasher.finalize().into()))
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.inner.write(bytes)?;
        self.hasher.update(bytes.get(..taken).unwrap_or(bytes));
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn known_value_and_round_trip() {
        assert_eq!(Digest::of(b"").to_string(), EMPTY);
        assert_eq!(EMPTY.parse::<Digest>().unwrap(), Digest::of(b""));
        assert_eq!(EMPTY.to_uppercase().parse::<Digest>().unwrap(), Digest::of(b""));
        assert_eq!(Digest::of(b"").short(), "e3b0c44298fc1c14");
        assert_eq!(Digest::of_reader(&mut &b"abc"[..]).unwrap(), (Digest::of(b"abc"), 3));
    }

    #[test]
    fn a_text_that_is_no_digest_is_refused() {
        let long = "a".repeat(65);
        let wide = "é".repeat(32);
        for text in ["", "abc", EMPTY.get(1..).unwrap(), &long, &wide, &EMPTY.replace('e', "g")] {
            text.parse::<Digest>().unwrap_err();
        }
    }

    #[test]
    fn fields_do_not_run_together() {
        assert_ne!(Digest::of_fields(&[b"ab", b"c"]), Digest::of_fields(&[b"a", b"bc"]));
        assert_ne!(Digest::of_fields(&[b"", b"a"]), Digest::of_fields(&[b"a"]));
    }
}
