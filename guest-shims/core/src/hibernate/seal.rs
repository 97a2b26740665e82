//! The seal of a hibernated session: a digest or an authentication code.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// The size of either seal in bytes.
pub(super) const SEAL_BYTES: usize = 32;

/// A key for sealing hibernated sessions (HMAC-SHA-256), so that only sessions sealed with it are resumed.
///
/// The key authenticates but does not encrypt: a session's content can be read from its bytes without the key.
#[derive(Clone)]
pub struct SessionKey([u8; Self::MAX_BYTES]);

/// A key of an invalid length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a session key cannot have {bytes} bytes; give {} to {} random ones",
    SessionKey::BYTES_LEAST,
    SessionKey::MAX_BYTES
)]
pub struct KeyError {
    /// The length of the given bytes.
    pub bytes: usize,
}

impl SessionKey {
    /// The minimum length of a key: that of the authentication code.
    pub const BYTES_LEAST: usize = 32;
    /// The maximum length of a key: the block size of SHA-256. A longer key would not be stronger.
    pub const MAX_BYTES: usize = 64;

    /// Creates a key from these bytes. They must be random; a password is not.
    ///
    /// # Errors
    /// The length is below [`BYTES_LEAST`](Self::BYTES_LEAST) or above [`MAX_BYTES`](Self::MAX_BYTES).
    pub fn new(bytes: &[u8]) -> Result<Self, KeyError> {
        let wrong = KeyError { bytes: bytes.len() };
        let mut block = [0; Self::MAX_BYTES];
        // HMAC pads a short key with zeros (RFC 2104, section 2).
        let start = block.get_mut(..bytes.len()).filter(|start| start.len() >= Self::BYTES_LEAST).ok_or(wrong)?;
        start.copy_from_slice(bytes);
        Ok(Self(block))
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey(..)")
    }
}

/// The type of seal, as encoded in the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SealKind {
    /// Detects damage only.
    Sha256 = 1,
    /// Detects forgery, with a key.
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

/// A seal being computed.
#[derive(Debug)]
pub(super) enum Seal {
    Sha256(Sha256),
    HmacSha256(Box<Hmac<Sha256>>),
}

impl Seal {
    /// Starts a seal. With a key, the code also covers `bound_to`, so bytes sealed under one name are invalid under any
    /// other.
    pub(super) fn new(key: Option<&SessionKey>, bound_to: &str) -> Self {
        let Some(SessionKey(key)) = key else { return Self::Sha256(Sha256::new()) };
        let mut code = Hmac::<Sha256>::new(key.into());
        code.update(&(bound_to.len() as u64).to_le_bytes());
        code.update(bound_to.as_bytes());
        Self::HmacSha256(Box::new(code))
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(digest) => Digest::update(digest, bytes),
            Self::HmacSha256(code) => code.update(bytes),
        }
    }

    pub(super) fn finish(self) -> [u8; SEAL_BYTES] {
        match self {
            Self::Sha256(digest) => digest.finalize().into(),
            Self::HmacSha256(code) => code.finalize().into_bytes().into(),
        }
    }

    /// Compares the seal. An authentication code is compared in constant time.
    pub(super) fn verify(self, trailer: &[u8; SEAL_BYTES]) -> bool {
        match self {
            Self::Sha256(digest) => digest.finalize().as_slice() == trailer,
            Self::HmacSha256(code) => code.verify_slice(trailer).is_ok(),
        }
    }
}
