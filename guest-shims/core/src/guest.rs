//! A guest (an instance of a prepared image or of a plain command) and all calls into it. Also the WASI environment in
//! which an image boots and its instances resume.

use std::{sync::Arc, time::Duration};

use glovebox_interpreters::{
    Anchors, Callee, Diagnostic, Driver, DriverError, Machine, MachineError, RaisedOutcome, Report, Script, WORKSPACE,
};
use glovebox_vfs::{Access, MountSource, Vfs, VfsLimits};
use glovebox_wasi::{
    CapturedStream, Clock as WasiClock, Entropy as WasiEntropy, Mount, Output, Stop, Stream, Wasi, WasiConfig,
    WasiError,
};

use crate::{
    CallEnd, CallResult, Clock, Entropy, ExecutionCtx, GuestHost, GuestState, GuestValue, InterruptWords, Limits,
    Outcome, Platform, Refusal, Usage, name_limit, session::Pages, tools::ToolRecord,
};

/// A prepared image's driver, and the addresses that it needs.
#[derive(Clone, Copy)]
pub struct ImageDriver<'a> {
    /// The driver, which calls the image's interpreter.
    pub driver: &'a dyn Driver,
    /// Addresses within the image.
    pub anchors: &'a Anchors,
}

/// An instance, with the operations that a guest needs in addition to those of [`Machine`].
pub trait GuestMachine: Machine {
    /// The platform of the instance's executions.
    type Platform: Platform;

    /// Returns the remaining fuel.
    fn fuel(&mut self) -> u64;

    /// Sets the remaining fuel before a call.
    fn set_fuel(&mut self, fuel: u64) -> Result<(), MachineError>;

    /// Writes pages to the memory of a new instance of the image. Returns `false` if a page is beyond the end of
    /// memory.
    fn write_pages(&mut self, pages: &Pages) -> bool {
        pages.write_with(|at, page| self.write(at, page).is_ok())
    }

    /// Returns the host's state for this guest.
    fn host(&self) -> &GuestHost<Self::Platform>;

    /// Returns a mutable reference to the host's state for this guest.
    fn host_mut(&mut self) -> &mut GuestHost<Self::Platform>;
}

/// The output and the tool calls of an execution.
#[derive(Debug)]
pub struct CollectedOutput {
    /// The retained output.
    pub output: Output,
    /// The records of the tool calls.
    pub tool_calls: Vec<ToolRecord>,
    /// The duration of the execution.
    pub duration: Duration,
}

/// Fuel for flushing a stopped script's streams, about a hundred times the usual cost. Not charged to the script.
const FLUSH_FUEL: u64 = 5_000_000;

/// An instance and its fuel limit.
#[derive(Debug)]
pub struct Guest<M> {
    /// The instance of the image or the command.
    pub machine: M,
    /// The fuel limit of the current call: `limits.fuel`, or a budget's remaining fuel.
    fuel_limit: u64,
}

impl<M: GuestMachine> Guest<M> {
    /// Wraps a new instance of an image or of a plain command.
    pub fn new(machine: M, limits: &Limits) -> Self {
        Self { machine, fuel_limit: limits.fuel }
    }

    /// Reseeds the random number generators of a new or restored instance. Runs no code of the guest.
    ///
    /// # Errors
    /// Fails if the guest does not match its driver.
    pub fn reseed(&mut self, image: ImageDriver<'_>) -> Result<(), DriverError> {
        image.driver.reseed(&mut self.machine, image.anchors)
    }

    /// Begins a call: sets its fuel, and clears the traps and refusals of the previous call.
    fn begin(&mut self, limits: &Limits) -> Result<(), DriverError> {
        let ctx = &self.machine.host().ctx;
        self.fuel_limit = ctx.platform.fuel_limit(limits.fuel);
        let fuel = self.fuel_limit.saturating_sub(ctx.platform.used_fuel());
        self.machine.set_fuel(fuel)?;
        let GuestHost { limiter, ctx, trapped, .. } = self.machine.host_mut();
        ctx.begin_fuel(fuel);
        limiter.begin(ctx.tool_account().cloned().unwrap_or_default());
        *trapped = None;
        Ok(())
    }

