//! What holds for the current execution only.

use std::{
    sync::{
        Arc,
        mpsc::{self, TryRecvError},
    },
    thread,
    time::{Duration, Instant},
};

use glovebox_core::{CallCtx, Pokes, SoftStop};
use glovebox_interpreters::Interrupt;
use glovebox_wasi::{Stop, Stream};

use crate::{
    CancelToken,
    budget::Budget,
    request::{OnOutput, StdinSource},
    tools::{Account, Calls, Taken, ToolRecord},
};

/// The current execution of a guest: its clock, what may stop it, where its output goes, its calls of tools.
pub(crate) struct Run {
    made: Instant,
    pub(crate) begun: Instant,
    deadline: Instant,
    cancel: CancelToken,
    budget: Budget,
    /// What was used of the fuel before the guest is entered.
    used_fuel: u64,
    /// When it is cancelled without anybody's doing.
    cancel_at: Option<Instant>,
    on_output: Option<OnOutput>,
    stdin: Option<StdinSource>,
    soft: SoftStop,
    tools: Option<Calls>,
}

/// How often a guest that waits for its standard input is looked at.
const STDIN_POLL: Duration = Duration::from_millis(5);

/// A guest as the host looks at it: what is left of its fuel, and its memory.
pub(crate) struct Seen<'a> {
    pub(crate) fuel_left: u64,
    pub(crate) memory: &'a mut [u8],
}

/// Why a wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Woken {
    /// Its time is over, or what it waited for is there.
    Due,
    /// The guest was asked to stop, and is to look.
    Asked,
}

impl Run {
    pub(crate) fn new(timeout: Duration, cancel: CancelToken, on_output: Option<OnOutput>) -> Self {
        let begun = Instant::now();
        let deadline = begun + timeout;
        Self {
            made: begun,
            begun,
            deadline,
            cancel,
            cancel_at: None,
            budget: Budget::default(),
            used_fuel: 0,
            on_output,
            stdin: None,
            soft: SoftStop::default(),
            tools: None,
        }
    }

    /// No execution: what an instance has that waits for one.
    pub(crate) fn over() -> Self {
        Self::new(Duration::ZERO, CancelToken::new(), None)
    }

    /// Has its time run since then.
    pub(crate) fn begun_at(self, begun: Instant) -> Self {
        let earlier = self.begun.saturating_duration_since(begun);
        Self { begun: self.begun.min(begun), deadline: self.deadline.checked_sub(earlier).unwrap_or(begun), ..self }
    }

    /// Takes this from its fuel.
    pub(crate) fn with_used_fuel(self, used_fuel: u64) -> Self {
        Self { used_fuel, ..self }
    }

    /// Is cancelled at this time, unless its own time is over by then.
    pub(crate) fn cancelled_at(self, at: Option<Instant>) -> Self {
        Self { cancel_at: at.filter(|at| *at < self.deadline), ..self }
    }

    /// Asks the script to stop before it is unwound.
    pub(crate) fn with_soft_stop(self, soft: SoftStop) -> Self {
        Self { soft, ..self }
    }

    /// Has standard input read when the guest reads it.
    pub(crate) fn with_stdin(self, stdin: Option<StdinSource>) -> Self {
        Self { stdin, ..self }
    }

    /// Takes the fuel from a budget.
    pub(crate) fn with_budget(self, budget: Budget) -> Self {
        Self { budget, ..self }
    }

    /// Lets the guest call tools.
    pub(crate) fn with_tools(self, tools: Calls) -> Self {
        Self { tools: Some(tools), ..self }
    }

    /// What became of the guest's calls of tools; those that still run are given up.
    pub(crate) fn end_tools(&mut self) -> Vec<ToolRecord> {
        self.tools.take().map(Calls::end).unwrap_or_default()
    }

    /// A host call is over, and what it holds for the guest has been counted.
    pub(crate) fn settle(&mut self) {
        if let Some(tools) = &mut self.tools {
            tools.settle();
        }
    }

    fn is_cancelled(&self, now: Instant) -> bool {
        self.cancel_at.is_some_and(|at| now >= at) || self.cancel.is_cancelled()
    }

    /// Looks whether the guest must stop now, and asks it to where it is to stop soon.
    pub(crate) fn look(&mut self, seen: &mut Seen<'_>) -> Result<(), Stop> {
        if let Some(tools) = &mut self.tools {
            tools.collect();
        }
        let now = Instant::now();
        if self.is_cancelled(now) {
            if let Some(tools) = &self.tools {
                tools.cancel();
            }
            let now = now - self.begun;
            match self.soft.cancelled(now, seen.memory) {
                Some(grace) if now < grace => {}
                _ => return Err(Stop::Cancelled),
            }
        }
        if now >= self.deadline {
            return Err(Stop::Deadline);
        }
        self.soft.look(seen.fuel_left, self.deadline - now, seen.memory);
        Ok(())
    }

