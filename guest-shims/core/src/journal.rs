//! The journal of an execution: the guest's nondeterministic inputs, in order. If a guest starts in the same state and
//! receives the same entries, it repeats the execution exactly, down to the unit of fuel.
//!
//! An execution is suspended at a point where it waits for its caller's answers. To resume the execution, another guest
//! replays the journal up to that point ([`Journal::replay`]), without calling tools, and then continues. The journal
//! also continues, so a resumed execution can be suspended again.
//!
//! After an execution has ended, its journal can be used to replay the whole execution ([`Journal::whole`]).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Limits, tools::Answer};

/// The maximum size of a journal, in bytes. [`Limits::journal_bytes`] can lower this maximum.
pub const JOURNAL_BYTES: u64 = Limits::MAX_JOURNAL_BYTES;

/// The size that is counted for each entry in addition to its content, in bytes.
const ENTRY_BYTES: u64 = 16;

/// The maximum number of entries in a journal, and of calls in a suspendable execution.
pub const MAX_ENTRIES: usize = 1 << 16;

/// An input of the guest: a value or an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JournalEntry {
    /// A reading of the wall clock, in nanoseconds since 1970.
    Realtime(u64),
    /// A reading of the monotonic clock, in nanoseconds since its value when the execution started.
    Monotonic(u64),
    /// Random bytes.
    Random(Vec<u8>),
    /// Standard input that was not provided in advance; `None` at the end of the input.
    Stdin(Option<Vec<u8>>),
    /// The end of a sleep.
    Slept,
    /// The end of a tool call.
    CallEnded(CallEnded),
    /// A read from the tool device; `true` if it returned a reply.
    Received(bool),
}

/// The end of a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallEnded {
    /// The call's position in the execution, from 0.
    pub index: usize,
    /// The result as JSON text, or the failure.
    pub answer: Answer,
    /// `true` if the tool answered. Otherwise, the call failed to start or exceeded its timeout.
    pub has_run: bool,
    /// `true` if the call counts towards the maximum number of calls to its tool.
    pub is_counted: bool,
    /// The time of the end, relative to the start of the execution and without suspensions.
    pub ended: Duration,
    /// The number of earlier replies that answered a message directly, without a call. A replay ends the call after the
    /// same number of these replies, so that the order of all replies is preserved.
    pub own_replies: u64,
}

impl JournalEntry {
    fn bytes(&self) -> u64 {
        let texts = match self {
            Self::Random(bytes) | Self::Stdin(Some(bytes)) => bytes.len(),
            Self::CallEnded(CallEnded { answer, .. }) => {
                answer.as_ref().map_or_else(|no| no.message.len(), String::len)
            }
            Self::Realtime(_) | Self::Monotonic(_) | Self::Stdin(None) | Self::Slept | Self::Received(_) => 0,
        };
        ENTRY_BYTES.saturating_add(texts as u64)
    }
}

/// The state of an execution at the point where it was suspended. A replayed execution must reach the same state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspendedAt {
    /// The fuel used so far.
    pub fuel_used: u64,
    /// The number of bytes written to standard output and standard error.
    pub output_bytes: [u64; 2],
    /// The duration of the execution, without suspensions.
    pub elapsed: Duration,
    /// The monotonic clock, in nanoseconds since its value when the execution started.
    pub monotonic_ns: u64,
    /// The tool calls.
    pub calls: SuspendedCalls,
}

/// The tool calls of an execution at the point where it was suspended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspendedCalls {
    /// The unanswered calls in the order in which the script made them.
    pub unanswered: Vec<UnansweredCall>,
    /// The number of further calls, which were still in the queue.
    pub queued: usize,
    /// The times of all calls of the execution, relative to its start and without suspensions.
    pub times: Vec<Duration>,
}

/// A tool call that waits for the caller's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnansweredCall {
    /// The call's position in the execution, from 0.
    pub index: usize,
    /// The tool's name.
    pub name: String,
    /// The arguments as JSON text.
    pub arguments: String,
}

