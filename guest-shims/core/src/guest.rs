//! One guest: an instance of a prepared image or of a plain command, and every call that is made into it.

use std::sync::Arc;

use glovebox_interpreters::{
    Anchors, Callee, Diagnostic, Driver, DriverError, Interrupt, Machine, MachineError, Raised, Report, Script,
};
use glovebox_wasi::{Stop, Wasi};

use crate::{
    CallEnd, CallResult, GuestState, GuestValue, Limits, MemoryLimiter, Pokes, Refusal, TrapKind, Usage,
    session::Pages, tools::Account,
};

/// How a prepared image is called.
#[derive(Clone, Copy)]
pub struct ImageDriver<'a> {
    /// What calls its interpreter.
    pub driver: &'a dyn Driver,
    /// Addresses in the image.
    pub anchors: &'a Anchors,
}

/// What holds for the current call into a guest.
pub trait CallCtx {
    /// Goes on with the next call: the guest's monotonic clock continues.
    fn renew(&mut self, next: Self);

    /// Whether the guest must stop before it has begun.
    fn check(&self) -> Result<(), Stop>;

    /// From now on the script can be asked to stop.
    fn arm(&mut self, pokes: Pokes);

    /// The script is over; says what it was asked for, if it was.
    fn disarm(&mut self) -> Option<Interrupt>;

    /// How long the call has lasted; zero where there is no clock.
    fn elapsed(&self) -> std::time::Duration;

    /// What is held for the guest's calls of tools.
    fn tool_account(&self) -> Option<&Arc<Account>>;

    /// What the call may use of the fuel that the policy allows.
    fn fuel_limit(&self, allowed: u64) -> u64 {
        allowed
    }

    /// What was used of the fuel before the guest is entered.
    fn used_fuel(&self) -> u64 {
        0
    }

    /// Takes note of the fuel that the call has used.
    fn spend(&self, fuel: u64) {
        let _ = fuel;
    }
}

/// What a platform gives for an instance, beside what its driver sees of it.
pub trait GuestMachine: Machine {
    /// What holds for the current call.
    type Ctx: CallCtx;

    /// The fuel that is left.
    fn fuel(&self) -> u64;

    /// Sets the fuel that is left, before a call.
    fn set_fuel(&mut self, fuel: u64) -> Result<(), MachineError>;

    /// The size of the linear memory in bytes, wherever it is kept.
    fn linear_bytes(&self) -> u64;

    /// Writes pages into the memory, which holds the image. False: one of them lies beyond its end.
    fn write_pages(&mut self, pages: &Pages) -> bool;

    /// What is kept for the guest.
    fn wasi_ref(&self) -> &Wasi;

    /// What is kept for the guest as it can be saved: the monotonic clock without this instance's share.
    fn settled_wasi(&mut self) -> Wasi;

    /// What the guest may hold.
    fn limiter(&self) -> &MemoryLimiter;

    /// The same, to be changed.
    fn limiter_mut(&mut self) -> &mut MemoryLimiter;

    /// The current call.
    fn ctx(&self) -> &Self::Ctx;

    /// The same, to be changed.
    fn ctx_mut(&mut self) -> &mut Self::Ctx;

    /// The trap that ended the last call, if one did.
    fn trapped(&self) -> Option<TrapKind>;

    /// Forgets it: a call begins.
    fn clear_trap(&mut self);
}

/// A guest.
#[derive(Debug)]
pub struct Guest<M> {
    /// Its instance.
    pub machine: M,
    /// What the current call may use: `limits.fuel`, or what is left of a budget.
    fuel_limit: u64,
}

impl<M: GuestMachine> Guest<M> {
    /// A guest as its image is.
    pub fn new(machine: M, limits: &Limits) -> Self {
        Self { machine, fuel_limit: limits.fuel }
    }

    /// Has a new instance draw random numbers of its own. It is on nobody's bill.
    pub fn reseed(&mut self, image: ImageDriver<'_>) -> Result<(), DriverError> {
        image.driver.reseed(&mut self.machine, image.anchors)
    }

    /// The same for a guest that scripts have run in: what they left in it runs on their bill.
    pub fn reseed_within(&mut self, image: ImageDriver<'_>, limits: &Limits) -> Result<(), DriverError> {
        self.begin(limits)?;
        let reseeded = image.driver.reseed(&mut self.machine, image.anchors);
        self.end(&reseeded);
        reseeded
    }

    /// Begins a call: full fuel, nothing refused yet.
    fn begin(&mut self, limits: &Limits) -> Result<(), DriverError> {
        let ctx = self.machine.ctx();
        self.fuel_limit = ctx.fuel_limit(limits.fuel);
        let fuel = self.fuel_limit.saturating_sub(ctx.used_fuel());
        let tools = ctx.tool_account().cloned().unwrap_or_default();
        self.machine.set_fuel(fuel)?;
        self.machine.limiter_mut().begin(tools);
        self.machine.clear_trap();
        Ok(())
    }

    /// Ends a call: takes its fuel from the budget, and says what it has left. What was stopped from outside may have used more than is
    /// known, so that its budget pays for all that it was allowed.
    fn end<T>(&self, result: &Result<T, DriverError>) -> u64 {
        let left = self.machine.fuel();
        let is_known =
            !matches!(result, Err(DriverError::Machine(MachineError::Stopped(Stop::Deadline | Stop::Cancelled))));
        self.machine.ctx().spend(self.fuel_limit.saturating_sub(if is_known { left } else { 0 }));
        left
    }

