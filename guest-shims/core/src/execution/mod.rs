//! The state of the current execution.

mod journaled;

use std::{fmt, sync::Arc, time::Duration};

use glovebox_interpreters::Interrupt;
use glovebox_wasi::{Stop, Stream};

use crate::{
    InterruptWords, LinearMemory, SoftStop, Watch,
    journal::{Journal, JournalEntry, Recording, SuspendRefusal, SuspendedCalls},
    tools::{NextReply, ToolCalls, ToolMemory, ToolRecord, ToolRunner},
};

/// The clock, the inputs and the outputs of an execution, provided by the platform.
pub trait Platform: Sized {
    /// The platform's stopwatch.
    type Watch: Watch;
    /// The executor of the tools that scripts call.
    type Tools: ToolRunner<Watch = Self::Watch>;

    /// Waits until the time `until` on `watch`, or until `is_ready` returns `true`. With `heeds_cancellation`, a
    /// cancellation also ends the wait. Can return early.
    fn wait(&self, watch: &Self::Watch, until: Duration, heeds_cancellation: bool, is_ready: impl Fn() -> bool);

    /// Returns the current time, in nanoseconds since 1970.
    fn realtime_ns(&self) -> u64;

    /// Returns the elapsed time on `watch` and the cancellation state. Every deadline check calls this method, so one
    /// method returns both, from a single clock reading.
    fn moment(&self, watch: &Self::Watch) -> Moment {
        Moment { elapsed: watch.elapsed(), is_cancelled: false }
    }

    /// Fills the buffer with random bytes from the host. Called only if the policy uses the host's entropy.
    fn fill_random(&mut self, into: &mut [u8]) {
        into.fill(0);
    }

    /// Receives output when the host accepts it from the guest.
    fn output(&mut self, _stream: Stream, _bytes: &[u8]) {}

    /// Receives a display when the host retains it, as the guest's message for
    /// [`decode_display`](crate::decode_display). The message can be invalid.
    fn display(&mut self, _message: &[u8]) {}

    /// Waits for standard input that was not provided in advance. Returns `None` at the end of the input, or if a soft
    /// stop ends the wait.
    fn stdin<M: LinearMemory + ?Sized>(
        _ctx: &mut ExecutionCtx<Self>,
        _fuel_left: u64,
        _memory: &mut M,
    ) -> Result<Option<Vec<u8>>, Stop> {
        Ok(None)
    }

    /// Drops the source of standard input. Called during a replay: the guest had read the input before the suspension.
    fn skip_stdin(&mut self) {}

    /// Returns the fuel that the execution may use, at most the policy's `allowed` fuel.
    fn fuel_limit(&self, allowed: u64) -> u64 {
        allowed
    }

    /// Returns the fuel that was used before the guest was entered.
    fn used_fuel(&self) -> u64 {
        0
    }

    /// Records fuel that a call has used.
    fn spend(&self, _fuel: u64) {}

    /// Returns `true` if the execution should be suspended when it waits for tools.
    fn wants_suspension(&self) -> bool {
        false
    }

    /// Begins a requested suspension. `calls` is `None` if a tool's handler is running. Returns `false` if the
    /// execution should no longer be suspended.
    fn begin_suspension(&self, _calls: Option<&SuspendedCalls>) -> bool {
        false
    }

    /// Receives the result of a suspension that has begun. Without an error, the execution ends.
    fn suspended(&self, _recording: Result<Recording, SuspendRefusal>) {}

    /// Called when an execution differs from the recording that it replays. The execution ends.
    fn on_difference(&self, _difference: &str) {}

    /// Called when a resumed execution has repeated its earlier steps and continues.
    fn on_continuation(&self) {}
}

/// The elapsed time and cancellation state of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The elapsed time; zero without a clock.
    pub elapsed: Duration,
    /// `true` once the execution has been cancelled.
    pub is_cancelled: bool,
}

/// The reason why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeReason {
    /// The wait reached its deadline, or its condition holds.
    Due,
    /// A soft stop was delivered. The guest must run to handle it.
    Interrupted,
}

