//! What holds for the current execution only.

use std::{fmt, sync::Arc, time::Duration};

use glovebox_interpreters::Interrupt;
use glovebox_wasi::{Stop, Stream};

use crate::{
    InterruptWords, LinearMemory, SoftStop, Watch,
    tools::{Account, Received, ToolCalls, ToolRecord, ToolRunner},
};

/// What a platform gives an execution of time and of the outside.
pub trait Platform: Sized {
    /// What counts time.
    type Watch: Watch;
    /// What runs the tools that scripts call.
    type Tools: ToolRunner<Watch = Self::Watch>;

    /// Waits until a time that is counted on `watch`, until `is_ready` says so, or until somebody cancels the execution, where that
    /// matters. It may return early.
    fn wait(&self, watch: &Self::Watch, until: Duration, heeds_cancellation: bool, is_ready: impl Fn() -> bool);

    /// Nanoseconds since 1970.
    fn realtime_ns(&self) -> u64;

    /// What a look from outside tells of an execution that `watch` counts the time of. One question, since it is asked every half a
    /// millisecond, and a host may answer both with one reading of its clock.
    fn moment(&self, watch: &Self::Watch) -> Moment {
        Moment { elapsed: watch.elapsed(), is_cancelled: false }
    }

    /// Fills with the host's random numbers. Only asked where the policy has them.
    fn fill_random(&mut self, into: &mut [u8]) {
        into.fill(0);
    }

    /// Told of output as it is accepted.
    fn output(&mut self, _stream: Stream, _bytes: &[u8]) {}

    /// Waits for standard input that was not given beforehand; none where there is none, or the guest is asked to stop.
    fn stdin<M: LinearMemory + ?Sized>(
        _ctx: &mut ExecutionCtx<Self>,
        _fuel_left: u64,
        _memory: &mut M,
    ) -> Result<Option<Vec<u8>>, Stop> {
        Ok(None)
    }

    /// What the execution may use of the fuel that the policy allows.
    fn fuel_limit(&self, allowed: u64) -> u64 {
        allowed
    }

    /// What was used of the fuel before the guest is entered.
    fn used_fuel(&self) -> u64 {
        0
    }

    /// Takes note of the fuel that was used.
    fn spend(&self, _fuel: u64) {}
}

/// What a look from outside tells of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// How long it has lasted; zero where there is no clock.
    pub elapsed: Duration,
    /// Whether somebody has cancelled it.
    pub is_cancelled: bool,
}

/// Why a wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// Its time is over, or what it waited for is there.
    Due,
    /// The guest was asked to stop, and is to look.
    Asked,
}

/// The current execution of a guest: its clock, what may stop it, its calls of tools. Times are counted from its beginning.
pub struct ExecutionCtx<P: Platform> {
    /// Since the guest's instance was made: its monotonic clock.
    made: P::Watch,
    begun: P::Watch,
    timeout: Duration,
    /// When it is cancelled without anybody's doing.
    cancel_after: Option<Duration>,
    is_cancelled: bool,
    soft: SoftStop,
    tools: Option<ToolCalls<P::Tools>>,
    /// What the platform has for it.
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
    /// An execution that begins as `begun` does, in an instance that is made for it.
    pub fn new(platform: P, begun: P::Watch, timeout: Duration) -> Self {
        let made = begun.clone();
        let (cancel_after, soft, tools) = (None, SoftStop::default(), None);
        Self { made, begun, timeout, cancel_after, is_cancelled: false, soft, tools, platform }
    }

    /// Has its time run since then.
    #[must_use]
    pub fn begun_at(self, begun: P::Watch) -> Self {
        Self { begun, ..self }
    }

    /// Is cancelled after this time, unless its own is over by then.
    #[must_use]
    pub fn cancelled_after(self, after: Option<Duration>) -> Self {
        Self { cancel_after: after.filter(|after| *after < self.timeout), ..self }
    }

    /// Is cancelled before it has begun.
    #[must_use]
    pub fn cancelled(self) -> Self {
        Self { is_cancelled: true, ..self }
    }

    /// Asks the script to stop before it is unwound.
    #[must_use]
    pub fn with_soft_stop(self, soft: SoftStop) -> Self {
        Self { soft, ..self }
    }

    /// Lets the guest call tools.
    #[must_use]
    pub fn with_tools(self, tools: ToolCalls<P::Tools>) -> Self {
        Self { tools: Some(tools), ..self }
    }

    /// Goes on with the next execution: the guest's monotonic clock continues.
    pub fn renew(&mut self, next: Self) {
        *self = Self { made: self.made.clone(), ..next };
    }

    /// From now on the script can be asked to stop.
    pub(crate) fn arm(&mut self, pokes: InterruptWords) {
        self.soft.arm(pokes);
    }

    /// The script is over; says what it was asked for, if it was.
    pub(crate) fn disarm(&mut self) -> Option<Interrupt> {
        self.soft.disarm();
        self.soft.asked()
    }

    /// What became of the guest's calls of tools; those that still run are given up.
    pub fn end_tools(&mut self) -> Vec<ToolRecord> {
        self.tools.take().map(ToolCalls::end).unwrap_or_default()
    }

    /// What is held for the guest's calls of tools.
    pub(crate) fn tool_account(&self) -> Option<&Arc<Account>> {
        self.tools.as_ref().map(ToolCalls::account)
    }

    /// A host call is over, and what it holds for the guest has been counted.
    pub(crate) fn settle(&mut self) {
        if let Some(tools) = &mut self.tools {
            tools.settle();
        }
    }

