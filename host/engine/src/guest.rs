//! One guest: an instance of a runtime with its state, and how it is run.

use glovebox_core::{After, Ending, MemoryLimit, Pokes, Ran, Spent};
use glovebox_interpreters::{Callee, Diagnostic, DriverError, Machine, MachineError, Report, Script};
use glovebox_runtimes::rewrite::MutableGlobal;
use glovebox_wasi::{Stop, Wasi};
use wasmtime::{Instance, InstancePre, Linker, Module, PoolConcurrencyLimitError, Store, UpdateDeadline};

use crate::{
    ExecuteError, Limits, TrapKind,
    current::{Run, Seen},
    engine::Inner,
    machine::GuestMachine,
    runtime::{Drive, Image, Runtime},
    session::Pristine,
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
    memory: MemoryLimit,
    run: Run,
) -> Result<GuestMachine, ExecuteError> {
    let (store, instance) = match instantiate_once(inner, pre, State::new(wasi, memory, run))? {
        // The pool is full: what waits in it for another script makes room.
        (store, Err(error)) if error.is::<PoolConcurrencyLimitError>() && inner.drop_recycled() => {
            let State { wasi, run, .. } = store.into_data();
            instantiate_once(inner, pre, State::new(wasi, memory, run))?
        }
        made => made,
    };
    let instance = instance.map_err(|error| {
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

/// A store and what became of an instance in it.
type Made = (Store<State>, wasmtime::Result<Instance>);

fn instantiate_once(inner: &Inner, pre: &InstancePre<State>, state: State) -> Result<Made, ExecuteError> {
    let failed = |error: wasmtime::Error| ExecuteError::Instantiate { reason: format!("{error:#}") };
    let mut store = Store::new(&inner.wasmtime, state);
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
    let instance = pre.instantiate(&mut store);
    Ok((store, instance))
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

/// A guest.
pub(crate) struct Guest {
    pub(crate) machine: GuestMachine,
    /// What the current execution may use: `limits.fuel`, or what is left of its budget.
    fuel_limit: u64,
}

impl Guest {
    /// Makes a guest of a new instance and wakes it up.
    pub(crate) fn new(
        inner: &Inner,
        runtime: &Runtime,
        wasi: Box<Wasi>,
        limits: &Limits,
        run: Run,
    ) -> Result<Self, ExecuteError> {
        Self::awake(runtime, instantiate(inner, &runtime.pre, wasi, runtime.memory_limit(limits), run)?, limits)
    }

    /// Makes a guest that runs one script, of an instance that has run others where there is one.
    pub(crate) fn one_shot(
        inner: &Inner,
        runtime: &Runtime,
        wasi: Box<Wasi>,
        limits: &Limits,
        run: Run,
    ) -> Result<Self, ExecuteError> {
        let Some((recycled, mut machine)) = runtime.recycled.as_ref().and_then(|all| Some((all, all.take()?))) else {
            return Self::new(inner, runtime, wasi, limits, run);
        };
        let failed = |error: wasmtime::Error| ExecuteError::Instantiate { reason: format!("{error:#}") };
        machine.store.set_fuel(UNBILLED_FUEL).map_err(failed)?;
        machine.store.set_epoch_deadline(1);
        if let Err(refused) = machine.renew(State::new(wasi, runtime.memory_limit(limits), run)) {
            // A new one is refused as well, and that says why.
            let State { wasi, run, .. } = *refused;
            recycled.put_back(machine);
            return Self::new(inner, runtime, wasi, limits, run);
        }
        Self::awake(runtime, machine, limits)
    }

    fn awake(runtime: &Runtime, machine: GuestMachine, limits: &Limits) -> Result<Self, ExecuteError> {
        let mut guest = Self { machine, fuel_limit: limits.fuel };
        if let Drive::Image(image) = &runtime.drive {
            image.driver.reseed(&mut guest.machine, &image.anchors).map_err(unanswered)?;
        }
        Ok(guest)
    }

    /// Makes a session's guest as its image is.
    pub(crate) fn asleep(
        inner: &Inner,
        runtime: &Runtime,
        wasi: Box<Wasi>,
        limits: &Limits,
        run: Run,
    ) -> Result<Self, ExecuteError> {
        let machine = instantiate(inner, &runtime.pre, wasi, runtime.memory_limit(limits), run)?;
        Ok(Self { machine, fuel_limit: limits.fuel })
    }

    /// Begins an execution: a new deadline, full fuel, empty output.
    fn begin(&mut self, limits: &Limits) -> Result<(), ExecuteError> {
        let store = &mut self.machine.store;
        self.fuel_limit = store.data().run.budget().within(limits.fuel);
        let fuel = self.fuel_limit.saturating_sub(store.data().run.used_fuel());
        store.set_fuel(fuel).map_err(|error| ExecuteError::Driver(format!("{error:#}")))?;
        store.set_epoch_deadline(1);
        let State { limiter, run, .. } = store.data_mut();
        limiter.memory.begin(run.tool_account().cloned().unwrap_or_default());
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
        let driver = runtime.image().map(|image| &*image.driver);
        if let Err(stop) = self.machine.store.data().run.check() {
            // It was not entered, so it can be later.
            let ending = Ending { driver, result: Err(MachineError::Stopped(stop).into()), asked: None };
            let left = self.machine.store.get_fuel().unwrap_or(self.fuel_limit);
            let ran = self.spent(limits, left).conclude(ending).map_err(unanswered)?;
            return Ok(Ran { after: After::Untouched, ..ran });
        }
        let result = match &runtime.drive {
            Drive::Image(image) => {
                let pokes = Pokes::of(&*image.driver, &image.anchors).map_err(unanswered)?;
                self.machine.store.data_mut().run.arm(pokes);
                image.driver.execute(&mut self.machine, &image.anchors, script)
            }
            Drive::Command { .. } => self.run_command(),
        };
        let asked = self.machine.store.data_mut().run.disarm();
        let left = self.end(&result);
        self.spent(limits, left).conclude(Ending { driver, result, asked }).map_err(unanswered)
    }

    /// Parses a script; the diagnostics, or what stopped the parser, and what it left the guest as.
    pub(crate) fn validate(
        &mut self,
        image: &Image,
        limits: &Limits,
        script: &Script<'_>,
    ) -> Result<(Vec<Diagnostic>, After), ExecuteError> {
        self.begin(limits)?;
        let validated = image.driver.validate(&mut self.machine, &image.anchors, script);
        let left = self.end(&validated);
        let after = if validated.is_ok() { After::Alive } else { After::Unwound };
        Ok((self.spent(limits, left).diagnose(validated).map_err(unanswered)?, after))
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

    /// What is known of the current execution beside what the guest's driver says of it.
    fn spent<'a>(&self, limits: &'a Limits, fuel_left: u64) -> Spent<'a> {
        let State { limiter, run, .. } = self.machine.store.data();
        Spent {
            limits,
            fuel_limit: self.fuel_limit,
            fuel_left,
            elapsed: run.begun.elapsed(),
            memory_used_bytes: limiter.memory.used_bytes(),
            memory_refused_bytes: limiter.memory.refused_bytes(),
            trapped: self.machine.trapped,
        }
    }
}

fn unanswered(error: DriverError) -> ExecuteError {
    ExecuteError::Driver(error.to_string())
}