/// A guest's current execution: its clock, its stop conditions and its tool calls. Times are relative to the start of
/// the execution.
pub struct ExecutionCtx<P: Platform> {
    /// Started with the guest's instance; the basis of the guest's monotonic clock.
    made: P::Watch,
    begun: P::Watch,
    timeout: Duration,
    /// The time of automatic cancellation.
    cancel_after: Option<Duration>,
    is_cancelled: bool,
    soft: SoftStop,
    tools: Option<ToolCalls<P::Tools>>,
    journal: Option<Box<Journal>>,
    /// The time by which the timeouts are extended during a replay.
    extension: Duration,
    /// The time by which the guest's monotonic clock is ahead of `made`, because it continued from a suspension.
    ahead: Duration,
    /// The output to standard error that is held back. `None` if standard error is not held back.
    held_stderr: Option<Vec<u8>>,
    /// `true` from the end of a replay to the end of the host call in which it ended.
    has_continued: bool,
    /// The platform's state for this execution.
    pub platform: P,
}

impl<P: Platform> fmt::Debug for ExecutionCtx<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecutionCtx").field("timeout", &self.timeout).field("soft", &self.soft).finish_non_exhaustive()
    }
}

impl<P: Platform<Watch: Default> + Default> Default for ExecutionCtx<P> {
    fn default() -> Self {
        Self::new(P::default(), P::Watch::default(), Duration::ZERO)
    }
}

impl<P: Platform> ExecutionCtx<P> {
    /// Creates the context of an execution that starts at `begun`, in an instance created at the same time.
    pub fn new(platform: P, begun: P::Watch, timeout: Duration) -> Self {
        Self {
            made: begun.clone(),
            begun,
            timeout,
            cancel_after: None,
            is_cancelled: false,
            soft: SoftStop::default(),
            tools: None,
            journal: None,
            extension: Duration::ZERO,
            ahead: Duration::ZERO,
            held_stderr: None,
            has_continued: false,
            platform,
        }
    }

    /// Sets the start of the execution.
    #[must_use]
    pub fn begun_at(self, begun: P::Watch) -> Self {
        Self { begun, ..self }
    }

    /// Cancels the execution after this time, if the time is below the timeout.
    #[must_use]
    pub fn cancelled_after(self, after: Option<Duration>) -> Self {
        Self { cancel_after: after.filter(|after| *after < self.timeout), ..self }
    }

    /// Marks the execution as cancelled before it starts.
    #[must_use]
    pub fn cancelled(self) -> Self {
        Self { is_cancelled: true, ..self }
    }

    /// Sets the soft stop.
    #[must_use]
    pub fn with_soft_stop(self, soft: SoftStop) -> Self {
        Self { soft, ..self }
    }

    /// Lets the guest call these tools.
    #[must_use]
    pub fn with_tools(self, tools: ToolCalls<P::Tools>) -> Self {
        Self { tools: Some(tools), ..self }
    }

    /// Records the execution in a journal, or replays a recording. Call this method after
    /// [`with_tools`](Self::with_tools).
    #[must_use]
    pub fn with_journal(mut self, journal: Journal) -> Self {
        if journal.is_repeating() {
            // A replay takes about as long as the recorded execution, and does not count towards the timeout.
            self.extension = self.timeout;
            self.timeout = self.timeout.saturating_add(self.extension);
        }
        if let Some(tools) = &mut self.tools {
            tools.journal(journal.resumption_point().map(|at| at.calls.times.clone()));
        }
        self.journal = Some(Box::new(journal));
        self
    }

    /// Starts the next execution in the same instance. The guest's monotonic clock continues.
    pub fn renew(&mut self, next: Self) {
        *self = Self { made: self.made.clone(), ahead: self.ahead, ..next };
    }

    /// Enables the soft stop. When it is due, it writes these words to guest memory.
    pub(crate) fn arm(&mut self, writes: InterruptWords) {
        self.soft.arm(writes);
    }

    /// Disables the soft stop when the script has ended. Returns the interrupt that the script received, if any.
    pub(crate) fn disarm(&mut self) -> Option<Interrupt> {
        self.soft.disarm();
        self.soft.requested()
    }