    /// Ends a call, charges the budget and returns the remaining fuel. If a call was stopped from outside, its exact
    /// fuel use is unknown, so the whole allowance is charged. A suspension stops the guest in a host call, so its fuel
    /// use is known.
    fn end<T>(&mut self, result: &Result<T, DriverError>) -> u64 {
        let left = self.machine.fuel();
        let is_stopped =
            matches!(result, Err(DriverError::Machine(MachineError::Stopped(Stop::Deadline | Stop::Cancelled))));
        let is_known = !is_stopped || self.ctx().is_suspended();
        self.ctx().platform.spend(self.fuel_limit.saturating_sub(if is_known { left } else { 0 }));
        left
    }

    /// Returns the host's measurements of the current call.
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

    /// Runs a script. Without an image, runs the plain command that was started with the script.
    ///
    /// # Errors
    /// Fails if the guest does not match its driver. A script that fails or reaches a limit is an outcome, not an
    /// error.
    pub fn run(
        &mut self,
        image: Option<ImageDriver<'_>>,
        limits: &Limits,
        script: &Script<'_>,
    ) -> Result<CallResult, DriverError> {
        self.begin(limits)?;
        let driver = image.map(|image| image.driver);
        if let Err(stop) = self.ctx().check() {
            // The guest was not entered, so it stays usable.
            let end = CallEnd { driver, result: Err(MachineError::Stopped(stop).into()), interrupt: None };
            let left = self.machine.fuel();
            let result = self.usage(limits, left).conclude(end)?;
            return Ok(CallResult { after: GuestState::Untouched, ..result });
        }
        let result = match image {
            Some(image) => {
                self.ctx_mut().arm(InterruptWords::of(image.driver, image.anchors)?);
                image.driver.execute(&mut self.machine, image.anchors, script)
            }
            None => self.run_command(),
        };
        let interrupt = self.ctx_mut().disarm();
        let is_stopped = matches!(
            &result,
            Err(DriverError::Machine(MachineError::Stopped(Stop::OutOfFuel | Stop::Deadline | Stop::Cancelled)))
        );
        self.ctx_mut().end_repetition(is_stopped);
        if self.ctx().is_repeating() {
            self.machine.host_mut().forget_events();
        }
        let left = self.end(&result);
        if let (Some(image), Err(DriverError::Machine(MachineError::Stopped(stop)))) = (image, &result)
            && matches!(stop, Stop::OutOfFuel | Stop::Deadline | Stop::Cancelled)
            && !self.ctx().is_abandoned()
        {
            self.flush_streams(image);
        }
        let result = self.usage(limits, left).conclude(CallEnd { driver, result, interrupt })?;
        Ok(CallResult { memory_refused_bytes: self.machine.host().limiter.unreported_bytes(), ..result })
    }

    /// Flushes a stopped script's remaining output through its interpreter. Ignores errors, because the guest is
    /// discarded.
    fn flush_streams(&mut self, image: ImageDriver<'_>) {
        if self.machine.set_fuel(FLUSH_FUEL).is_err() {
            return;
        }
        let written_bytes = self.machine.host().wasi.stderr_bytes();
        self.ctx_mut().hold_stderr();
        // CPython reports a fatal error and traps if the script was stopped while CPython took or released its lock.
        let is_failed = image.driver.flush_streams(&mut self.machine, image.anchors).is_err();
        if is_failed {
            self.machine.host_mut().wasi.shorten_stderr(written_bytes);
        }
        self.ctx_mut().release_stderr(is_failed);
    }