/// The entries up to the point of suspension, and the state at that point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// The state at the end of the entries.
    pub at: SuspendedAt,
    /// The entries, oldest first.
    pub entries: Vec<JournalEntry>,
}

/// The reason why an execution cannot be suspended now. The script continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SuspendRefusal {
    /// The journal exceeds its maximum size, or the script has made too many tool calls.
    #[error(
        "the script received more than `limits.journal_bytes` bytes of input (tool results, standard input, random \
         numbers, clock readings and sleeps, plus {ENTRY_BYTES} bytes each), or made more than {MAX_ENTRIES} tool calls; \
         let it finish, then return less from its tools, or call tools and clocks less often"
    )]
    JournalFull,
    /// A limit or a cancellation has interrupted the script.
    #[error("a limit or a cancellation has interrupted the script; let it finish")]
    Interrupted,
    /// A tool's handler is running, and its effect might be lost.
    #[error("a tool's handler is running; suspend the execution after it has returned")]
    HandlerRuns,
}

/// A recorder of a guest's inputs, or a recording that is being replayed.
#[derive(Debug)]
pub struct Journal {
    /// `None` if the journal would exceed its maximum size.
    entries: Option<Vec<JournalEntry>>,
    bytes: u64,
    max_bytes: u64,
    /// The position of the next entry to replay. While recording, the number of entries.
    repeated: usize,
    /// The state that the replayed execution must reach; `None` while recording.
    until: Option<SuspendedAt>,
    /// `true` if the recorded execution has ended, so that nothing follows its last entry.
    is_whole: bool,
    /// The first difference from the recording.
    difference: Option<String>,
    /// The fuel at the start of the current call into the guest.
    fuel_at_start: u64,
    output_bytes: [u64; 2],
    /// The value of the monotonic clock when the execution started, in nanoseconds since the start of the instance.
    pub(crate) origin_ns: u64,
    /// `true` once the execution has been suspended.
    pub(crate) is_suspended: bool,
    /// The duration of the replay, which does not count towards the execution's time.
    pub(crate) repeating: Duration,
}

impl Journal {
    /// Starts a recording.
    pub fn record() -> Self {
        Self {
            entries: Some(Vec::new()),
            bytes: 0,
            max_bytes: JOURNAL_BYTES,
            repeated: 0,
            until: None,
            is_whole: false,
            difference: None,
            fuel_at_start: 0,
            output_bytes: [0; 2],
            origin_ns: 0,
            is_suspended: false,
            repeating: Duration::ZERO,
        }
    }

    /// Sets the maximum size of the journal, in bytes. Default and maximum: [`JOURNAL_BYTES`].
    #[must_use]
    pub fn with_max_bytes(self, max_bytes: u64) -> Self {
        Self { max_bytes: max_bytes.min(JOURNAL_BYTES), ..self }
    }

    /// Sets the value of the monotonic clock when the execution starts, in nanoseconds since the start of the instance.
    /// Default: 0, for an execution in a new instance.
    #[must_use]
    pub fn with_origin(self, origin_ns: u64) -> Self {
        Self { origin_ns, ..self }
    }

    /// Creates a journal that replays a recording and then continues it.
    pub fn replay(recording: Recording) -> Self {
        let Recording { entries, at } = recording;
        let bytes = entries.iter().map(JournalEntry::bytes).sum();
        Self { entries: Some(entries), bytes, until: Some(at), ..Self::record() }
    }

    /// Marks the recorded execution as ended, so that a replay never continues with new values.
    #[must_use]
    pub fn whole(self) -> Self {
        Self { is_whole: true, ..self }
    }

    /// Returns `true` if the replayed execution must end where its recording ends.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Returns `true` if an entry has not been replayed. Ends of tool calls do not count: a script can end without
    /// reading the replies.
    pub(crate) fn has_unreceived(&self) -> bool {
        let mut rest = self.entries.iter().flatten().skip(self.repeated);
        rest.any(|entry| !matches!(entry, JournalEntry::CallEnded(_)))
    }

