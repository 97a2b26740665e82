//! The header and the seal of a saved session.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{ImageView, MEMORY_UNIT_BYTES, PAGE_BYTES, ResumeError, SavedSession};
use crate::Language;

/// The first bytes of every hibernated session.
pub(super) const MAGIC: &[u8; 8] = b"GLOVEBOX";

/// The only format version that is written and read.
pub(super) const VERSION: u16 = 1;

/// The offset of the seal's type, after magic and version.
pub(super) const SEAL_KIND_AT: usize = MAGIC.len() + size_of_val(&VERSION);

/// The size of magic, version, seal type, reserved byte and header length.
const PRELUDE_BYTES: usize = 16;

/// Maximum size of a header in bytes. Headers written by this version take about 300 bytes.
const MAX_HEADER_BYTES: usize = 4096;

const MAX_LABEL_BYTES: usize = 200;

/// The header of a hibernated session. Its fields are untrusted: any program may have written them. Resuming checks
/// the fields against the image and the policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct HibernatedInfo {
    /// The session's image: the SHA-256 of the prepared module, in hexadecimal.
    pub image_sha256: String,
    /// The runtime's name.
    pub runtime: String,
    /// The interpreter's version.
    pub version: Option<String>,
    /// The language of the session's scripts.
    pub language: Language,
    /// The number of executions so far.
    pub executions: u64,
    /// The size of the linear memory, in bytes.
    pub memory_bytes: u64,
    /// The number of 4 KiB pages that differ from the image.
    pub page_count: u32,
    /// The size of the WASI state including the files, in bytes.
    pub wasi_bytes: u64,
}

impl HibernatedInfo {
    /// The number of bytes that always contain the whole header.
    pub const START_BYTES: u64 = (PRELUDE_BYTES + MAX_HEADER_BYTES) as u64;

    /// Reads the header from the first [`START_BYTES`](Self::START_BYTES) of a hibernated session, or from all of its
    /// bytes if there are fewer. A program can thus reject invalid bytes before it has received all of them.
    ///
    /// # Errors
    /// Fails like [`read`](Self::read), but does not require the seal.
    pub fn read_start(start: &[u8]) -> Result<Self, ResumeError> {
        Ok(Head::split(start)?.info)
    }

    /// Reads a hibernated session's header, without decompressing the body or verifying the seal.
    ///
    /// # Errors
    /// Fails if the bytes are not a hibernated session, use a different format version, have an invalid header, or are
    /// too short for a seal.
    pub fn read(bytes: &[u8]) -> Result<Self, ResumeError> {
        Ok(Envelope::split(bytes)?.info)
    }

    pub(super) fn new(image: &ImageView<'_>, saved: &SavedSession) -> Self {
        Self {
            image_sha256: image.identity.to_owned(),
            // A custom binary's name is a path, which may contain any text and would reveal details of the machine.
            runtime: if is_label(image.runtime) { image.runtime.to_owned() } else { "custom".to_owned() },
            version: image.version.map(str::to_owned),
            language: image.language,
            executions: saved.executions,
            memory_bytes: saved.memory_bytes,
            page_count: u32::try_from(saved.pages.count()).unwrap_or(u32::MAX),
            wasi_bytes: saved.wasi.len() as u64,
        }
    }

    /// Checks the invariants that do not depend on the image.
    fn check(&self) -> Result<(), ResumeError> {
        let wrong = |reason: &'static str| Err(ResumeError::Damaged { reason: reason.into() });
        let is_digest = |text: &str| {
            text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        };
        if !is_digest(&self.image_sha256) {
            return wrong("its image identity is not a SHA-256 digest");
        }
        // The labels appear in messages and therefore on terminals.
        if !is_label(&self.runtime) || !self.version.as_deref().is_none_or(is_label) {
            return wrong("its runtime's name is invalid");
        }
        if !self.memory_bytes.is_multiple_of(MEMORY_UNIT_BYTES) {
            return wrong("its memory is not a multiple of 64 KiB");
        }
        if u64::from(self.page_count) > self.memory_bytes / PAGE_BYTES as u64 {
            return wrong("it lists more pages than its memory contains");
        }
        Ok(())
    }
}