    fn run_command(&mut self) -> Result<Report, DriverError> {
        match self.machine.call(Callee::Export("_start"), &[]) {
            Ok(_) | Err(MachineError::Stopped(Stop::Exit(0))) => Ok(Report::Completed(None)),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes an execution's output and ends its tool calls. `printed` replaces the guest's standard error. If a limit
    /// ended the script, appends a line to standard error that names the limit.
    pub fn take_output(
        &mut self,
        outcome: &Outcome,
        limits: &Limits,
        printed: Option<CapturedStream>,
    ) -> CollectedOutput {
        let GuestHost { wasi, ctx, .. } = self.machine.host_mut();
        let (duration, tool_calls) = (ctx.duration(), ctx.end_tools());
        let mut output = wasi.take_output();
        if let Some(printed) = printed {
            ctx.platform.output(Stream::Stderr, &printed.bytes);
            output.stderr = printed;
        }
        if let Some(line) = name_limit(outcome, &mut output.stderr, limits.stderr_bytes) {
            ctx.platform.output(Stream::Stderr, line.as_bytes());
        }
        CollectedOutput { output, tool_calls, duration }
    }

    /// Parses a script without running it. Returns its diagnostics, or the reason why the parser was stopped, and the
    /// guest's state.
    ///
    /// # Errors
    /// Fails if the guest does not match its driver.
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

    /// Reads a global variable; `None` if the variable does not exist. Also returns the guest's state.
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

    /// Sets a global variable to the value of `json`. Also returns the guest's state.
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

    /// Converts a driver's reply about a variable. The outer error means that the guest was not entered.
    fn answer<T>(
        &mut self,
        limits: &Limits,
        answer: Result<Result<Result<T, RaisedOutcome>, DriverError>, DriverError>,
    ) -> (Result<T, Refusal>, GuestState) {
        match answer {
            Ok(answer) => {
                let left = self.end(&answer);
                self.usage(limits, left).answer(answer)
            }
            Err(error) => (Err(Refusal::Driver(error)), GuestState::Untouched),
        }
    }

    /// Runs the exit handlers of a session's interpreter. A limit or a trap that stops the guest is not an error.
    pub fn close(&mut self, image: ImageDriver<'_>, limits: &Limits) -> Result<(), DriverError> {
        self.begin(limits)?;
        let closed = image.driver.close(&mut self.machine, image.anchors);
        self.end(&closed);
        match closed {
            Err(DriverError::Machine(MachineError::Stopped(_))) => Ok(()),
            closed => closed,
        }
    }

    /// Returns the guest's WASI state.
    pub fn wasi(&self) -> &Wasi {
        &self.machine.host().wasi
    }

    /// Returns a mutable reference to the guest's WASI state.
    pub fn wasi_mut(&mut self) -> &mut Wasi {
        &mut self.machine.host_mut().wasi
    }

    /// Returns the current execution's context.
    pub fn ctx(&self) -> &ExecutionCtx<M::Platform> {
        &self.machine.host().ctx
    }

    /// Returns a mutable reference to the current execution's context.
    pub fn ctx_mut(&mut self) -> &mut ExecutionCtx<M::Platform> {
        &mut self.machine.host_mut().ctx
    }

    /// Grows the memory by `bytes`, rounded down to whole WebAssembly pages. The growth may use the reserve. Returns
    /// `false` if the memory cannot grow.
    pub(crate) fn grow_freely(&mut self, bytes: u64) -> bool {
        let Ok(pages) = u32::try_from(bytes >> 16) else { return false };
        // Without the reserve, which files may already use, the growth could fail and make the saved state unusable.
        let reserved = self.machine.host_mut().limiter.free_all();
        let has_grown = pages == 0 || self.machine.grow(pages).is_ok();
        self.machine.host_mut().limiter.keep_free(reserved);
        has_grown
    }
}

/// Returns the WASI state in which an image boots and resumes, over a new file system. `/app` is the workspace: empty,
/// or with the given files, which the guest may change. The other mounts are read-only.
///
/// A booted libc remembers its preopened directories: `/app` as descriptor 3 and, for mounts, the virtual directory `/`
/// as descriptor 4. All instances of the image must have the same preopens.
pub fn boot_wasi(
    args: Vec<String>,
    env: Vec<(String, String)>,
    workspace: Option<Arc<dyn MountSource>>,
    mounts: Vec<(String, Arc<dyn MountSource>)>,
) -> Result<Wasi, WasiError> {
    let mut vfs = Vfs::new(VfsLimits::default());
    let root = match workspace {
        Some(files) => {
            vfs.add_mount(files, Access::ReadWrite).map_err(|_| WasiError::UnknownRoot(WORKSPACE.to_owned()))?
        }
        None => vfs.add_root(Access::ReadWrite),
    };
    let add = |(path, source): (String, Arc<dyn MountSource>)| match vfs.add_mount(source, Access::ReadOnly) {
        Ok(root) => Ok(Mount::new(path, root)),
        Err(_) => Err(WasiError::UnknownRoot(path)),
    };
    let mounts = mounts.into_iter().map(add).collect::<Result<Vec<_>, _>>()?;
    let mut config = WasiConfig::new(vfs);
    config.mounts = vec![Mount::new(WORKSPACE, root)];
    config.root_preopen = true;
    config.args = args;
    config.env = env;
    config.clock = WasiClock::Fixed { realtime_ns: BOOT_REALTIME_NS, monotonic_ns: BOOT_MONOTONIC_NS };
    config.entropy = WasiEntropy::seeded(0);
    let mut wasi = Wasi::new(config)?;
    for mount in mounts {
        // Mounts are not preopens, because all instances must have the same preopens.
        wasi.add_mount(mount)?;
    }
    wasi.allow_parking(true);
    Ok(wasi)
}

/// An instance's environment outside its memory.
#[derive(Debug)]
pub struct GuestWorld<'a> {
    /// The arguments of a plain command. Empty for an image: its libc retains the arguments of its boot, and the driver
    /// passes a script's arguments to the interpreter.
    pub args: Vec<String>,
    /// The environment variables of a plain command. Empty for an image, like `args`: the driver passes a script's
    /// variables to the interpreter.
    pub env: Vec<(String, String)>,
    /// The file system.
    pub vfs: Vfs,
    /// The mounts into `vfs`, `/app` first.
    pub mounts: Vec<Mount>,
    /// The limits on descriptors and streams.
    pub limits: &'a Limits,
    /// Standard input.
    pub stdin: Vec<u8>,
    /// The clock that the guest reads.
    pub clock: Clock,
    /// The source of random numbers.
    pub entropy: Entropy,
}

impl GuestWorld<'_> {
    /// Returns the WASI state of a new instance.
    ///
    /// # Errors
    /// Fails if a mount, an argument or a variable is invalid.
    pub fn wasi(self) -> Result<Wasi, WasiError> {
        let mut wasi = boot_wasi(self.args, self.env, None, Vec::new())?;
        wasi.allow_parking(false);
        wasi.set_file_system(self.vfs, self.mounts)?;
        wasi.set_limits(self.limits.wasi());
        wasi.set_stdin(self.stdin);
        wasi.set_clock(match self.clock {
            Clock::Host => WasiClock::Host,
            Clock::Fixed(realtime_ns) => WasiClock::Fixed { realtime_ns, monotonic_ns: BOOT_MONOTONIC_NS },
        });
        wasi.set_entropy(self.entropy.wasi());
        Ok(wasi)
    }
}

/// The wall-clock time at boot, in nanoseconds since 1970: 2020-01-01. Later than any file time in the binaries, and
/// earlier than the real time of any execution.
pub const BOOT_REALTIME_NS: u64 = 1_577_836_800_000_000_000;

/// The monotonic clock at boot, in nanoseconds. Every guest's monotonic clock continues from this value.
pub const BOOT_MONOTONIC_NS: u64 = 1_000_000_000;
