//! The bytes of suspended executions and recordings: a head, a body in the postcard format, and a seal.

use glovebox_core::hibernate::{SEAL_BYTES, Seal};
use serde::{Serialize, de::DeserializeOwned};

use crate::{SessionKey, SuspendedBytesError};

/// The size of the parts before the body, in bytes.
pub(super) const HEAD_BYTES: usize = 12;

/// Maximum size of a sealed value, in bytes.
pub(super) const MAX_BYTES: usize = 64 << 20;

/// A format of sealed bytes.
pub(super) struct SealedFormat {
    /// The bytes at the start of each sealed value.
    pub(super) magic: &'static [u8; 8],
    /// The description of bytes that do not start with `magic`, for errors.
    pub(super) wrong_magic: &'static str,
    pub(super) version: u16,
    /// The context of the seals, which distinguishes them from other seals with the same key.
    pub(super) bound_to: &'static str,
}

impl SealedFormat {
    /// Encodes a value, and seals it with a key or with a checksum.
    pub(super) fn seal(&self, value: &impl Serialize, key: Option<&SessionKey>) -> Vec<u8> {
        let mut bytes = self.magic.to_vec();
        bytes.extend_from_slice(&self.version.to_le_bytes());
        bytes.extend_from_slice(&[if key.is_some() { 2 } else { 1 }, 0]);
        // Infallible: writing to a vector cannot fail, and all types have a known length.
        let mut bytes = postcard::to_extend(value, bytes).unwrap_or_default();
        let mut seal = Seal::new(key, self.bound_to);
        seal.update(&bytes);
        bytes.extend_from_slice(&seal.finish());
        bytes
    }

    /// Checks the seal and decodes the value.
    pub(super) fn open<T: DeserializeOwned>(
        &self,
        bytes: &[u8],
        key: Option<&SessionKey>,
    ) -> Result<T, SuspendedBytesError> {
        let damaged = |reason| SuspendedBytesError::Damaged { reason };
        if bytes.len() > MAX_BYTES {
            return Err(damaged("they exceed 64 MiB"));
        }
        let (sealed, trailer) = bytes.split_last_chunk::<SEAL_BYTES>().ok_or_else(|| damaged("they are too short"))?;
        let (head, body) = sealed.split_first_chunk::<HEAD_BYTES>().ok_or_else(|| damaged("they are too short"))?;
        let [magic @ .., version, version_high, kind, reserved] = head;
        if magic != self.magic {
            return Err(damaged(self.wrong_magic));
        }
        if u16::from_le_bytes([*version, *version_high]) != self.version || *reserved != 0 {
            return Err(damaged("this version of Glovebox cannot read their format; use the version that wrote them"));
        }
        match (kind, key) {
            (1, Some(_)) => return Err(SuspendedBytesError::Unauthenticated),
            (2, None) => return Err(SuspendedBytesError::KeyMissing),
            (1 | 2, _) => {}
            _ => return Err(damaged("their seal has an unknown type")),
        }
        let mut seal = Seal::new(key, self.bound_to);
        seal.update(sealed);
        if !seal.verify(trailer) {
            return Err(match key {
                Some(_) => SuspendedBytesError::NotAuthentic,
                None => damaged("their checksum does not match"),
            });
        }
        match postcard::take_from_bytes(body) {
            Ok((value, [])) => Ok(value),
            _ => Err(damaged("their body cannot be decoded")),
        }
    }
}
