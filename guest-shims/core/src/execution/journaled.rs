//! The inputs of an execution. With a journal, the inputs are recorded or replayed. Without a journal, the inputs come
//! from the platform.

use std::{mem, time::Duration};

use glovebox_wasi::{Stop, Stream};

use super::{ExecutionCtx, Platform};
use crate::{
    LinearMemory, Watch as _,
    journal::{Journal, JournalEntry, Recording, SuspendRefusal},
    tools::NextReply,
};

impl<P: Platform> ExecutionCtx<P> {
    /// Sets the fuel at the start of a call into the guest.
    pub(crate) fn begin_fuel(&mut self, fuel: u64) {
        if let Some(journal) = &mut self.journal {
            journal.begin(fuel);
        }
    }

    /// Returns the duration of the execution, without the duration of a replay.
    pub(crate) fn duration(&self) -> Duration {
        let repeating = self.journal.as_ref().map_or(Duration::ZERO, |journal| journal.repeating);
        self.elapsed().saturating_sub(repeating)
    }

    /// Returns `true` while a recording is being replayed.
    pub(crate) fn is_repeating(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.is_repeating())
    }

    /// Replays an entry that `pick` accepts. Returns `None` if the guest must receive a new value instead.
    fn repeat<T: Default>(&mut self, what: &str, pick: impl FnOnce(&JournalEntry) -> Option<T>) -> Option<T> {
        self.repeat_ended_calls();
        let journal = self.journal.as_mut().filter(|journal| journal.is_repeating())?;
        // If the execution differs from the recording, it ends at the next deadline check, so the value does not
        // matter.
        Some(journal.repeat(what, pick).unwrap_or_default())
    }

    fn record(&mut self, entry: impl FnOnce() -> JournalEntry) {
        if let Some(journal) = &mut self.journal {
            journal.push(entry());
        }
    }

    /// Returns the wall-clock time in nanoseconds since 1970.
    pub(crate) fn realtime_ns(&mut self) -> u64 {
        let pick = |entry: &JournalEntry| if let JournalEntry::Realtime(ns) = entry { Some(*ns) } else { None };
        if let Some(ns) = self.repeat("reads the time", pick) {
            return ns;
        }
        let ns = self.platform.realtime_ns();
        self.record(|| JournalEntry::Realtime(ns));
        ns
    }

    /// Returns the monotonic time since the start of the instance, in nanoseconds.
    pub(crate) fn monotonic_ns(&mut self) -> u64 {
        let pick = |entry: &JournalEntry| if let JournalEntry::Monotonic(ns) = entry { Some(*ns) } else { None };
        if let Some(ns) = self.repeat("reads the monotonic clock", pick) {
            return ns;
        }
        let ns = self.age_ns();
        if let Some(journal) = &mut self.journal {
            journal.push(JournalEntry::Monotonic(ns.saturating_sub(journal.origin_ns)));
        }
        ns
    }

    pub(crate) fn fill_random(&mut self, into: &mut [u8]) {
        let expected = into.len();
        let pick = |entry: &JournalEntry| match entry {
            JournalEntry::Random(bytes) if bytes.len() == expected => Some(bytes.clone()),
            _ => None,
        };
        if let Some(bytes) = self.repeat("reads different random bytes", pick) {
            into.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
            return;
        }
        self.platform.fill_random(into);
        self.record(|| JournalEntry::Random(into.to_vec()));
    }

    /// Waits for standard input that was not provided in advance.
    pub(crate) fn stdin<M: LinearMemory + ?Sized>(
        &mut self,
        fuel_left: u64,
        memory: &mut M,
    ) -> Result<Option<Vec<u8>>, Stop> {
        let pick =
            |entry: &JournalEntry| if let JournalEntry::Stdin(bytes) = entry { Some(bytes.clone()) } else { None };
        if let Some(bytes) = self.repeat("reads standard input", pick) {
            self.platform.skip_stdin();
            return Ok(bytes);
        }
        let bytes = P::stdin(self, fuel_left, memory)?;
        self.record(|| JournalEntry::Stdin(bytes.clone()));
        Ok(bytes)
    }

    pub(crate) fn guest_sleep<M: LinearMemory + ?Sized>(
        &mut self,
        duration: Duration,
        fuel_left: u64,
        memory: &mut M,
    ) -> Result<(), Stop> {
        let pick = |entry: &JournalEntry| matches!(entry, JournalEntry::Slept).then_some(());
        if self.repeat("sleeps", pick).is_some() {
            return Ok(());
        }
        self.sleep(duration, fuel_left, memory)?;
        self.record(|| JournalEntry::Slept);
        Ok(())
    }

    /// Passes output to the platform, and counts it.
    pub(crate) fn output(&mut self, stream: Stream, bytes: &[u8]) {
        if stream == Stream::Stderr
            && let Some(held) = &mut self.held_stderr
        {
            held.extend_from_slice(bytes);
            return;
        }
        if let Some(journal) = &mut self.journal {
            journal.output(usize::from(stream == Stream::Stderr), bytes.len());
        }
        self.platform.output(stream, bytes);
    }

    /// Holds back standard error until [`release_stderr`](Self::release_stderr).
    pub(crate) fn hold_stderr(&mut self) {
        self.held_stderr = Some(Vec::new());
    }

    /// Releases the held-back output to standard error, or discards it.
    pub(crate) fn release_stderr(&mut self, is_discarded: bool) {
        let held = self.held_stderr.take().unwrap_or_default();
        if !is_discarded && !held.is_empty() {
            self.output(Stream::Stderr, &held);
        }
    }

    /// Records the tool calls that have ended. Fails if the execution differs from the recording that it replays.
    pub(super) fn journal_calls(&mut self) -> Result<(), Stop> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        if let Some(difference) = journal.difference() {
            self.platform.on_difference(difference);
            return Err(Stop::Cancelled);
        }
        if !journal.is_repeating()
            && let Some(tools) = &mut self.tools
        {
            tools.take_ended().into_iter().for_each(|end| journal.push(JournalEntry::CallEnded(end)));
        }
        Ok(())
    }

    /// Replays the ends of tool calls, up to the next entry of another type or the first call that the script has not
    /// made yet.
    pub(super) fn repeat_ended_calls(&mut self) {
        let (Some(journal), Some(tools)) = (&mut self.journal, &mut self.tools) else { return };
        if !journal.is_repeating() {
            return;
        }
        while let Some(JournalEntry::CallEnded(end)) = journal.next() {
            if !tools.repeat_end(end) {
                return;
            }
            journal.advance();
        }
    }

    /// Replays a read from the tool device. Returns `None` at the end of the recording, where the execution continues.
    pub(super) fn repeat_receive(&mut self, fuel_left: u64) -> Result<Option<Option<String>>, Stop> {
        if !self.is_repeating() {
            return Ok(None);
        }
        self.repeat_ended_calls();
        let (Some(journal), Some(tools)) = (&mut self.journal, &mut self.tools) else { return Ok(None) };
        if journal.next().is_none() && !journal.is_whole() {
            tools.requeue(journal.resumption_point().map_or(0, |at| at.calls.queued));
            journal.compare(fuel_left, &tools.suspended().unwrap_or_default());
            self.journal_calls()?;
            self.continue_live();
            return Ok(None);
        }
        let reply = if let NextReply::Reply(reply) = tools.take() { Some(reply) } else { None };
        // Taking a reply starts queued calls, and some of them may fail immediately. In the journal, the ends of these
        // calls precede the read.
        self.repeat_ended_calls();
        let Some(journal) = &mut self.journal else { return Ok(None) };
        let pick = |entry: &JournalEntry| if let JournalEntry::Received(some) = entry { Some(*some) } else { None };
        let has_reply = journal.repeat("reads from the tools", pick);
        if has_reply.is_some_and(|has_reply| has_reply != reply.is_some()) {
            journal.differ("the script receives different replies from its tools");
        }
        self.journal_calls()?;
        Ok(Some(reply))
    }

    /// Returns `true` if the execution was suspended, or if it ended while it replayed the recording of a suspended
    /// execution. The guest must not run again.
    pub(crate) fn is_abandoned(&self) -> bool {
        let is_over = |journal: &Journal| journal.is_suspended || (journal.is_repeating() && !journal.is_whole());
        self.journal.as_deref().is_some_and(is_over)
    }

    /// Returns `true` if the execution was suspended.
    pub(crate) fn is_suspended(&self) -> bool {
        self.journal.as_deref().is_some_and(|journal| journal.is_suspended)
    }

    /// Returns `true` if a replay has ended since this method was last called.
    pub(crate) fn take_continued(&mut self) -> bool {
        mem::take(&mut self.has_continued)
    }

    /// Reports a difference from the recording: the first one that was noted, or the end of the script before the end of
    /// the recording. `is_stopped` is `true` if a limit or a cancellation stopped the script.
    pub(crate) fn end_repetition(&mut self, is_stopped: bool) {
        let Some(journal) = &self.journal else { return };
        match journal.difference() {
            Some(difference) => self.platform.on_difference(difference),
            None if journal.is_repeating() && !journal.is_whole() && !is_stopped => {
                self.platform.on_difference("the script ended, unlike in the first run");
            }
            None => {}
        }
    }

    /// Ends the journal of a script that has ended. Returns the recording, or the reason why the execution cannot be
    /// replayed. Returns `None` if the execution has no journal, or replays a recording.
    pub fn end_journal(&mut self, fuel_used: u64) -> Option<Result<Recording, SuspendRefusal>> {
        let elapsed = self.duration();
        let journal = self.journal.as_mut().filter(|journal| !journal.is_repeating())?;
        // The script received an exception at a point that depends on the host.
        if self.soft.requested().is_some() || self.soft.is_in_grace() {
            return Some(Err(SuspendRefusal::Interrupted));
        }
        Some(journal.finish(fuel_used, elapsed).ok_or(SuspendRefusal::JournalFull))
    }

    /// Returns `true` if the execution replays a recording and has not received all of its values.
    pub fn has_unreceived(&mut self) -> bool {
        self.repeat_ended_calls();
        self.journal.as_ref().is_some_and(|journal| journal.is_repeating() && journal.has_unreceived())
    }

    /// Continues after a replay. The timeouts and the monotonic clock continue as if there had been no suspension.
    fn continue_live(&mut self) {
        let age_ns = self.age_ns();
        let Some(journal) = &mut self.journal else { return };
        let (recorded, monotonic_ns) =
            journal.resumption_point().map_or((Duration::ZERO, 0), |at| (at.elapsed, at.monotonic_ns));
        self.ahead = self.ahead.saturating_add(Duration::from_nanos(monotonic_ns.saturating_sub(age_ns)));
        let repeating = self.begun.elapsed().saturating_sub(recorded);
        journal.start_recording(repeating);
        self.timeout = self.timeout.saturating_sub(self.extension).saturating_add(repeating);
        self.extension = Duration::ZERO;
        self.has_continued = true;
        self.platform.on_continuation();
        if let Some(tools) = &mut self.tools {
            tools.start_unanswered(repeating);
        }
    }

    /// Suspends the execution if the platform requests a suspension and the execution allows it. A suspended execution
    /// ends with `Stop::Cancelled`.
    pub(super) fn suspend_if_wanted(&mut self, fuel_left: u64) -> Result<(), Stop> {
        if self.journal.is_none() || !self.platform.wants_suspension() {
            return Ok(());
        }
        if let Some(tools) = &mut self.tools {
            tools.collect();
        }
        self.journal_calls()?;
        let (elapsed, age_ns) = (self.begun.elapsed(), self.age_ns());
        let (Some(journal), Some(tools)) = (&mut self.journal, &self.tools) else { return Ok(()) };
        let calls = tools.suspended();
        if !self.platform.begin_suspension(calls.as_ref()) {
            return Ok(());
        }
        let recording = if self.soft.requested().is_some() || self.soft.is_in_grace() {
            Err(SuspendRefusal::Interrupted)
        } else {
            let calls = calls.ok_or(SuspendRefusal::HandlerRuns);
            calls.and_then(|calls| journal.suspend(fuel_left, elapsed, age_ns, calls))
        };
        let is_suspended = recording.is_ok();
        self.platform.suspended(recording);
        if is_suspended { Err(Stop::Cancelled) } else { Ok(()) }
    }
}
