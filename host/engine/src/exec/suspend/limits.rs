//! Decodes a recording from untrusted bytes. An entry takes as little as one byte in the encoded form and about a
//! hundred in memory, so the number of entries and calls is limited while they are decoded.

use std::{borrow::Cow, fmt, marker::PhantomData, sync::Arc, time::Duration};

use glovebox_core::{
    check_json,
    journal::{CallEnded, JournalEntry, MAX_ENTRIES, Recording, SuspendedAt, SuspendedCalls, UnansweredCall},
};
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, SeqAccess, Visitor},
};

#[derive(Deserialize)]
struct LimitedRecording {
    at: LimitedState,
    #[serde(deserialize_with = "list")]
    entries: Vec<JournalEntry>,
}

/// The fields of [`SuspendedAt`].
#[derive(Deserialize)]
struct LimitedState {
    fuel_used: u64,
    output_bytes: [u64; 2],
    elapsed: Duration,
    monotonic_ns: u64,
    calls: LimitedCalls,
}

/// The fields of [`SuspendedCalls`].
#[derive(Deserialize)]
struct LimitedCalls {
    #[serde(deserialize_with = "list")]
    unanswered: Vec<UnansweredCall>,
    queued: usize,
    #[serde(deserialize_with = "list")]
    times: Vec<Duration>,
}

/// Decodes and checks the value of `context`.
pub(in crate::exec) fn checked_context<'de, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Cow<'a, str>>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    check_context(text.as_deref()).map_err(D::Error::custom)?;
    Ok(text.map(Cow::Owned))
}

/// Fails if bytes with this value of `context` could not be decoded.
pub(in crate::exec) fn check_context(text: Option<&str>) -> Result<(), String> {
    text.map_or(Ok(()), check_json)
}

pub(super) fn recording<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Recording>, D::Error> {
    let LimitedRecording { at, entries } = LimitedRecording::deserialize(deserializer)?;
    let LimitedState { fuel_used, output_bytes, elapsed, monotonic_ns, calls } = at;
    let LimitedCalls { unanswered, queued, times } = calls;
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

fn list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_seq(LimitedList(PhantomData))
}

struct LimitedList<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for LimitedList<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {MAX_ENTRIES} elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = seq.next_element()? {
            if list.len() >= MAX_ENTRIES {
                return Err(A::Error::invalid_length(list.len() + 1, &self));
            }
            list.push(element);
        }
        Ok(list)
    }
}
