//! The bytes of suspended executions and recordings: a head, a body in the postcard format, and a seal.
//!
//! The bytes are untrusted. An encoded entry of a recording can be one byte long, but takes about a hundred bytes in
//! memory. Decoding therefore limits the number of entries and calls.

use std::{borrow::Cow, sync::Arc, time::Duration};

use glovebox_core::{
    at_most, check_json,
    hibernate::{SEAL_BYTES, Seal},
    journal::{CallEnded, JournalEntry, MAX_ENTRIES, Recording, SuspendedAt, SuspendedCalls, UnansweredCall},
};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, Error as _},
};

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

/// The fields of [`SuspendedAt`] and of its [`SuspendedCalls`]. `C` decodes the unanswered calls, and `T` the times.
#[derive(Deserialize)]
pub(super) struct StateFields<C, T> {
    fuel_used: u64,
    output_bytes: [u64; 2],
    elapsed: Duration,
    monotonic_ns: u64,
    pub(super) unanswered: C,
    queued: usize,
    pub(super) times: T,
}

#[derive(Deserialize)]
struct LimitedRecording {
    at: StateFields<LimitedList<UnansweredCall>, LimitedList<Duration>>,
    entries: LimitedList<JournalEntry>,
}

/// Decodes and checks the value of `context`.
pub(in crate::exec) fn checked_context<'de, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Cow<'a, str>>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    check_context(text.as_deref()).map_err(D::Error::custom)?;
    Ok(text.map(Cow::Owned))
}

/// Fails if [`checked_context`] would reject this value of `context`.
pub(in crate::exec) fn check_context(text: Option<&str>) -> Result<(), String> {
    text.map_or(Ok(()), check_json)
}

pub(super) fn recording<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Recording>, D::Error> {
    let LimitedRecording { at, entries: LimitedList(entries) } = LimitedRecording::deserialize(deserializer)?;
    let StateFields { fuel_used, output_bytes, elapsed, monotonic_ns, unanswered, queued, times } = at;
    let (LimitedList(unanswered), LimitedList(times)) = (unanswered, times);
    let is_valid = |entry: &JournalEntry| match entry {
        JournalEntry::CallEnded(CallEnded { answer: Ok(text), .. }) => check_json(text).is_ok(),
        _ => true,
    };
    if !entries.iter().all(is_valid) || !unanswered.iter().all(|call| check_json(&call.arguments).is_ok()) {
        return Err(D::Error::custom("an answer or an argument is not JSON"));
    }
    let calls = SuspendedCalls { unanswered, queued, times };
    let at = SuspendedAt { fuel_used, output_bytes, elapsed, monotonic_ns, calls };
    Ok(Arc::new(Recording { at, entries }))
}

/// A list of at most [`MAX_ENTRIES`] elements.
struct LimitedList<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for LimitedList<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        at_most::<_, T, Vec<T>, MAX_ENTRIES>(deserializer).map(Self)
    }
}
