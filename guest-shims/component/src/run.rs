//! What holds for the current execution only.

use std::{rc::Rc, sync::Arc, time::Duration};

use glovebox_core::{
    CallCtx, Pokes, SoftStop,
    tools::{Account, ToolRecord},
};
use glovebox_interpreters::Interrupt;
use glovebox_wasi::Stop;

use crate::{Calls, Clocks, GuestMemory, Stopwatch};

/// How much fuel a guest is handed at a time where somebody looks at the clock: half a millisecond of work, for a look that takes
/// less than a microsecond.
const SLICE_FUEL: u64 = 2_000_000;

/// The current execution of a guest: its clock, what may stop it, its calls of tools. By default there is no clock, and nothing does.
#[derive(Debug, Default)]
pub struct Run {
    /// Since the guest's instance was made: its monotonic clock.
    made: Stopwatch,
    begun: Stopwatch,
    /// From its beginning.
    timeout: Duration,
    /// From its beginning, when it is cancelled without anybody's doing.
    cancel_after: Option<Duration>,
    cancelled: bool,
    fuel_reserve: u64,
    soft: SoftStop,
    tools: Option<Calls>,
}

/// How much of fuel and time an execution has.
#[derive(Clone, Copy, Debug)]
pub struct RunBounds {
    /// Wall-clock time.
    pub timeout: Duration,
    /// What of the time is for a last word.
    pub timeout_reserve: Duration,
    /// What of the fuel is for a last word.
    pub fuel_reserve: u64,
}

impl Run {
    /// Starts the clock of an execution.
    #[must_use]
    pub fn new(clocks: Option<Rc<dyn Clocks>>, bounds: RunBounds) -> Self {
        let RunBounds { timeout, timeout_reserve, fuel_reserve } = bounds;
        let begun = Stopwatch::start(clocks);
        let soft = SoftStop::new(fuel_reserve, timeout_reserve);
        Self { made: begun.clone(), begun, timeout, fuel_reserve, soft, ..Self::default() }
    }

    /// Is cancelled after this time, unless its own is over by then.
    #[must_use]
    pub fn cancelled_after(self, after: Option<Duration>) -> Self {
        Self { cancel_after: after.filter(|after| *after < self.timeout), ..self }
    }

    /// Is cancelled before it has begun.
    #[must_use]
    pub fn cancelled(self) -> Self {
        Self { cancelled: true, ..self }
    }

    /// Lets the guest call tools.
    #[must_use]
    pub fn with_tools(self, tools: Calls) -> Self {
        Self { tools: Some(tools), ..self }
    }

    /// What became of the guest's calls of tools.
    pub fn end_tools(&mut self) -> Vec<ToolRecord> {
        self.tools.take().map(Calls::end).unwrap_or_default()
    }

    /// A call of the guest's is over, and what is held for it has been counted.
    pub fn settle(&mut self) {
        if let Some(tools) = &mut self.tools {
            tools.settle();
        }
    }

    /// What counts the time of the execution.
    #[must_use]
    pub fn watch(&self) -> &Stopwatch {
        &self.begun
    }

    /// How long the guest's instance has been there; nothing without a clock.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.made.elapsed()
    }

    /// Nanoseconds since 1970.
    #[must_use]
    pub fn realtime_ns(&self) -> u64 {
        self.begun.clocks().map_or(0, Clocks::realtime_ns)
    }

    /// How much of the fuel that is left the guest is handed before somebody looks again.
    #[must_use]
    pub fn slice(&self, left: u64) -> u64 {
        let most = if self.begun.clocks().is_some() { SLICE_FUEL } else { u64::MAX };
        // Not beyond the point where it is asked to stop.
        let before_reserve = left.checked_sub(self.fuel_reserve).map_or(left, |before| before.max(1));
        most.min(before_reserve).min(left).min(i64::MAX.unsigned_abs())
    }

    fn is_cancelled(&self, elapsed: Duration) -> bool {
        let is_over = |after| self.begun.clocks().is_some() && elapsed >= after;
        self.cancelled || self.cancel_after.is_some_and(is_over)
    }

    /// Looks whether the guest must stop now, and asks it to where it is to stop soon.
    pub fn look(&mut self, fuel_left: u64, memory: &mut GuestMemory) -> Result<(), Stop> {
        let elapsed = self.elapsed();
        if self.is_cancelled(elapsed) {
            match self.soft.cancelled(elapsed, memory) {
                Some(grace) if elapsed < grace => {}
                _ => return Err(Stop::Cancelled),
            }
        }
        let left = match self.begun.clocks() {
            Some(_) if elapsed >= self.timeout => return Err(Stop::Deadline),
            Some(_) => self.timeout - elapsed,
            None => Duration::MAX,
        };
        self.soft.look(fuel_left, left, memory);
        Ok(())
    }

    /// Waits for a guest that sleeps: until the time is over, the guest is asked to stop, or it must.
    pub fn sleep(&mut self, duration: Duration, fuel_left: u64, memory: &mut GuestMemory) -> Result<(), Stop> {
        let end = self.elapsed().saturating_add(duration);
        loop {
            self.look(fuel_left, memory)?;
            let elapsed = self.elapsed();
            let Some(clocks) = self.begun.clocks() else { return Ok(()) };
            if self.soft.is_unread(memory) || elapsed >= end {
                return Ok(());
            }
            let until = end.min(self.soft.next_look(self.timeout));
            // In its grace a cancelled guest may wait.
            let cancel_after = self.cancel_after.filter(|_| !self.soft.is_in_grace());
            let until = cancel_after.map_or(until, |after| after.min(until));
            clocks.sleep(until.saturating_sub(elapsed));
        }
    }

    /// Takes a message of the guest's to the tools, and says whether it was a call.
    pub fn send(&mut self, message: &[u8]) -> bool {
        self.tools.as_mut().is_some_and(|tools| tools.send(message))
    }

    /// The next reply of the tools: none where none is due. A tool may have taken its time, so that the guest may have to stop.
    pub fn receive(&mut self, fuel_left: u64, memory: &mut GuestMemory) -> Result<Option<String>, Stop> {
        let reply = self.tools.as_mut().and_then(Calls::take);
        self.look(fuel_left, memory)?;
        Ok(reply)
    }
}

impl CallCtx for Run {
    fn renew(&mut self, next: Self) {
        *self = Self { made: self.made.clone(), ..next };
    }

    fn arm(&mut self, pokes: Pokes) {
        self.soft.arm(pokes);
    }

    fn disarm(&mut self) -> Option<Interrupt> {
        self.soft.disarm();
        self.soft.asked()
    }

    fn tool_account(&self) -> Option<&Arc<Account>> {
        self.tools.as_ref().map(Calls::account)
    }

    fn check(&self) -> Result<(), Stop> {
        let elapsed = self.elapsed();
        if self.is_cancelled(elapsed) {
            return Err(Stop::Cancelled);
        }
        if self.begun.clocks().is_some() && elapsed >= self.timeout { Err(Stop::Deadline) } else { Ok(()) }
    }

    fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }
}