    /// Returns the state that the replayed execution must reach; `None` while recording.
    pub(crate) fn resumption_point(&self) -> Option<&SuspendedAt> {
        self.until.as_ref()
    }

    /// Returns `true` while a recording is being replayed.
    pub(crate) fn is_repeating(&self) -> bool {
        self.until.is_some()
    }

    /// Returns the first difference from the recording.
    pub(crate) fn difference(&self) -> Option<&str> {
        self.difference.as_deref()
    }

    /// Notes a difference from the recording. Only the first difference is retained.
    pub(crate) fn differ(&mut self, what: impl Into<String>) {
        self.difference.get_or_insert_with(|| what.into());
    }

    /// Sets the fuel at the start of a call into the guest.
    pub(crate) fn begin(&mut self, fuel: u64) {
        self.fuel_at_start = fuel;
    }

    pub(crate) fn output(&mut self, stream: usize, bytes: usize) {
        if let Some(sum) = self.output_bytes.get_mut(stream) {
            *sum = sum.saturating_add(bytes as u64);
        }
    }

    pub(crate) fn push(&mut self, entry: JournalEntry) {
        self.bytes = self.bytes.saturating_add(entry.bytes());
        if self.bytes > self.max_bytes {
            self.entries = None;
        }
        if let Some(entries) = &mut self.entries {
            entries.push(entry);
            self.repeated = entries.len();
        }
    }

    /// Returns the next entry to replay; `None` at the end of the recording.
    pub(crate) fn next(&self) -> Option<&JournalEntry> {
        self.entries.as_ref()?.get(self.repeated)
    }

    /// Skips the entry that [`next`](Self::next) returns.
    pub(crate) fn advance(&mut self) {
        self.repeated += 1;
    }

    /// Replays the next entry if `pick` accepts it. Otherwise, notes a difference and returns `None`.
    pub(crate) fn repeat<T>(&mut self, what: &str, pick: impl FnOnce(&JournalEntry) -> Option<T>) -> Option<T> {
        let picked = self.next().and_then(pick);
        match picked {
            Some(_) => self.advance(),
            None => self.differ(format!("the script {what}, unlike in the first run")),
        }
        picked
    }

    /// Compares the state at the end of the recording with the recorded state.
    pub(crate) fn compare(&mut self, fuel_left: u64, calls: &SuspendedCalls) {
        let fuel_used = self.fuel_used(fuel_left);
        let Some(at) = &self.until else { return };
        let difference = if (&at.calls.unanswered, at.calls.queued) != (&calls.unanswered, calls.queued) {
            "the script waits for different tool calls".to_owned()
        } else if at.calls.times.len() != calls.times.len() {
            format!("the number of tool calls is {} instead of {}", calls.times.len(), at.calls.times.len())
        } else if at.output_bytes != self.output_bytes {
            let ([stdout, stderr], [old_stdout, old_stderr]) = (self.output_bytes, at.output_bytes);
            format!(
                "the script wrote {stdout} bytes to standard output and {stderr} to standard error instead of {old_stdout} \
                 and {old_stderr}"
            )
        } else if at.fuel_used != fuel_used {
            format!("the script used {fuel_used} units of fuel instead of {}", at.fuel_used)
        } else {
            return;
        };
        self.differ(difference);
    }

    /// Ends the replay and starts recording.
    pub(crate) fn start_recording(&mut self, repeating: Duration) {
        self.until = None;
        self.repeating = repeating;
    }

    /// Returns the recording up to now, or the reason why the execution cannot be suspended. `elapsed` includes the
    /// duration of a replay.
    pub(crate) fn suspend(
        &mut self,
        fuel_left: u64,
        elapsed: Duration,
        monotonic_ns: u64,
        calls: SuspendedCalls,
    ) -> Result<Recording, SuspendRefusal> {
        let fuel_used = self.fuel_used(fuel_left);
        // The recording of a resumed execution may already exceed the limit.
        if calls.times.len() > MAX_ENTRIES || self.bytes > self.max_bytes {
            return Err(SuspendRefusal::JournalFull);
        }
        let entries = self.entries.take().ok_or(SuspendRefusal::JournalFull)?;
        self.is_suspended = true;
        let elapsed = elapsed.saturating_sub(self.repeating);
        let monotonic_ns = monotonic_ns.saturating_sub(self.origin_ns);
        let at = SuspendedAt { fuel_used, output_bytes: self.output_bytes, elapsed, monotonic_ns, calls };
        Ok(Recording { entries, at })
    }