fn is_label(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+".contains(&byte);
    !text.is_empty() && text.len() <= MAX_LABEL_BYTES && text.bytes().all(plain)
}

/// Returns the bytes before the body.
pub(super) fn head(info: &HibernatedInfo, seal: SealKind) -> Vec<u8> {
    // Serialization cannot fail, because the header consists of strings and numbers.
    let header = serde_json::to_vec(info).unwrap_or_default();
    let mut head = Vec::with_capacity(PRELUDE_BYTES + header.len());
    head.extend_from_slice(MAGIC);
    head.extend_from_slice(&VERSION.to_le_bytes());
    head.extend_from_slice(&[seal as u8, 0]);
    head.extend_from_slice(&u32::try_from(header.len()).unwrap_or(u32::MAX).to_le_bytes());
    head.extend_from_slice(&header);
    head
}

/// The parts of a hibernated session, with the body still compressed.
#[derive(Debug)]
pub(super) struct Envelope<'a> {
    pub(super) info: HibernatedInfo,
    pub(super) seal: SealKind,
    /// The bytes that the seal covers.
    pub(super) sealed: &'a [u8],
    pub(super) body: &'a [u8],
    pub(super) trailer: &'a [u8; SEAL_BYTES],
}

/// The parsed header, and the bytes after it.
struct Head<'a> {
    info: HibernatedInfo,
    seal: SealKind,
    rest: &'a [u8],
}

fn truncated() -> ResumeError {
    ResumeError::Damaged { reason: "it is truncated".into() }
}

impl<'a> Head<'a> {
    fn split(bytes: &'a [u8]) -> Result<Self, ResumeError> {
        let (magic, rest) = bytes.split_first_chunk().ok_or(ResumeError::NotASession)?;
        if magic != MAGIC {
            return Err(ResumeError::NotASession);
        }
        let (version, rest) = rest.split_first_chunk().ok_or_else(truncated)?;
        let version = u16::from_le_bytes(*version);
        if version != VERSION {
            return Err(ResumeError::Version { found: version, known: VERSION });
        }
        let ([seal, reserved], rest) = rest.split_first_chunk().ok_or_else(truncated)?;
        let seal = SealKind::from_byte(*seal).filter(|_| *reserved == 0);
        let seal = seal.ok_or_else(|| ResumeError::Damaged { reason: "its seal has an unknown type".into() })?;
        let (length, rest) = rest.split_first_chunk().ok_or_else(truncated)?;
        let length = u32::from_le_bytes(*length) as usize;
        if length > MAX_HEADER_BYTES {
            return Err(ResumeError::Damaged { reason: "its header is too long".into() });
        }
        let (header, rest) = rest.split_at_checked(length).ok_or_else(truncated)?;
        let info: HibernatedInfo = serde_json::from_slice(header).map_err(|_| ResumeError::Damaged {
            reason: "its header is not valid JSON, or has a missing or invalid field".into(),
        })?;
        info.check()?;
        Ok(Self { info, seal, rest })
    }
}

impl<'a> Envelope<'a> {
    /// Splits the bytes into their parts and parses the header.
    pub(super) fn split(bytes: &'a [u8]) -> Result<Self, ResumeError> {
        let Head { info, seal, rest } = Head::split(bytes)?;
        let (body, trailer) = rest.split_last_chunk().ok_or_else(truncated)?;
        let sealed = bytes.len().checked_sub(trailer.len()).and_then(|end| bytes.get(..end)).ok_or_else(truncated)?;
        Ok(Self { info, seal, sealed, body, trailer })
    }
}

/// The size of a seal in bytes, equal for both types.
pub const SEAL_BYTES: usize = 32;

/// A key for sealing hibernated sessions and suspended executions with HMAC-SHA-256. A program with a key resumes only
/// sessions and executions that were sealed with this key.
///
/// The key authenticates but does not encrypt: the sealed content is readable without the key.
#[derive(Clone)]
pub struct SessionKey([u8; Self::MAX_BYTES]);

