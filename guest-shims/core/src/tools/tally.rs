//! The count, limits, fuel cost and record of an execution's tool calls, and the host memory that they take from the
//! guest's memory limit.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::Value;

use super::{Answer, CallFailure, ToolErrorKind, ToolOutcome, ToolRecord};
use crate::Limits;

pub(super) const NO_ROOM: &str = "the arguments do not fit into the remaining `limits.memory_bytes`";

/// Maximum length of a tool's name in a record, in characters.
const MAX_NAME_CHARS: usize = 64;

/// The count and the record of one execution's tool calls. Times are relative to the start of the execution.
#[derive(Debug)]
pub(super) struct Tally {
    max_calls: u64,
    max_bytes: u64,
    counted: u64,
    refused: u64,
    records: Vec<ToolRecord>,
    /// The number of bytes left for the texts of further records.
    record_bytes_left: u64,
}

/// A counted and recorded call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StartedCall {
    /// The call's position in the execution, from 0.
    pub(super) index: usize,
    /// The size of the arguments as JSON text, in bytes.
    pub(super) bytes: u64,
}

/// The size of a call's arguments, and its maximum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// The size as JSON text, in bytes.
    pub(super) bytes: u64,
    /// The tool's own maximum in bytes; `None` for `limits.tool_bytes`.
    pub(super) max_bytes: Option<u64>,
}

impl Tally {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            max_calls: limits.tool_calls,
            max_bytes: limits.tool_bytes,
            counted: 0,
            refused: 0,
            records: Vec::new(),
            record_bytes_left: limits.tool_record_bytes,
        }
    }

    /// Returns the default maximum size of a result, in bytes: `limits.tool_bytes`.
    pub(super) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Counts a message that does not fit into the available memory, and returns its failure.
    pub(super) fn refuse(&mut self) -> CallFailure {
        self.refused += 1;
        CallFailure::new(ToolErrorKind::Limit, NO_ROOM)
    }

    /// Returns the number of refused calls, which have no record.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// Counts a call and records it as unfinished. Refuses the call if the number of calls would exceed the limit.
    pub(super) fn begin(&mut self, name: &str, arguments: &str, now: Duration) -> Result<StartedCall, CallFailure> {
        if self.counted >= self.max_calls {
            self.refused += 1;
            let message =
                format!("no more tool calls are allowed: the maximum `limits.tool_calls` is {}", self.max_calls);
            return Err(CallFailure::new(ToolErrorKind::Limit, message));
        }
        self.counted += 1;
        let call = StartedCall { index: self.records.len(), bytes: arguments.len() as u64 };
        let arguments = self.keep_within_limit(arguments);
        self.records.push(ToolRecord {
            name: name.chars().take(MAX_NAME_CHARS).collect(),
            arguments,
            outcome: ToolOutcome::Unfinished,
            started: now,
            duration: Duration::ZERO,
        });
        Ok(call)
    }

    /// Checks a call's tool, arguments and size. `tool` is the tool with this name, if it exists.
    pub(super) fn admit<T>(
        &self,
        name: &str,
        tool: Option<T>,
        arguments: &Value,
        size: Size,
    ) -> Result<T, CallFailure> {
        let tool = tool.ok_or_else(|| {
            let shown: String = name.chars().take(MAX_NAME_CHARS).collect();
            CallFailure::new(ToolErrorKind::Unknown, format!("unknown tool `{shown}`"))
        })?;
        let Size { bytes, max_bytes } = size;
        if bytes > max_bytes.unwrap_or(self.max_bytes) {
            let message = match max_bytes {
                Some(max) => format!("the arguments are {bytes} bytes; the maximum for `{name}` is {max}; send less"),
                None => format!(
                    "the arguments are {bytes} bytes; the maximum `limits.tool_bytes` is {}; send less or raise the limit",
                    self.max_bytes
                ),
            };
            return Err(CallFailure::new(ToolErrorKind::Limit, message));
        }
        if !arguments.is_object() {
            let message = "the arguments must be a JSON object";
            return Err(CallFailure::new(ToolErrorKind::InvalidArguments, message));
        }
        Ok(tool)
    }

    /// Records the outcome of a call.
    pub(super) fn finish(&mut self, index: usize, answer: &Answer, ended: Duration) {
        let outcome = match answer {
            Ok(result) => ToolOutcome::Returned(self.keep_within_limit(result)),
            Err(failure) => {
                ToolOutcome::Failed { kind: failure.kind, message: self.keep_within_limit(&failure.message) }
            }
        };
        self.end(index, outcome, ended);
    }

    /// Records that a call did not finish.
    pub(super) fn record_unfinished(&mut self, index: usize, now: Duration) {
        self.end(index, ToolOutcome::Unfinished, now);
    }

    fn end(&mut self, index: usize, outcome: ToolOutcome, ended: Duration) {
        if let Some(record) = self.records.get_mut(index) {
            record.outcome = outcome;
            record.duration = ended.saturating_sub(record.started);
        }
    }

    fn keep_within_limit(&mut self, text: &str) -> Option<String> {
        self.record_bytes_left = self.record_bytes_left.checked_sub(text.len() as u64)?;
        Some(text.to_owned())
    }

    pub(super) fn get(&self, index: usize) -> Option<&ToolRecord> {
        self.records.get(index)
    }

    /// Returns the number of recorded calls, which is the index of the next one.
    pub(super) fn recorded(&self) -> usize {
        self.records.len()
    }

    /// Returns the times of all recorded calls.
    pub(super) fn times(&self) -> Vec<Duration> {
        self.records.iter().map(|record| record.started).collect()
    }

    /// Takes the records of all calls.
    pub(super) fn take(&mut self) -> Vec<ToolRecord> {
        std::mem::take(&mut self.records)
    }
}

