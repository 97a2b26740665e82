//! One guest, and how it is run.

use std::rc::Rc;

use glovebox_core::{After, Ending, GuestValue, Limits, Pokes, Ran, Refusal, Spent};
use glovebox_interpreters::{Diagnostic, DriverError, MachineError, Script};
use glovebox_wasi::Wasi;

use crate::{
    GuestMachine, GuestMemory, Run, Runtime, State, World, bindings::types::SandboxError, error::unanswered,
    wasi_host::CallHost,
};

/// Fuel while nothing is on the script's bill: waking up.
const UNBILLED_FUEL: u64 = u64::MAX;

/// A guest. While it lives, the memory of its runtime is its own: there is one at a time.
#[derive(Debug)]
pub struct Guest {
    /// What its driver sees of it.
    pub machine: GuestMachine,
    runtime: Rc<Runtime>,
}

impl Guest {
    /// A guest as its image is. Whoever was in that memory before is gone; a session is put away.
    pub fn asleep(
        world: &World,
        runtime: &Rc<Runtime>,
        wasi: Wasi,
        limits: &Limits,
        run: Run,
    ) -> Result<Self, SandboxError> {
        let mut state = State::new(wasi, runtime.memory_limit(limits), run);
        if !state.limiter.grow(0, runtime.memory_bytes(), None) {
            return Err(SandboxError::Unavailable(format!(
                "`limits.memory-bytes` has no room for `{}` and what its guest begins with",
                runtime.name
            )));
        }
        runtime.residence.vacate()?;
        let memory = GuestMemory::new(Rc::clone(&world.guests), runtime.number);
        memory.reset(runtime.memory_pages, &runtime.image);
        let mut machine = GuestMachine::new(Rc::clone(runtime), memory, state);
        machine.set_fuel(UNBILLED_FUEL);
        let guest = Self { machine, runtime: Rc::clone(runtime) };
        guest.reset_globals();
        Ok(guest)
    }

    /// Gives its globals the values that they have in the image, and between two calls into a guest.
    pub(crate) fn reset_globals(&self) {
        let guests = self.machine.memory().guests();
        for (number, global) in (0..).zip(&self.runtime.globals) {
            guests.global_set(self.runtime.number, number, global.value);
        }
    }

    /// A new guest, awake.
    pub fn new(
        world: &World,
        runtime: &Rc<Runtime>,
        wasi: Wasi,
        limits: &Limits,
        run: Run,
    ) -> Result<Self, SandboxError> {
        let mut guest = Self::asleep(world, runtime, wasi, limits, run)?;
        runtime.driver.reseed(&mut guest.machine, &runtime.anchors).map_err(|error| unanswered(&error))?;
        Ok(guest)
    }

    /// The runtime it is one of.
    #[must_use]
    pub fn runtime(&self) -> &Rc<Runtime> {
        &self.runtime
    }

    /// Begins an execution: full fuel, nothing refused yet.
    fn begin(&mut self, limits: &Limits) {
        self.machine.set_fuel(limits.fuel);
        let State { limiter, run, .. } = &mut *self.machine.state;
        limiter.begin(run.tool_account().cloned().unwrap_or_default());
        self.machine.trapped = None;
    }

