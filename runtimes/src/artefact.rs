//! SHA-256 digests of binaries, recipes and images, and the keys and records of prepared images.

use std::{
    collections::BTreeMap,
    fmt,
    fs::File,
    io::{self, Read, Write},
    path::PathBuf,
    str::FromStr,
};

use glovebox_vfs::escaped;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest as _, Sha256};

use crate::rewrite::MutableGlobal;

/// The inputs that determine compiled code. Images that differ in any of these inputs never share a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyParts {
    /// The readable label, such as `python-3.12.0`. File names begin with the label.
    pub label: String,
    /// The digest of the runtime's binary.
    pub runtime: Digest,
    /// The digest of all other inputs of the code, such as the recipe, the boot code and Glovebox's version.
    pub recipe: Digest,
    /// Wasmtime's version.
    pub wasmtime: String,
    /// The engine settings that affect the code, in any stable format.
    pub settings: String,
    /// The target triple and processor features of the compiled code.
    pub target: String,
}

/// The identity of one prepared image on one kind of machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtefactKey {
    parts: KeyParts,
    digest: Digest,
}

impl ArtefactKey {
    /// Computes the key from its inputs.
    pub fn new(parts: KeyParts) -> Self {
        let digest = Digest::of_fields(&[
            parts.label.as_bytes(),
            parts.runtime.as_bytes(),
            parts.recipe.as_bytes(),
            parts.wasmtime.as_bytes(),
            parts.settings.as_bytes(),
            parts.target.as_bytes(),
        ]);
        Self { parts, digest }
    }

    /// Returns the inputs that the key was computed from.
    pub fn parts(&self) -> &KeyParts {
        &self.parts
    }

    /// Returns the common prefix of the key's file names: the label, with unsuitable characters replaced, and the
    /// digest.
    pub(crate) fn stem(&self) -> String {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '_' }
        };
        let label: String = self.parts.label.chars().take(64).map(plain).collect();
        // A leading dot would mark a temporary file. The digest is truncated to 128 bits for readability.
        let digest: String = self.digest.to_string().chars().take(32).collect();
        format!("{}-{digest}", label.trim_start_matches('.'))
    }
}

impl fmt::Display for ArtefactKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.stem())
    }
}

/// Data about an image that drivers and engines need in addition to its code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageRecord {
    /// The digest of the compiled module, which identifies the image.
    pub sha256: Digest,
    /// `true` if the image is a booted interpreter, `false` if it is the compiled plain module.
    pub prepared: bool,
    /// The size of the linear memory in bytes.
    pub memory_bytes: u64,
    /// Addresses that the driver needs, by name.
    #[serde(default)]
    pub anchors: BTreeMap<String, u32>,
    /// The mutable globals, whose values are part of every saved instance.
    #[serde(default)]
    pub globals: Vec<MutableGlobal>,
    /// The value of each mutable global in the image, as raw bits, by export name.
    #[serde(default)]
    pub values: BTreeMap<String, u64>,
    /// `true` if the code changes only its memory and globals, so that restoring them resets the instance.
    #[serde(default)]
    pub restorable: bool,
    /// Additional data for display, such as the fuel that booting consumed.
    #[serde(default)]
    pub notes: BTreeMap<String, String>,
}

impl ImageRecord {
    /// Creates the record of compiled code without a booted interpreter.
    pub fn of_code(sha256: Digest) -> Self {
        Self {
            sha256,
            prepared: false,
            memory_bytes: 0,
            anchors: BTreeMap::new(),
            globals: Vec::new(),
            values: BTreeMap::new(),
            restorable: false,
            notes: BTreeMap::new(),
        }
    }
}

/// An image to be stored.
#[derive(Clone, Debug)]
pub struct NewArtefact {
    /// The compiled code.
    pub aot: Vec<u8>,
    /// The record stored with the code.
    pub record: ImageRecord,
}

/// An image in the cache.
#[derive(Debug)]
pub struct Artefact {
    /// The compiled code, open for reading from its beginning.
    ///
    /// The file was opened without following links, and its owner, mode and length were checked through this handle.
    /// Load the code from the handle, not from the path. An image is not [evicted](crate::Runtimes::evict) while its
    /// file is open or mapped.
    pub aot: File,
    /// The path of the code.
    pub aot_path: PathBuf,
    /// The length of the code in bytes.
    pub aot_bytes: u64,
    /// The record stored with the code.
    pub record: ImageRecord,
    /// `true` if the image was added to the cache by the call that returned it.
    pub is_new: bool,
    pub(crate) aot_sha256: Digest,
}

/// An image in a listing of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedArtefact {
    /// Inputs that determine the image.
    pub parts: KeyParts,
    /// The path of the code.
    pub aot_path: PathBuf,
    /// The length of the code in bytes.
    pub aot_bytes: u64,
    /// The record stored with the code.
    pub record: ImageRecord,
}

/// A SHA-256 digest. Its text form is 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// The error for text that is not a SHA-256 digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a SHA-256 digest of 64 hexadecimal digits", name = escaped(.0))]
pub struct DigestError(String);

impl Digest {
    /// Computes the digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Computes the digest of several fields. Each field is prefixed with its length, so that different lists never
    /// produce the same input.
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

    /// Returns the first 16 hexadecimal digits, for short file names.
    pub fn short(&self) -> String {
        self.to_string().chars().take(16).collect()
    }

    /// Reads `from` to its end. Returns the digest and the number of bytes read.
    pub(crate) fn of_reader(from: &mut dyn Read) -> io::Result<(Self, u64)> {
        let mut hashing = HashingWriter::new(io::sink());
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
pub(crate) struct HashingWriter<W> {
    inner: W,
    hasher: Sha256,
}

impl<W> HashingWriter<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, hasher: Sha256::new() }
    }

    /// Returns the inner writer and the digest.
    pub(crate) fn finish(self) -> (W, Digest) {
        (self.inner, Digest(self.hasher.finalize().into()))
    }
}

impl<W: Write> Write for HashingWriter<W> {
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
    fn digest_of_known_bytes_round_trips() {
        assert_eq!(Digest::of(b"").to_string(), EMPTY);
        assert_eq!(EMPTY.parse::<Digest>().unwrap(), Digest::of(b""));
        assert_eq!(EMPTY.to_uppercase().parse::<Digest>().unwrap(), Digest::of(b""));
        assert_eq!(Digest::of(b"").short(), "e3b0c44298fc1c14");
        assert_eq!(Digest::of_reader(&mut &b"abc"[..]).unwrap(), (Digest::of(b"abc"), 3));
    }

    #[test]
    fn invalid_digest_text_is_rejected() {
        let long = "a".repeat(65);
        let wide = "é".repeat(32);
        for text in ["", "abc", EMPTY.get(1..).unwrap(), &long, &wide, &EMPTY.replace('e', "g")] {
            text.parse::<Digest>().unwrap_err();
        }
    }

    #[test]
    fn digest_depends_on_field_boundaries() {
        assert_ne!(Digest::of_fields(&[b"ab", b"c"]), Digest::of_fields(&[b"a", b"bc"]));
        assert_ne!(Digest::of_fields(&[b"", b"a"]), Digest::of_fields(&[b"a"]));
    }
}
