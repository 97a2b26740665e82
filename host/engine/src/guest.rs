//! One guest: an instance of a runtime with its state, and how it is run.

use std::time::Duration;

use glovebox_interpreters::{Callee, Diagnostic, DriverError, Interrupt, Machine, MachineError, Report, Script};
use glovebox_runtimes::rewrite::MutableGlobal;
use glovebox_wasi::{Stop, Wasi};
use wasmtime::{InstancePre, Linker, Module, Store, UpdateDeadline};

use crate::{
    ExecuteError, GuestValue, Limits, Outcome, RaisedOutcome,
    current::{Run, Seen},
    engine::Inner,
    machine::GuestMachine,
    outcome::{Resource, TrapKind},
    runtime::{Drive, Image, Runtime},
    session::Pristine,
    soft_stop::Pokes,
    state::State,
    trap::{Ended, Unwound, classify},
};

/// Fuel while nothing is on the script's bill: instantiating, waking up.
const UNBILLED_FUEL: u64 = u64::MAX;

mod kept;

/// Makes a guest's instance. This and [`pristine`] are the only places where a store is built.
pub(crate) fn instantiate(
    inner: &Inner,
    pre: &InstancePre<State>,
    wasi: Box<Wasi>,
    memory_limit_bytes: u64,
    run: Run,
) -> Result<GuestMachine, ExecuteError> {
    let failed = |error: wasmtime::Error| ExecuteError::Instantiate { reason: format!("{error:#}") };
    let mut store = Store::new(&inner.wasmtime, State::new(wasi, memory_limit_bytes, run));
    store.limiter(|state| &mut state.limiter);
    store.set_fuel(UNBILLED_FUEL).map_err(failed)?;
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|mut context| {
        let fuel_left = context.get_fuel()?;
        let (memory, state) = match context.data().memory {
            Some(memory) => memory.data_and_store_mut(&mut context),
            None => (&mut [][..], context.data_mut()),
        };
        match state.run.tick(&mut Seen { fuel_left, memory }) {
            Ok(()) => Ok(UpdateDeadline::Continue(1)),
            Err(stop) => Err(wasmtime::Error::new(Unwound(stop))),
        }
    });
    let instance = pre.instantiate(&mut store).map_err(|error| {
        // A binary of the caller's own may have a start function, which runs here; the rest is the pool's or the system's.
        let reason = format!("{error:#}");
        match classify(error) {
            Ended::Stopped(stop) => failed_start(format!("was stopped: {stop:?}")),
            Ended::Trapped(TrapKind::Other) => ExecuteError::Instantiate { reason },
            Ended::Trapped(kind) => failed_start(format!("trapped: {kind:?}")),
        }
    })?;
    GuestMachine::new(store, instance).ok_or_else(|| ExecuteError::Instantiate {
        reason: "the binary exports no `memory`, so it is no WASI program".into(),
    })
}

/// Makes an instance of an image that is not a guest: nothing ever runs in it.
pub(crate) fn pristine(
    engine: &wasmtime::Engine,
    module: &Module,
    globals: &[MutableGlobal],
) -> Result<Pristine, ExecuteError> {
    let failed = |error: wasmtime::Error| ExecuteError::Instantiate { reason: format!("{error:#}") };
    let mut linker = Linker::new(engine);
    linker.define_unknown_imports_as_traps(module).map_err(failed)?;
    let mut store = Store::new(engine, ());
    let instance = linker.instantiate(&mut store, module).map_err(failed)?;
    Pristine::new(store, instance, globals).ok_or_else(|| ExecuteError::Instantiate {
        reason: "the image does not export its memory and its globals".into(),
    })
}

fn failed_start(how: String) -> ExecuteError {
    ExecuteError::Instantiate { reason: format!("the binary could not be started: it {how}") }
}

/// What a guest did and what it cost.
pub(crate) struct Ran {
    pub(crate) outcome: Outcome,
    /// The exception by which the script ended when it was asked to stop.
    pub(crate) interrupted: Option<RaisedOutcome>,
    /// The value of the script's last expression, where it has one and was asked for it.
    pub(crate) value: Option<GuestValue>,
    pub(crate) fuel_consumed: u64,
    pub(crate) memory_used_bytes: u64,
    /// What a refused growth would have taken, if one was refused.
    pub(crate) memory_refused_bytes: Option<u64>,
    pub(crate) after: After,
}

/// What a guest is good for after an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// It can be entered again.
    Alive,
    /// As before: it was not entered.
    Untouched,
    /// It left for good: `os._exit`.
    Left,
    /// It was unwound or damaged itself, and must never be entered again.
    Unwound,
}

impl After {
    /// After a call that was ended.
    fn of(stop: &Stop) -> Self {
        if matches!(stop, Stop::Exit(_)) { Self::Left } else { Self::Unwound }
    }
}

