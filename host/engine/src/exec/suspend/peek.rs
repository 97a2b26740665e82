//! Reads the beginning of a suspended execution's bytes without copying them.

use std::{fmt, marker::PhantomData, time::Duration};

use glovebox_core::journal::{JournalEntry, MAX_ENTRIES, UnansweredCall};
use serde::{
    Deserialize, Deserializer,
    de::{SeqAccess, Visitor},
};

use super::{
    Suspended,
    sealed::{HEAD_BYTES, StateFields},
};
use crate::SourceKind;

/// The memory that the texts of an entry or a call occupy in addition to their length, in bytes.
const TEXTS_BYTES: usize = 64;
/// The number of copies to count for each entry and call: two because the capacity of a growing list doubles, and one
/// for the journal.
const COPIES: usize = 3;

/// Facts about the bytes of a suspended execution. Neither the seal nor most of the content is checked, so the facts
/// are only as trustworthy as the bytes. Use them for a log, or to reserve memory before [`Suspended::from_bytes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UncheckedSuspended<'a> {
    /// The script's source.
    pub source: &'a str,
    /// Upper bound of the memory that the decoded execution occupies until the resumed script has ended, in bytes. The
    /// bound does not include the guest's memory.
    pub memory_bytes: usize,
}

/// The fields of [`Suspended`] up to the number of entries in its journal.
#[derive(Deserialize)]
struct Head<'a> {
    _image_sha256: &'a str,
    _runtime: &'a str,
    #[serde(borrow)]
    request: RequestHead<'a>,
    #[serde(borrow)]
    _session: Option<&'a [u8]>,
    /// An unanswered call consists of its index and two texts.
    #[serde(borrow)]
    at: StateFields<Count<(usize, &'a str, &'a str)>, Count<Duration>>,
    /// The length of the list of entries, which is encoded before the entries.
    entries: usize,
}

/// The fields of [`RequestParts`](crate::exec::request::RequestParts).
#[derive(Deserialize)]
struct RequestHead<'a> {
    source: &'a str,
    _name: &'a str,
    _kind: SourceKind,
    _stdin: &'a [u8],
    _has_stdin_source: bool,
    #[serde(borrow)]
    _context: Option<&'a str>,
    #[serde(borrow)]
    _session_id: Option<&'a str>,
    _wants_value: bool,
    _session_generation: Option<u64>,
}

/// The length of a list of `T`.
struct Count<T> {
    count: usize,
    items: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Count<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Self { count: 0, items: PhantomData })
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Count<T> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<T>()?.is_some() {
            self.count += 1;
        }
        Ok(self)
    }
}

impl Suspended {
    /// Reads facts from the bytes of [`to_bytes`](Self::to_bytes) without decoding them. Returns `None` if
    /// [`from_bytes`](Self::from_bytes) cannot decode the bytes. `from_bytes` may fail even if this function returns a
    /// value.
    #[must_use]
    pub fn peek(bytes: &[u8]) -> Option<UncheckedSuspended<'_>> {
        let (Head { request, at, entries, .. }, _) = postcard::take_from_bytes(bytes.get(HEAD_BYTES..)?).ok()?;
        // Decoding fails at the first element above `MAX_ENTRIES`.
        let list = |count: usize, size: usize| count.min(MAX_ENTRIES + 1) * (COPIES * size + TEXTS_BYTES);
        let entries = list(entries, size_of::<JournalEntry>());
        let calls = list(at.unanswered.count, size_of::<UnansweredCall>());
        let times = list(at.times.count, size_of::<Duration>());
        // The decoded texts, and the copies in the request and the journal.
        let texts = bytes.len().saturating_mul(2);
        Some(UncheckedSuspended { source: request.source, memory_bytes: texts.saturating_add(entries + calls + times) })
    }
}