/// A session key of invalid length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the session key is {bytes} bytes long; use {} to {} random bytes",
    SessionKey::MIN_BYTES,
    SessionKey::MAX_BYTES
)]
pub struct KeyError {
    /// The length of the rejected bytes.
    pub bytes: usize,
}

impl SessionKey {
    /// The minimum length of a key in bytes: the length of the authentication code.
    pub const MIN_BYTES: usize = 32;
    /// The maximum length of a key in bytes: the block size of SHA-256. A longer key would not be stronger.
    pub const MAX_BYTES: usize = 64;

    /// Creates a key from random bytes. A password is not random enough.
    ///
    /// # Errors
    /// Fails if the length is below [`MIN_BYTES`](Self::MIN_BYTES) or above [`MAX_BYTES`](Self::MAX_BYTES).
    pub fn new(bytes: &[u8]) -> Result<Self, KeyError> {
        let wrong = KeyError { bytes: bytes.len() };
        let mut block = [0; Self::MAX_BYTES];
        // HMAC pads a short key with zeros (RFC 2104, section 2).
        let start = block.get_mut(..bytes.len()).filter(|start| start.len() >= Self::MIN_BYTES).ok_or(wrong)?;
        start.copy_from_slice(bytes);
        Ok(Self(block))
    }

    /// Derives a key for another purpose: bytes sealed with one key are invalid with the other. The derived key is the
    /// seal of an empty message under the name `purpose`. `purpose` must contain a space, so that it cannot equal a
    /// session ID.
    pub fn derived(&self, purpose: &str) -> Self {
        let mut block = [0; Self::MAX_BYTES];
        let seal = Seal::new(Some(self), purpose).finish();
        block.iter_mut().zip(seal).for_each(|(to, from)| *to = from);
        Self(block)
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey(..)")
    }
}

/// The seal's type, as encoded in the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SealKind {
    /// Detects damage only.
    Sha256 = 1,
    /// Detects forgery, if the key is secret.
    HmacSha256 = 2,
}

impl SealKind {
    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        [Self::Sha256, Self::HmacSha256].into_iter().find(|kind| *kind as u8 == byte)
    }

    pub(super) fn of(key: Option<&SessionKey>) -> Self {
        if key.is_some() { Self::HmacSha256 } else { Self::Sha256 }
    }
}

/// A partly computed seal.
#[derive(Debug)]
pub enum Seal {
    /// Detects damage only.
    Sha256(Sha256),
    /// Detects forgery, if the key is secret.
    HmacSha256(Box<Hmac<Sha256>>),
}

impl Seal {
    /// Starts a seal. With a key, the seal also covers `bound_to`: bytes sealed under one name are invalid under any
    /// other name.
    pub fn new(key: Option<&SessionKey>, bound_to: &str) -> Self {
        let Some(SessionKey(key)) = key else { return Self::Sha256(Sha256::new()) };
        let mut code = Hmac::<Sha256>::new(key.into());
        code.update(&(bound_to.len() as u64).to_le_bytes());
        code.update(bound_to.as_bytes());
        Self::HmacSha256(Box::new(code))
    }

    /// Adds bytes that the seal covers.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(digest) => Digest::update(digest, bytes),
            Self::HmacSha256(code) => code.update(bytes),
        }
    }

    /// Returns the seal over all added bytes.
    pub fn finish(self) -> [u8; SEAL_BYTES] {
        match self {
            Self::Sha256(digest) => digest.finalize().into(),
            Self::HmacSha256(code) => code.finalize().into_bytes().into(),
        }
    }

    /// Verifies the seal, in constant time if it is an authentication code.
    pub fn verify(self, trailer: &[u8; SEAL_BYTES]) -> bool {
        match self {
            Self::Sha256(digest) => digest.finalize().as_slice() == trailer,
            Self::HmacSha256(code) => code.verify_slice(trailer).is_ok(),
        }
    }
}