    /// Returns the recording of an execution that has ended, or `None` if the journal has exceeded its maximum size.
    pub(crate) fn finish(&mut self, fuel_used: u64, elapsed: Duration) -> Option<Recording> {
        let entries = self.entries.take()?;
        let (output_bytes, calls) = (self.output_bytes, Default::default());
        Some(Recording { entries, at: SuspendedAt { fuel_used, output_bytes, elapsed, monotonic_ns: 0, calls } })
    }

    fn fuel_used(&self, fuel_left: u64) -> u64 {
        self.fuel_at_start.saturating_sub(fuel_left)
    }
}

/// Each entry counts as at least [`ENTRY_BYTES`], so a journal within its maximum size has at most [`MAX_ENTRIES`].
const _: () = assert!(JOURNAL_BYTES / ENTRY_BYTES == MAX_ENTRIES as u64);

#[cfg(test)]
mod tests {
    use super::*;

    fn suspend(journal: &mut Journal) -> Result<Recording, SuspendRefusal> {
        journal.suspend(0, Duration::ZERO, 0, SuspendedCalls::default())
    }

    #[test]
    fn journal_is_full_above_its_maximum_size() {
        for (bytes, fits) in [(83, true), (84, true), (85, false)] {
            let mut journal = Journal::record().with_max_bytes(116);
            journal.push(JournalEntry::Slept);
            journal.push(JournalEntry::Random(vec![0; bytes]));
            assert_eq!(
                suspend(&mut journal).map(|recording| recording.entries.len()).ok(),
                fits.then_some(2),
                "{bytes}"
            );
        }
        for (max_bytes, fits) in [(15, false), (16, true), (u64::MAX, true)] {
            let mut journal = Journal::record().with_max_bytes(max_bytes);
            journal.push(JournalEntry::Slept);
            assert_eq!(suspend(&mut journal).is_ok(), fits, "{max_bytes}");
        }
        let mut empty = Journal::record().with_max_bytes(0);
        assert!(suspend(&mut empty).is_ok(), "nothing was received");
        let mut longest = Journal::record().with_max_bytes(u64::MAX);
        longest.push(JournalEntry::Random(vec![0; 1 << 20]));
        assert_eq!(suspend(&mut longest), Err(SuspendRefusal::JournalFull), "a limit cannot raise the maximum");
    }

    #[test]
    fn number_of_calls_is_limited() {
        for (count, fits) in [(MAX_ENTRIES - 1, true), (MAX_ENTRIES, true), (MAX_ENTRIES + 1, false)] {
            let calls = SuspendedCalls { times: vec![Duration::ZERO; count], ..SuspendedCalls::default() };
            let suspended = Journal::record().suspend(0, Duration::ZERO, 0, calls);
            assert_eq!(suspended.err(), (!fits).then_some(SuspendRefusal::JournalFull), "{count}");
        }
    }

    #[test]
    fn resumed_execution_has_the_limit_of_its_own_policy() {
        let mut journal = Journal::record();
        (0..10).for_each(|_| journal.push(JournalEntry::Slept));
        let recording = suspend(&mut journal).unwrap();
        for (max_bytes, fits) in [(159, false), (160, true), (161, true)] {
            let mut resumed = Journal::replay(recording.clone()).with_max_bytes(max_bytes);
            (0..10).for_each(|_| resumed.advance());
            resumed.start_recording(Duration::ZERO);
            assert_eq!(suspend(&mut resumed).is_ok(), fits, "{max_bytes}");
        }
    }
}