    /// What counts its time.
    pub fn watch(&self) -> &P::Watch {
        &self.begun
    }

    /// How long it has lasted; zero where there is no clock.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// How long the guest's instance has been there; zero where there is no clock.
    pub(crate) fn age(&self) -> Duration {
        self.made.elapsed()
    }

    /// How much of its fuel is reserved for a soft stop.
    pub fn fuel_reserve(&self) -> u64 {
        self.soft.fuel_reserve()
    }

    /// Whether the guest must stop before it has begun.
    pub fn check(&self) -> Result<(), Stop> {
        let now = self.moment();
        if now.is_cancelled {
            return Err(Stop::Cancelled);
        }
        self.left(now.elapsed).map(drop)
    }

    /// Now, with all that cancels it.
    fn moment(&self) -> Moment {
        let Moment { elapsed, is_cancelled } = self.platform.moment(&self.begun);
        let is_over = |after| self.begun.has_clock() && elapsed >= after;
        Moment { elapsed, is_cancelled: is_cancelled || self.is_cancelled || self.cancel_after.is_some_and(is_over) }
    }

    /// What is left of its time.
    fn left(&self, elapsed: Duration) -> Result<Duration, Stop> {
        if !self.begun.has_clock() {
            return Ok(Duration::MAX);
        }
        self.timeout.checked_sub(elapsed).filter(|left| !left.is_zero()).ok_or(Stop::Deadline)
    }

    /// Looks whether the guest must stop now, and asks it to where it is to stop soon.
    pub fn look<M: LinearMemory + ?Sized>(&mut self, fuel_left: u64, memory: &mut M) -> Result<(), Stop> {
        if let Some(tools) = &mut self.tools {
            tools.collect();
        }
        let Moment { elapsed, is_cancelled } = self.moment();
        if is_cancelled {
            if let Some(tools) = &self.tools {
                tools.cancel();
            }
            match self.soft.cancelled(elapsed, memory) {
                Some(grace) if elapsed < grace => {}
                _ => return Err(Stop::Cancelled),
            }
        }
        let left = self.left(elapsed)?;
        self.soft.look(fuel_left, left, memory);
        Ok(())
    }

    /// Looks at a guest at work, at every tick.
    pub fn tick<M: LinearMemory + ?Sized>(&mut self, fuel_left: u64, memory: &mut M) -> Result<(), Stop> {
        self.look(fuel_left, memory)?;
        self.soft.tick(fuel_left, memory);
        Ok(())
    }

    /// Waits for a guest that sleeps: until the time is over, the guest is asked to stop, or it must.
    pub fn sleep<M: LinearMemory + ?Sized>(
        &mut self,
        duration: Duration,
        fuel_left: u64,
        memory: &mut M,
    ) -> Result<Woken, Stop> {
        let end = self.elapsed().saturating_add(duration);
        self.wait(end, false, fuel_left, memory)
    }

    /// Takes a message of the guest's to the tools, and says whether it was a call.
    pub(crate) fn send(&mut self, message: &[u8]) -> bool {
        self.tools.as_mut().is_some_and(|tools| tools.send(message))
    }

    /// Waits for the next reply of the tools: none where none is due, the time that the guest set is over, or it is asked
    /// to stop.
    pub(crate) fn receive<M: LinearMemory + ?Sized>(
        &mut self,
        fuel_left: u64,
        memory: &mut M,
    ) -> Result<Option<String>, Stop> {
        let patience = self.tools.as_mut().and_then(ToolCalls::patience);
        let impatient = patience.map(|patience| self.elapsed().saturating_add(patience));
        loop {
            let Some(tools) = &mut self.tools else { return Ok(None) };
            let received = tools.take();
            if P::Tools::RUN_INLINE {
                // One of them may have taken its time.
                self.look(fuel_left, memory)?;
            }
            let due = match received {
                Received::Reply(reply) => return Ok(Some(reply)),
                Received::NothingDue => return Ok(None),
                Received::Pending(due) => due,
            };
            let until = impatient.map_or(due, |end| end.min(due));
            let _waits = self.tools.as_mut().and_then(|tools| tools.begin_wait(until));
            let woken = self.wait(until, true, fuel_left, memory)?;
            if woken == Woken::Asked || impatient.is_some_and(|end| self.elapsed() >= end) {
                return Ok(None);
            }
        }
    }

    /// Waits until `end`, or for tools until one has answered; no longer than the guest may go on, and not at all while it has been
    /// asked to stop and has not looked.
    fn wait<M: LinearMemory + ?Sized>(
        &mut self,
        end: Duration,
        for_tools: bool,
        fuel_left: u64,
        memory: &mut M,
    ) -> Result<Woken, Stop> {
        loop {
            self.look(fuel_left, memory)?;
            if self.soft.is_unread(memory) {
                return Ok(Woken::Asked);
            }
            let tools = self.tools.as_ref();
            let has_answer = || for_tools && tools.is_some_and(ToolCalls::has_answer);
            let is_over = !self.begun.has_clock() || self.begun.elapsed() >= end;
            if is_over || has_answer() || tools.is_some_and(ToolCalls::has_reply) {
                return Ok(Woken::Due);
            }
            let until = end.min(self.soft.next_look(self.timeout));
            // In its grace a cancelled guest may wait.
            let heeds_cancellation = !self.soft.is_in_grace();
            let cancel_after = self.cancel_after.filter(|_| heeds_cancellation);
            let until = cancel_after.map_or(until, |after| after.min(until));
            self.platform.wait(&self.begun, until, heeds_cancellation, has_answer);
        }
    }
}