/// The fuel charged for each message to the tools, in addition to the charge for its length.
const MESSAGE_FUEL: u64 = 5_000;

/// The fuel charged per byte of a message. Reading a byte takes about 5 ns.
const MESSAGE_BYTE_FUEL: u64 = 64;

/// The fuel charged for a call, which includes starting a thread in the engine.
pub const CALL_FUEL: u64 = 300_000;

/// Returns the fuel to charge for a message of this length.
pub fn message_fuel(bytes: usize) -> u64 {
    MESSAGE_FUEL.saturating_add(MESSAGE_BYTE_FUEL.saturating_mul(bytes as u64))
}

/// The memory of tool calls, and its limit: the room that the guest's other usage leaves within the memory limit. Tool
/// threads reserve memory while the guest's own memory grows. Each side reserves first, then checks the total, and
/// releases its bytes if the total is too large. Only [`hold_over_limit`](Self::hold_over_limit) can exceed the limit.
#[derive(Debug, Default)]
pub struct ToolMemory {
    held_bytes: AtomicU64,
    room_bytes: AtomicU64,
}

/// Bytes charged to a [`ToolMemory`], released on drop.
#[derive(Debug)]
pub struct ReservedMemory {
    account: Arc<ToolMemory>,
    bytes: u64,
}