/// A guest.
pub(crate) struct Guest {
    pub(crate) machine: GuestMachine,
    /// What the current execution may use: `limits.fuel`, or what is left of its budget.
    fuel_limit: u64,
}

impl Guest {
    /// Makes a guest and wakes it up.
    pub(crate) fn new(
        inner: &Inner,
        runtime: &Runtime,
        wasi: Box<Wasi>,
        limits: &Limits,
        run: Run,
    ) -> Result<Self, ExecuteError> {
        let mut guest = Self::asleep(inner, runtime, wasi, limits, run)?;
        if let Drive::Image(image) = &runtime.drive {
            image.driver.awaken(&mut guest.machine, &image.anchors).map_err(unanswered)?;
        }
        Ok(guest)
    }

    /// Makes a guest as its image is.
    pub(crate) fn asleep(
        inner: &Inner,
        runtime: &Runtime,
        wasi: Box<Wasi>,
        limits: &Limits,
        run: Run,
    ) -> Result<Self, ExecuteError> {
        let machine = instantiate(inner, &runtime.pre, wasi, limits.memory_bytes, run)?;
        Ok(Self { machine, fuel_limit: limits.fuel })
    }

    /// Begins an execution: a new deadline, full fuel, empty output.
    fn begin(&mut self, limits: &Limits) -> Result<(), ExecuteError> {
        let store = &mut self.machine.store;
        self.fuel_limit = store.data().run.budget().within(limits.fuel);
        store.set_fuel(self.fuel_limit).map_err(|error| ExecuteError::Driver(format!("{error:#}")))?;
        store.set_epoch_deadline(1);
        let State { limiter, run, .. } = store.data_mut();
        limiter.begin(run.tool_account().cloned().unwrap_or_default());
        self.machine.trapped = None;
        Ok(())
    }

    /// Ends an execution: takes its fuel from the budget, and says what it has left. What was stopped from outside may have used
    /// more than is known, so that its budget pays for all that it was allowed.
    fn end<T>(&self, result: &Result<T, DriverError>) -> u64 {
        let left = self.machine.store.get_fuel().unwrap_or(0);
        let is_known =
            !matches!(result, Err(DriverError::Machine(MachineError::Stopped(Stop::Deadline | Stop::Cancelled))));
        let used = self.fuel_limit.saturating_sub(if is_known { left } else { 0 });
        self.machine.store.data().run.budget().spend(used);
        left
    }

    /// Runs a script.
    pub(crate) fn run(&mut self, runtime: &Runtime, limits: &Limits, script: &Script<'_>) -> Result<Ran, ExecuteError> {
        self.begin(limits)?;
        if let Err(stop) = self.machine.store.data().run.check() {
            // It was not entered, so it can be later.
            let ran = self.conclude(runtime, limits, Err(MachineError::Stopped(stop).into()), None, self.fuel_limit)?;
            return Ok(Ran { after: After::Untouched, ..ran });
        }
        let result = match &runtime.drive {
            Drive::Image(image) => {
                self.machine.store.data_mut().run.arm(pokes(image).map_err(unanswered)?);
                image.driver.execute(&mut self.machine, &image.anchors, script)
            }
            Drive::Command { .. } => self.run_command(),
        };
        let asked = self.machine.store.data_mut().run.disarm();
        let left = self.end(&result);
        self.conclude(runtime, limits, result, asked, left)
    }

    /// Parses a script; the diagnostics, or what stopped the parser.
    pub(crate) fn validate(
        &mut self,
        image: &Image,
        limits: &Limits,
        script: &Script<'_>,
    ) -> Result<Vec<Diagnostic>, ExecuteError> {
        self.begin(limits)?;
        let validated = image.driver.validate(&mut self.machine, &image.anchors, script);
        self.end(&validated);
        match validated {
            Ok(diagnostics) => Ok(diagnostics),
            // The parser itself met a limit: that is what is wrong with the source.
            Err(DriverError::Machine(MachineError::Stopped(stop))) => Ok(vec![Diagnostic {
                line: 1,
                column: 1,
                message: format!("the parser was stopped: {}", self.stopped(limits, stop).describe()),
            }]),
            Err(error) => Err(unanswered(error)),
        }
    }

    /// What the host keeps for it.
    pub(crate) fn wasi(&self) -> &Wasi {
        &self.machine.store.data().wasi
    }

    /// What the host keeps for it, to be changed.
    pub(crate) fn wasi_mut(&mut self) -> &mut Wasi {
        &mut self.machine.store.data_mut().wasi
    }

    fn run_command(&mut self) -> Result<Report, DriverError> {
        match self.machine.call(Callee::Export("_start"), &[]) {
            Ok(_) | Err(MachineError::Stopped(Stop::Exit(0))) => Ok(Report::Completed(None)),
            Err(error) => Err(error.into()),
        }
    }