    /// Looks at a guest at work, at every tick.
    pub(crate) fn tick(&mut self, seen: &mut Seen<'_>) -> Result<(), Stop> {
        self.look(seen)?;
        self.soft.tick(seen.fuel_left, seen.memory);
        Ok(())
    }

    /// Waits for a guest that sleeps: until the time is over, the guest is asked to stop, or it must.
    pub(crate) fn sleep(&mut self, duration: Duration, seen: &mut Seen<'_>) -> Result<(), Stop> {
        let end = Instant::now().checked_add(duration).unwrap_or(self.deadline);
        self.wait(end, seen, || false).map(drop)
    }

    /// Waits for standard input that was not given beforehand; none where there is none, or the guest is asked to stop. What reads it
    /// cannot be stopped: it is left behind, on its thread.
    pub(crate) fn stdin(&mut self, seen: &mut Seen<'_>) -> Result<Option<Vec<u8>>, Stop> {
        let Some(source) = self.stdin.take() else { return Ok(None) };
        let (sender, read) = mpsc::sync_channel(1);
        let reader = thread::Builder::new().name("stdin".into());
        if reader.spawn(move || sender.send(source())).is_err() {
            return Ok(None);
        }
        loop {
            match read.try_recv() {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(TryRecvError::Disconnected) => return Ok(None),
                Err(TryRecvError::Empty) => {}
            }
            let end = Instant::now().checked_add(STDIN_POLL).unwrap_or(self.deadline);
            if self.wait(end, seen, || false)? == Woken::Asked {
                return Ok(None);
            }
        }
    }

    /// Takes a message of the guest's to the tools, and says whether it was a call.
    pub(crate) fn send(&mut self, message: &[u8]) -> bool {
        self.tools.as_mut().is_some_and(|tools| tools.send(message))
    }

    /// Waits for the next reply of the tools: none where none is due, the time that the guest set is over, or it is asked
    /// to stop.
    pub(crate) fn receive(&mut self, seen: &mut Seen<'_>) -> Result<Option<String>, Stop> {
        let patience = self.tools.as_mut().and_then(Calls::patience);
        let impatient = patience.and_then(|patience| Instant::now().checked_add(patience));
        loop {
            let Some(tools) = &mut self.tools else { return Ok(None) };
            let due = match tools.take() {
                Taken::Reply(reply) => return Ok(Some(reply)),
                Taken::NothingDue => return Ok(None),
                Taken::Pending(due) => due,
            };
            let has_answer = tools.has_answer();
            let until = impatient.map_or(due, |end| end.min(due));
            let _waits = tools.begin_wait(until);
            let woken = self.wait(until, seen, has_answer)?;
            if woken == Woken::Asked || impatient.is_some_and(|end| Instant::now() >= end) {
                return Ok(None);
            }
        }
    }

    /// Waits until `end` or until `ready`; no longer than the guest may go on, and not at all while it has been asked to
    /// stop and has not looked.
    fn wait(&mut self, end: Instant, seen: &mut Seen<'_>, ready: impl Fn() -> bool) -> Result<Woken, Stop> {
        loop {
            self.look(seen)?;
            if self.soft.is_unread(seen.memory) {
                return Ok(Woken::Asked);
            }
            if Instant::now() >= end || ready() || self.tools.as_ref().is_some_and(Calls::has_reply) {
                return Ok(Woken::Due);
            }
            let next_look = self.begun.checked_add(self.soft.next_look(self.deadline - self.begun));
            let until = next_look.map_or(end, |at| at.min(end));
            // In its grace a cancelled guest may wait.
            let heeds_cancellation = !self.soft.is_in_grace();
            let cancel_at = self.cancel_at.filter(|_| heeds_cancellation);
            self.cancel.wait(cancel_at.map_or(until, |at| at.min(until)), heeds_cancellation, &ready);
        }
    }

    /// Drops the listener. A guest that is kept would keep it too, with whatever it holds: its own session, say.
    pub(crate) fn forget_listener(&mut self) {
        (self.on_output, self.stdin) = (None, None);
    }

    /// Nanoseconds since this guest's instance was made.
    pub(crate) fn monotonic_ns(&self) -> u64 {
        u64::try_from(self.made.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub(crate) fn output(&mut self, stream: Stream, bytes: &[u8]) {
        if let Some(listener) = &mut self.on_output {
            listener(stream, bytes);
        }
    }
}

impl CallCtx for Run {
    fn renew(&mut self, next: Self) {
        *self = Self { made: self.made, ..next };
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
        let now = Instant::now();
        if self.is_cancelled(now) {
            return Err(Stop::Cancelled);
        }
        if now >= self.deadline { Err(Stop::Deadline) } else { Ok(()) }
    }

    fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    fn fuel_limit(&self, allowed: u64) -> u64 {
        self.budget.within(allowed)
    }

    fn used_fuel(&self) -> u64 {
        self.used_fuel
    }

    fn spend(&self, fuel: u64) {
        self.budget.spend(fuel);
    }
}