    /// What is known of the current call beside what the guest's driver says of it.
    fn usage<'a>(&self, limits: &'a Limits, fuel_left: u64) -> Usage<'a> {
        let limiter = self.machine.limiter();
        Usage {
            limits,
            fuel_limit: self.fuel_limit,
            fuel_left,
            elapsed: self.machine.ctx().elapsed(),
            memory_used_bytes: limiter.used_bytes(),
            memory_refused_bytes: limiter.refused_bytes(),
            trapped: self.machine.trapped(),
        }
    }

    /// Runs a script. Without an image the instance is a plain command, which has its script already.
    pub fn run(
        &mut self,
        image: Option<ImageDriver<'_>>,
        limits: &Limits,
        script: &Script<'_>,
    ) -> Result<CallResult, DriverError> {
        self.begin(limits)?;
        let driver = image.map(|image| image.driver);
        if let Err(stop) = self.machine.ctx().check() {
            // It was not entered, so it can be later.
            let end = CallEnd { driver, result: Err(MachineError::Stopped(stop).into()), asked: None };
            let result = self.usage(limits, self.machine.fuel()).conclude(end)?;
            return Ok(CallResult { after: GuestState::Untouched, ..result });
        }
        let result = match image {
            Some(image) => {
                self.machine.ctx_mut().arm(Pokes::of(image.driver, image.anchors)?);
                image.driver.execute(&mut self.machine, image.anchors, script)
            }
            None => self.run_command(),
        };
        let asked = self.machine.ctx_mut().disarm();
        let left = self.end(&result);
        self.usage(limits, left).conclude(CallEnd { driver, result, asked })
    }

    fn run_command(&mut self) -> Result<Report, DriverError> {
        match self.machine.call(Callee::Export("_start"), &[]) {
            Ok(_) | Err(MachineError::Stopped(Stop::Exit(0))) => Ok(Report::Completed(None)),
            Err(error) => Err(error.into()),
        }
    }

    /// Parses a script; the diagnostics, or what stopped the parser, and what the guest is good for afterwards.
    pub fn validate(
        &mut self,
        image: ImageDriver<'_>,
        limits: &Limits,
        script: &Script<'_>,
    ) -> Result<(Vec<Diagnostic>, GuestState), DriverError> {
        self.begin(limits)?;
        let validated = image.driver.validate(&mut self.machine, image.anchors, script);
        let left = self.end(&validated);
        let after = if validated.is_ok() { GuestState::Alive } else { GuestState::Unwound };
        Ok((self.usage(limits, left).diagnose(validated)?, after))
    }

    /// A global variable; what the guest is good for afterwards.
    pub fn get_variable(
        &mut self,
        image: ImageDriver<'_>,
        limits: &Limits,
        name: &str,
    ) -> (Result<Option<GuestValue>, Refusal>, GuestState) {
        let got = self.begin(limits).map(|()| image.driver.get_variable(&mut self.machine, image.anchors, name));
        let (result, after) = self.answer(limits, got);
        (result.map(|value| value.map(GuestValue::from)), after)
    }

    /// Sets a global variable to what `json` says; what the guest is good for afterwards.
    pub fn set_variable(
        &mut self,
        image: ImageDriver<'_>,
        limits: &Limits,
        name: &str,
        json: &str,
    ) -> (Result<(), Refusal>, GuestState) {
        let set = self.begin(limits).map(|()| image.driver.set_variable(&mut self.machine, image.anchors, name, json));
        self.answer(limits, set)
    }

    /// Reads a driver's answer about a variable; one that was never asked for leaves the guest as it was.
    fn answer<T>(
        &self,
        limits: &Limits,
        answer: Result<Result<Result<T, Raised>, DriverError>, DriverError>,
    ) -> (Result<T, Refusal>, GuestState) {
        match answer {
            Ok(answer) => {
                let left = self.end(&answer);
                self.usage(limits, left).answer(answer)
            }
            Err(error) => (Err(Refusal::Driver(error)), GuestState::Untouched),
        }
    }

    /// Runs the exit handlers of a session's interpreter. Handlers that run into a limit are the script's loss, not an error.
    pub fn close(&mut self, image: ImageDriver<'_>, limits: &Limits) -> Result<(), DriverError> {
        self.begin(limits)?;
        let closed = image.driver.close(&mut self.machine, image.anchors);
        self.end(&closed);
        match closed {
            Err(DriverError::Machine(MachineError::Stopped(_))) => Ok(()),
            closed => closed,
        }
    }

    /// What is kept for it.
    pub fn wasi(&self) -> &Wasi {
        self.machine.wasi_ref()
    }

    /// What is kept for it, to be changed.
    pub fn wasi_mut(&mut self) -> &mut Wasi {
        self.machine.wasi()
    }

    /// Grows its memory by whole pages of WebAssembly, whatever is kept free of it. False where that is not to be had.
    pub(crate) fn grow_freely(&mut self, bytes: u64) -> bool {
        let Ok(pages) = u32::try_from(bytes >> 16) else { return false };
        // Files may have taken what is kept free of memory. A guest that could not come back for it would have ruined its session.
        let kept_free = self.machine.limiter_mut().free_all();
        let has_grown = pages == 0 || self.machine.grow(pages).is_ok();
        self.machine.limiter_mut().keep_free(kept_free);
        has_grown
    }
}