    /// Turns a driver's answer into an outcome: the one place where that is decided.
    fn conclude(
        &mut self,
        runtime: &Runtime,
        limits: &Limits,
        result: Result<Report, DriverError>,
        asked: Option<Interrupt>,
        mut fuel_left: u64,
    ) -> Result<Ran, ExecuteError> {
        let mut interrupted = None;
        let refused = self.machine.store.data().limiter.refused_bytes;
        let mut value = None;
        let (outcome, after) = match result {
            Ok(Report::Completed(shown)) => {
                value = shown.map(GuestValue::from);
                (Outcome::Completed, After::Alive)
            }
            Ok(Report::Exited(code)) => (Outcome::Exited { code }, After::Alive),
            Ok(Report::Interrupted(raised)) if let Some(interrupt) = asked => {
                interrupted = Some(raised.into());
                if interrupt == Interrupt::Fuel {
                    // How far it came is the host's scheduling; what it was allowed is used.
                    fuel_left = 0;
                }
                (self.interrupted(limits, interrupt), After::Alive)
            }
            // Without having been asked, a guest that says so made it up.
            Ok(Report::Raised(raised) | Report::Interrupted(raised)) => {
                let ran_out = runtime.image().is_some_and(|image| image.driver.is_out_of_memory(&raised));
                match refused {
                    Some(used) if ran_out => (exhausted(Resource::Memory, limits.memory_bytes, used), After::Alive),
                    _ => (Outcome::Raised(raised.into()), After::Alive),
                }
            }
            Err(DriverError::Machine(MachineError::Stopped(stop))) => {
                let after = After::of(&stop);
                (self.stopped(limits, stop), after)
            }
            // The guest gave its driver addresses or reports that its driver never gives.
            Err(DriverError::Report(_) | DriverError::Machine(_)) if runtime.image().is_some() => {
                (Outcome::Trapped { trap: TrapKind::BadReport }, After::Unwound)
            }
            Err(error) => return Err(unanswered(error)),
        };
        Ok(Ran {
            fuel_consumed: self.fuel_limit.saturating_sub(fuel_left),
            memory_used_bytes: self.machine.store.data().limiter.used_bytes(),
            memory_refused_bytes: refused,
            outcome,
            value,
            interrupted,
            after,
        })
    }

    /// What a script that ended when it was asked to has as its outcome: what it would have been unwound for.
    fn interrupted(&self, limits: &Limits, interrupt: Interrupt) -> Outcome {
        match interrupt {
            Interrupt::Fuel => exhausted(Resource::Fuel, self.fuel_limit, self.fuel_limit),
            Interrupt::Time => {
                let used = self.machine.store.data().run.begun.elapsed();
                exhausted(Resource::Time, limits.timeout_ms, u64::try_from(used.as_millis()).unwrap_or(u64::MAX))
            }
            Interrupt::Cancelled => Outcome::Cancelled,
        }
    }

    fn stopped(&self, limits: &Limits, stop: Stop) -> Outcome {
        let state = self.machine.store.data();
        match stop {
            Stop::Exit(code) => Outcome::Exited { code },
            Stop::OutOfFuel => exhausted(Resource::Fuel, self.fuel_limit, self.fuel_limit),
            Stop::Deadline => {
                let over = state.run.begun.elapsed().max(Duration::from_millis(limits.timeout_ms));
                exhausted(Resource::Time, limits.timeout_ms, u64::try_from(over.as_millis()).unwrap_or(u64::MAX))
            }
            Stop::Cancelled => Outcome::Cancelled,
            // An interpreter that gets no memory where it cannot go on without aborts.
            _ => match (state.limiter.refused_bytes, self.machine.trapped) {
                (Some(used), Some(TrapKind::Unreachable)) => exhausted(Resource::Memory, limits.memory_bytes, used),
                (_, trap) => Outcome::Trapped { trap: trap.unwrap_or(TrapKind::Other) },
            },
        }
    }
}

/// What asks this image's interpreter to stop.
fn pokes(image: &Image) -> Result<Pokes, DriverError> {
    let of = |interrupt| image.driver.interrupt(&image.anchors, interrupt);
    Ok(Pokes {
        fuel: of(Interrupt::Fuel)?,
        time: of(Interrupt::Time)?,
        cancelled: of(Interrupt::Cancelled)?,
        nudge: image.driver.nudge(&image.anchors)?,
    })
}

fn exhausted(resource: Resource, limit: u64, used: u64) -> Outcome {
    Outcome::Exhausted { resource, limit, used }
}

fn unanswered(error: DriverError) -> ExecuteError {
    ExecuteError::Driver(error.to_string())
}