impl ReservedMemory {
    /// Returns the number of reserved bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for ReservedMemory {
    fn drop(&mut self) {
        self.account.held_bytes.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

impl ToolMemory {
    /// Returns the number of bytes that tool calls use now.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::SeqCst)
    }

    /// Sets the room, even if tool calls use more. Called only on the guest's thread.
    pub fn set_room(&self, bytes: u64) {
        self.room_bytes.store(bytes, Ordering::SeqCst);
    }

    /// Sets the room, unless tool calls use more. Returns `true` if the room was set. Called only on the guest's
    /// thread.
    pub fn try_set_room(&self, bytes: u64) -> bool {
        let before = self.room_bytes.swap(bytes, Ordering::SeqCst);
        if self.held_bytes() <= bytes {
            return true;
        }
        self.room_bytes.store(before, Ordering::SeqCst);
        false
    }

    /// Reserves `bytes`. Returns `None` if there is not enough room.
    pub fn hold(self: &Arc<Self>, bytes: u64) -> Option<ReservedMemory> {
        let before = self.held_bytes.fetch_add(bytes, Ordering::SeqCst);
        let held = ReservedMemory { account: Arc::clone(self), bytes };
        before.checked_add(bytes).is_some_and(|sum| sum <= self.room_bytes.load(Ordering::SeqCst)).then_some(held)
    }

    /// Reserves a few bytes, regardless of the room.
    pub fn hold_over_limit(self: &Arc<Self>, bytes: u64) -> ReservedMemory {
        self.held_bytes.fetch_add(bytes, Ordering::SeqCst);
        ReservedMemory { account: Arc::clone(self), bytes }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use serde_json::json;

    use super::*;

    fn tally(edit: impl FnOnce(&mut Limits)) -> Tally {
        let mut limits = Limits::default();
        edit(&mut limits);
        Tally::new(&limits)
    }

    #[test]
    fn tool_call_count_has_a_maximum() {
        let mut tally = tally(|limits| limits.tool_calls = 2);
        let arguments = "{}";
        for index in 0..2 {
            assert_eq!(tally.begin("a", arguments, Duration::ZERO), Ok(StartedCall { index, bytes: 2 }), "at");
        }
        assert_eq!(tally.begin("a", arguments, Duration::ZERO).unwrap_err().kind, ToolErrorKind::Limit, "over");
        assert_eq!((tally.refused(), tally.take().len()), (1, 2));
        assert_eq!(tally.refuse().message, NO_ROOM);
        assert_eq!(tally.refused(), 2);
    }

    #[test]
    fn arguments_must_be_an_object_within_the_limit() {
        let tally = tally(|limits| limits.tool_bytes = 10);
        let object = json!({});
        let kind = |tool, arguments, bytes| {
            let size = Size { bytes, max_bytes: None };
            tally.admit("a", tool, arguments, size).map_err(|failure| failure.kind)
        };
        assert_eq!(kind(None::<()>, &object, 1), Err(ToolErrorKind::Unknown));
        for (bytes, fits) in [(9, true), (10, true), (11, false)] {
            assert_eq!(kind(Some(()), &object, bytes), fits.then_some(()).ok_or(ToolErrorKind::Limit), "{bytes}");
        }
        assert_eq!(kind(Some(()), &json!([]), 2), Err(ToolErrorKind::InvalidArguments));
        for (bytes, fits) in [(11, true), (20, true), (21, false)] {
            let size = Size { bytes, max_bytes: Some(20) };
            assert_eq!(tally.admit("a", Some(()), &object, size).is_ok(), fits, "a tool with its own maximum: {bytes}");
        }
    }

    #[test]
    fn call_records_drop_contents_over_their_limit() {
        let now = Duration::from_secs(1);
        let mut tally = tally(|limits| limits.tool_record_bytes = 10);
        let first = tally.begin("a", "12345", now).unwrap().index;
        tally.finish(first, &Ok("6789".into()), now);
        let second = tally.begin("b", "12", now).unwrap().index;
        let third = tally.begin("c", "1", now).unwrap().index;
        let failure = CallFailure::new(ToolErrorKind::Failed, "x");
        tally.finish(second, &Err(failure), now);
        let list = tally.take();
        assert_eq!(list[0].outcome, ToolOutcome::Returned(Some("6789".into())), "under");
        assert_eq!(list[1].arguments, None, "over: 9 bytes were recorded, and 2 more would make 11");
        assert_eq!(list[third].arguments.as_deref(), Some("1"), "at");
        assert_eq!(list[1].outcome, ToolOutcome::Failed { kind: ToolErrorKind::Failed, message: None });
        assert_eq!(list[third].outcome, ToolOutcome::Unfinished);
    }

    #[test]
    fn call_record_serializes_all_fields() {
        let begun = Duration::from_millis(100);
        let mut tally = tally(|limits| limits.tool_record_bytes = 100);
        let first = tally.begin("a", "{\"x\":1}", begun).unwrap().index;
        tally.finish(first, &Ok("[2]".into()), begun + Duration::from_millis(5));
        let second = tally.begin(&"é".repeat(65), "{}", begun).unwrap().index;
        tally.finish(second, &Err(CallFailure::new(ToolErrorKind::Unknown, "no")), begun);
        let json = serde_json::to_value(tally.take()).unwrap();
        assert_eq!(json[0]["arguments"]["x"], 1);
        assert_eq!(json[0]["result"][0], 2);
        assert!(json[0]["error"].is_null());
        assert_eq!((&json[0]["started_ms"], &json[0]["duration_ms"]), (&100.0.into(), &5.0.into()));
        assert_eq!(json[1]["error"]["type"], "UnknownTool");
        assert_eq!(json[1]["error"]["message"], "no");
        assert_eq!(json[1]["name"].as_str().unwrap().chars().count(), 64);
    }

    #[test]
    fn held_bytes_are_limited() {
        let account = Arc::new(ToolMemory::default());
        account.set_room(100);
        let first = account.hold(99).unwrap();
        assert!(account.hold(2).is_none(), "over");
        let second = account.hold(1).expect("at");
        assert!(account.hold(u64::MAX).is_none(), "an overflowing sum exceeds any limit");
        drop(first);
        assert_eq!(account.held_bytes(), 1);
        assert!(account.hold(99).is_some(), "usable after");
        drop(second);
        assert_eq!(account.held_bytes(), 0);
    }

    #[test]
    fn room_never_shrinks_below_the_held_bytes() {
        let account = Arc::new(ToolMemory::default());
        account.set_room(100);
        let _held = account.hold(50).unwrap();
        assert!(account.try_set_room(51), "under");
        assert!(account.try_set_room(50), "at");
        assert!(!account.try_set_room(49), "over");
        assert!(account.hold(1).is_none(), "the room is unchanged");
    }

    #[test]
    fn concurrent_takes_stay_within_the_limit() {
        for _ in 0..2_000 {
            let account = Arc::new(ToolMemory::default());
            account.set_room(100);
            let taker = thread::spawn({
                let account = Arc::clone(&account);
                move || account.hold(60)
            });
            let shrunk = account.try_set_room(50);
            let held = taker.join().unwrap();
            assert!(!(shrunk && held.is_some()));
        }
    }
}
