//! Decodes a recording from untrusted bytes. An encoded entry can be one byte long, but takes about a hundred bytes in
//! memory. Decoding therefore limits the number of entries and calls.

use std::{borrow::Cow, sync::Arc, time::Duration};

use glovebox_core::{
    at_most, check_json,
    journal::{CallEnded, JournalEntry, MAX_ENTRIES, Recording, SuspendedAt, SuspendedCalls, UnansweredCall},
};
use serde::{Deserialize, Deserializer, de::Error as _};

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