    /// What is known of the current execution beside what the guest's driver says of it.
    fn spent<'a>(&self, limits: &'a Limits) -> Spent<'a> {
        let State { limiter, run, .. } = &*self.machine.state;
        Spent {
            limits,
            fuel_limit: limits.fuel,
            fuel_left: self.machine.fuel(),
            elapsed: run.elapsed(),
            memory_used_bytes: limiter.used_bytes(),
            memory_refused_bytes: limiter.refused_bytes(),
            trapped: self.machine.trapped,
        }
    }

    /// Runs a script.
    pub fn run(&mut self, limits: &Limits, script: &Script<'_>) -> Result<Ran, SandboxError> {
        self.begin(limits);
        let runtime = Rc::clone(&self.runtime);
        let conclude = |guest: &Self, result, asked| {
            let ending = Ending { driver: Some(&*runtime.driver), result, asked };
            guest.spent(limits).conclude(ending).map_err(|error| unanswered(&error))
        };
        if let Err(stop) = self.machine.state.run.check() {
            // It was not entered, so it can be later.
            let ran = conclude(self, Err(MachineError::Stopped(stop).into()), None)?;
            return Ok(Ran { after: After::Untouched, ..ran });
        }
        let pokes = Pokes::of(&*runtime.driver, &runtime.anchors).map_err(|error| unanswered(&error))?;
        self.machine.state.run.arm(pokes);
        let result = runtime.driver.execute(&mut self.machine, &runtime.anchors, script);
        let asked = self.machine.state.run.disarm();
        conclude(self, result, asked)
    }

    /// Parses a script; the diagnostics, or what stopped the parser.
    pub fn validate(&mut self, limits: &Limits, script: &Script<'_>) -> Result<Vec<Diagnostic>, SandboxError> {
        self.begin(limits);
        let runtime = Rc::clone(&self.runtime);
        let validated = runtime.driver.validate(&mut self.machine, &runtime.anchors, script);
        self.spent(limits).diagnose(validated).map_err(|error| unanswered(&error))
    }

    /// What is kept for it, beside its memory.
    #[must_use]
    pub fn wasi(&self) -> &Wasi {
        &self.machine.state.wasi
    }

    /// What is kept for it, to be changed.
    pub fn wasi_mut(&mut self) -> &mut Wasi {
        &mut self.machine.state.wasi
    }

    /// Wakes a guest up that scripts have been run in: what they left in it runs on their bill.
    pub fn awaken_within(&mut self, limits: &Limits) -> Result<(), SandboxError> {
        self.begin(limits);
        let runtime = Rc::clone(&self.runtime);
        runtime.driver.reseed(&mut self.machine, &runtime.anchors).map_err(|error| unanswered(&error))
    }

    /// Its WASI state as it can be saved: the monotonic clock without this instance's share.
    #[must_use]
    pub fn settled_wasi(&mut self) -> Wasi {
        let mut wasi = self.machine.state.wasi.clone();
        let mut memory = self.machine.memory().clone();
        wasi.settle_clock(&mut CallHost::new(&mut memory, &mut self.machine.state.run, u64::MAX));
        wasi
    }

    /// A global variable; what the guest is good for afterwards.
    pub fn get_variable(&mut self, limits: &Limits, name: &str) -> (Result<Option<GuestValue>, Refusal>, After) {
        self.begin(limits);
        let runtime = Rc::clone(&self.runtime);
        let got = runtime.driver.get_variable(&mut self.machine, &runtime.anchors, name);
        let (result, after) = self.spent(limits).answer(got);
        (result.map(|value| value.map(GuestValue::from)), after)
    }

    /// Sets a global variable to what `json` says; what the guest is good for afterwards.
    pub fn set_variable(&mut self, limits: &Limits, name: &str, json: &str) -> (Result<(), Refusal>, After) {
        self.begin(limits);
        let runtime = Rc::clone(&self.runtime);
        let set = runtime.driver.set_variable(&mut self.machine, &runtime.anchors, name, json);
        self.spent(limits).answer(set)
    }

    /// Runs the exit handlers of a kept interpreter. Handlers that run into a limit are the script's loss, not an error.
    pub fn close(&mut self, limits: &Limits) -> Result<(), SandboxError> {
        self.begin(limits);
        let runtime = Rc::clone(&self.runtime);
        match runtime.driver.close(&mut self.machine, &runtime.anchors) {
            Ok(()) | Err(DriverError::Machine(MachineError::Stopped(_))) => Ok(()),
            Err(error) => Err(unanswered(&error)),
        }
    }
}