    /// Ends the tool calls and returns their records. Abandons calls that are still running. Drops the journal.
    pub fn end_tools(&mut self) -> Vec<ToolRecord> {
        // The unanswered calls of a suspended execution are reported when the resumed execution ends. The calls of a
        // replayed execution were reported in its first run.
        let is_last = !self.is_abandoned() && !self.is_repeating();
        self.journal = None;
        self.tools.take().map(|tools| tools.end_and_report(is_last)).unwrap_or_default()
    }

    pub(crate) fn tool_account(&self) -> Option<&Arc<ToolMemory>> {
        self.tools.as_ref().map(ToolCalls::account)
    }

    /// Updates the tools' memory account at the end of a host call.
    pub(crate) fn settle(&mut self) {
        if let Some(tools) = &mut self.tools {
            tools.settle();
        }
    }

    /// Extends the timeouts by the duration of the host's own work.
    pub fn extend(&mut self, by: Duration) {
        self.timeout = self.timeout.saturating_add(by);
        self.cancel_after = self.cancel_after.map(|after| after.saturating_add(by));
    }

    /// Returns the watch that started with the execution.
    pub fn watch(&self) -> &P::Watch {
        &self.begun
    }

    /// Returns the elapsed time; zero without a clock.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Returns the guest's monotonic time since the start of its instance, in nanoseconds; zero without a clock.
    fn age_ns(&self) -> u64 {
        u64::try_from(self.made.elapsed().saturating_add(self.ahead).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Returns the fuel reserved for the soft stop.
    pub fn fuel_reserve(&self) -> u64 {
        self.soft.fuel_reserve()
    }

    /// Fails if the guest must stop before it has started.
    pub fn check(&self) -> Result<(), Stop> {
        let now = self.moment();
        if now.is_cancelled { Err(Stop::Cancelled) } else { self.time_left(now.elapsed).map(drop) }
    }

    /// Like [`Platform::moment`], but also checks the other reasons for cancellation.
    fn moment(&self) -> Moment {
        let Moment { elapsed, is_cancelled } = self.platform.moment(&self.begun);
        let is_over = |after| self.begun.has_clock() && elapsed >= after;
        Moment { elapsed, is_cancelled: is_cancelled || self.is_cancelled || self.cancel_after.is_some_and(is_over) }
    }

    /// Returns the time left until the timeout. Fails if none is left.
    fn time_left(&self, elapsed: Duration) -> Result<Duration, Stop> {
        if !self.begun.has_clock() {
            return Ok(Duration::MAX);
        }
        self.timeout.checked_sub(elapsed).filter(|left| !left.is_zero()).ok_or(Stop::Deadline)
    }

    /// Fails if the guest must stop now. Delivers a soft stop if one is due.
    pub fn check_stop<M: LinearMemory + ?Sized>(&mut self, fuel_left: u64, memory: &mut M) -> Result<(), Stop> {
        if let Some(tools) = &mut self.tools {
            tools.collect();
        }
        self.journal_calls()?;
        let Moment { elapsed, is_cancelled } = self.moment();
        if is_cancelled {
            if let Some(tools) = &self.tools {
                tools.cancel();
            }
            // An interrupted script would differ from the recording.
            if self.is_repeating() {
                return Err(Stop::Cancelled);
            }
            match self.soft.cancelled(elapsed, memory) {
                Some(grace) if elapsed < grace => {}
                _ => return Err(Stop::Cancelled),
            }
        }
        let left = self.time_left(elapsed)?;
        if !self.is_repeating() {
            self.soft.interrupt_if_due(fuel_left, left, memory);
        }
        Ok(())
    }

    /// Waits on behalf of a sleeping guest, until the duration has passed, a soft stop arrives, or the guest must stop.
    /// An unread tool reply does not end the wait.
    pub fn sleep<M: LinearMemory + ?Sized>(
        &mut self,
        duration: Duration,
        fuel_left: u64,
        memory: &mut M,
    ) -> Result<WakeReason, Stop> {
        let end = self.elapsed().saturating_add(duration);
        self.wait(end, false, fuel_left, memory)
    }

    /// Passes a guest's message to the tools. Returns `true` if the message was a tool call.
    pub(crate) fn send(&mut self, message: &[u8]) -> bool {
        self.repeat_ended_calls();
        let is_call = self.tools.as_mut().is_some_and(|tools| tools.send(message));
        self.repeat_ended_calls();
        is_call
    }

    /// Waits for the next tool reply. Returns `None` if no reply is due, the guest's own timeout has passed, or a soft
    /// stop arrives.
    pub(crate) fn receive<M: LinearMemory + ?Sized>(
        &mut self,
        fuel_left: u64,
        memory: &mut M,
    ) -> Result<Option<String>, Stop> {
        let read_timeout = self.tools.as_mut().and_then(ToolCalls::read_timeout);
        if let Some(reply) = self.repeat_receive(fuel_left)? {
            return Ok(reply);
        }
        let reply = self.receive_now(read_timeout, fuel_left, memory)?;
        self.journal_calls()?;
        if let Some(journal) = &mut self.journal {
            journal.push(JournalEntry::Received(reply.is_some()));
        }
        Ok(reply)
    }

    /// Like [`receive`](Self::receive), without the journal.
    fn receive_now<M: LinearMemory + ?Sized>(
        &mut self,
        read_timeout: Option<Duration>,
        fuel_left: u64,
        memory: &mut M,
    ) -> Result<Option<String>, Stop> {
        let times_out_at = read_timeout.map(|read_timeout| self.elapsed().saturating_add(read_timeout));
        loop {
            let Some(tools) = &mut self.tools else { return Ok(None) };
            let received = tools.take();
            if P::Tools::RUN_INLINE {
                // The tool may have run for a long time.
                self.check_stop(fuel_left, memory)?;
            }
            let due = match received {
                NextReply::Reply(reply) => return Ok(Some(reply)),
                NextReply::NothingDue => return Ok(None),
                NextReply::Pending(due) => due,
            };
            self.suspend_if_wanted(fuel_left)?;
            let until = times_out_at.map_or(due, |end| end.min(due));
            let _waits = self.tools.as_mut().and_then(|tools| tools.begin_wait(until));
            let woken = self.wait(until, true, fuel_left, memory)?;
            // Deliver an answer that arrived at the end of the wait. The journal must contain both the answer and its
            // delivery.
            let has_reply = self.tools.as_ref().is_some_and(ToolCalls::has_reply);
            if woken == WakeReason::Interrupted || (!has_reply && times_out_at.is_some_and(|end| self.elapsed() >= end))
            {
                return Ok(None);
            }
        }
    }

    /// Waits until `end`. With `for_tools`, an unread reply or the answer to a running call also ends the wait. Fails
    /// if the guest must stop. Returns immediately while a soft stop is unread.
    fn wait<M: LinearMemory + ?Sized>(
        &mut self,
        end: Duration,
        for_tools: bool,
        fuel_left: u64,
        memory: &mut M,
    ) -> Result<WakeReason, Stop> {
        loop {
            self.check_stop(fuel_left, memory)?;
            if self.soft.is_unread(memory) {
                return Ok(WakeReason::Interrupted);
            }
            if for_tools {
                self.suspend_if_wanted(fuel_left)?;
            }
            let tools = self.tools.as_ref();
            let has_answer = || for_tools && tools.is_some_and(ToolCalls::has_answer);
            let is_over = !self.begun.has_clock() || self.begun.elapsed() >= end;
            let has_reply = for_tools && tools.is_some_and(ToolCalls::has_reply);
            if is_over || has_reply || has_answer() {
                return Ok(WakeReason::Due);
            }
            let until = end.min(self.soft.next_check(self.timeout));
            // A cancelled guest can wait until its grace period ends.
            let heeds_cancellation = !self.soft.is_in_grace();
            let cancel_after = self.cancel_after.filter(|_| heeds_cancellation);
            let until = cancel_after.map_or(until, |after| after.min(until));
            let is_ready = || has_answer() || (for_tools && self.platform.wants_suspension());
            self.platform.wait(&self.begun, until, heeds_cancellation, is_ready);
        }
    }
}
