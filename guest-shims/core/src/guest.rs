//! One guest: an instance of a prepared image or of a plain command, and every call that is made into it.

use std::time::Duration;

use glovebox_interpreters::{
    Anchors, Callee, Diagnostic, Driver, DriverError, Machine, MachineError, Raised, Report, Script,
};
use glovebox_wasi::{Captured, Output, Stop, Stream, Wasi};

use crate::{
    CallEnd, CallResult, ExecutionCtx, GuestHost, GuestState, GuestValue, InterruptWords, Limits, Outcome, Platform,
    Refusal, Usage, name_limit, session::Pages, tools::ToolRecord,
};

/// How a prepared image is called.
#[derive(Clone, Copy)]
pub struct ImageDriver<'a> {
    /// What calls its interpreter.
    pub driver: &'a dyn Driver,
    /// Addresses in the image.
    pub anchors: &'a Anchors,
}

/// What a platform gives for an instance, beside what its driver sees of it.
pub trait GuestMachine: Machine {
    /// What the platform gives executions.
    type Platform: Platform;

    /// The fuel that is left.
    fn fuel(&self) -> u64;

    /// Sets the fuel that is left, before a call.
    fn set_fuel(&mut self, fuel: u64) -> Result<(), MachineError>;

    /// Writes pages into the memory, which holds the image. False: one of them lies beyond its end.
    fn write_pages(&mut self, pages: &Pages) -> bool {
        pages.write_with(|at, page| self.write(at, page).is_ok())
    }

    /// What the sandbox holds for the guest.
    fn host(&self) -> &GuestHost<Self::Platform>;

    /// The same, to be changed.
    fn host_mut(&mut self) -> &mut GuestHost<Self::Platform>;
}

/// What an execution wrote and asked for.
#[derive(Debug)]
pub struct Written {
    /// What it wrote to its streams, as far as it was retained.
    pub output: Output,
    /// The tools it called.
    pub tool_calls: Vec<ToolRecord>,
    /// How long it took.
    pub duration: Duration,
}

/// What flushing the streams of a stopped script may use, on nobody's bill: about a hundred times what it needs.
const FLUSH_FUEL: u64 = 5_000_000;

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
        let ctx = &self.machine.host().ctx;
        self.fuel_limit = ctx.platform.fuel_limit(limits.fuel);
        let fuel = self.fuel_limit.saturating_sub(ctx.platform.used_fuel());
        self.machine.set_fuel(fuel)?;
        let GuestHost { limiter, ctx, trapped, .. } = self.machine.host_mut();
        limiter.begin(ctx.tool_account().cloned().unwrap_or_default());
        *trapped = None;
        Ok(())
    }

    /// Ends a call: takes its fuel from the budget, and says what it has left. What was stopped from outside may have used more than is
    /// known, so that its budget pays for all that it was allowed.
    fn end<T>(&self, result: &Result<T, DriverError>) -> u64 {
        let left = self.machine.fuel();
        let is_known =
            !matches!(result, Err(DriverError::Machine(MachineError::Stopped(Stop::Deadline | Stop::Cancelled))));
        self.ctx().platform.spend(self.fuel_limit.saturating_sub(if is_known { left } else { 0 }));
        left
    }

    /// What is known of the current call beside what the guest's driver says of it.
    fn usage<'a>(&self, limits: &'a Limits, fuel_left: u64) -> Usage<'a> {
        let GuestHost { limiter, ctx, trapped, .. } = self.machine.host();
        Usage {
            limits,
            fuel_limit: self.fuel_limit,
            fuel_left,
            elapsed: ctx.elapsed(),
            memory_used_bytes: limiter.used_bytes(),
            memory_refused_bytes: limiter.refused_bytes(),
            trapped: *trapped,
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
        if let Err(stop) = self.ctx().check() {
            // It was not entered, so it can be later.
            let end = CallEnd { driver, result: Err(MachineError::Stopped(stop).into()), asked: None };
            let result = self.usage(limits, self.machine.fuel()).conclude(end)?;
            return Ok(CallResult { after: GuestState::Untouched, ..result });
        }
        let result = match image {
            Some(image) => {
                self.ctx_mut().arm(InterruptWords::of(image.driver, image.anchors)?);
                image.driver.execute(&mut self.machine, image.anchors, script)
            }
            None => self.run_command(),
        };
        let asked = self.ctx_mut().disarm();
        let left = self.end(&result);
        if let (Some(image), Err(DriverError::Machine(MachineError::Stopped(stop)))) = (image, &result)
            && matches!(stop, Stop::OutOfFuel | Stop::Deadline | Stop::Cancelled)
        {
            self.flush_streams(image);
        }
        self.usage(limits, left).conclude(CallEnd { driver, result, asked })
    }

    /// Has the interpreter write out what a stopped script printed last. Whatever fails is ignored: the guest is gone.
    fn flush_streams(&mut self, image: ImageDriver<'_>) {
        if self.machine.set_fuel(FLUSH_FUEL).is_ok() {
            let _ = image.driver.flush_streams(&mut self.machine, image.anchors);
        }
    }

    fn run_command(&mut self) -> Result<Report, DriverError> {
        match self.machine.call(Callee::Export("_start"), &[]) {
            Ok(_) | Err(MachineError::Stopped(Stop::Exit(0))) => Ok(Report::Completed(None)),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes what an execution wrote, and ends its calls of tools. `printed`: what stands on standard error in place of what the guest
    /// wrote there. Where a limit ended the script, the last line there names it.
    pub fn written(&mut self, outcome: &Outcome, limits: &Limits, printed: Option<Captured>) -> Written {
        let GuestHost { wasi, ctx, .. } = self.machine.host_mut();
        let (duration, tool_calls) = (ctx.elapsed(), ctx.end_tools());
        let mut output = wasi.take_output();
        if let Some(printed) = printed {
            ctx.platform.output(Stream::Stderr, &printed.bytes);
            output.stderr = printed;
        }
        if let Some(line) = name_limit(outcome, &mut output.stderr, limits.stderr_bytes) {
            ctx.platform.output(Stream::Stderr, line.as_bytes());
        }
        Written { output, tool_calls, duration }
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

    /// What the sandbox holds for it.
    pub fn wasi(&self) -> &Wasi {
        &self.machine.host().wasi
    }

    /// What the sandbox holds for it, to be changed.
    pub fn wasi_mut(&mut self) -> &mut Wasi {
        &mut self.machine.host_mut().wasi
    }

    /// The current execution.
    pub fn ctx(&self) -> &ExecutionCtx<M::Platform> {
        &self.machine.host().ctx
    }

    /// The same, to be changed.
    pub fn ctx_mut(&mut self) -> &mut ExecutionCtx<M::Platform> {
        &mut self.machine.host_mut().ctx
    }

    /// Grows its memory by whole pages of WebAssembly, whatever is reserved of it. False where that is not to be had.
    pub(crate) fn grow_freely(&mut self, bytes: u64) -> bool {
        let Ok(pages) = u32::try_from(bytes >> 16) else { return false };
        // Files may have taken what is reserved of memory. A guest that could not come back for it would have ruined its session.
        let reserved = self.machine.host_mut().limiter.free_all();
        let has_grown = pages == 0 || self.machine.grow(pages).is_ok();
        self.machine.host_mut().limiter.keep_free(reserved);
        has_grown
    }
}
