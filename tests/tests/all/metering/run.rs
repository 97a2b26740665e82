//! Calls a module while either Wasmtime or the woven counter counts the fuel.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use glovebox_weave::{FUEL_EXPORT, REFUEL_IMPORT};
use wasmtime::{
    Caller, Config, Engine, Extern, Global, Instance, Linker, Module, OptLevel, Store, ThrownException, Trap, Val,
};

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GuestCallEnd {
    /// The call returned these values, as bits.
    Returned(Vec<u64>),
    OutOfFuel,
    /// An uncaught exception ended the call.
    Thrown,
    Trapped(Trap),
}

/// The observable result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallObservation {
    pub(crate) end: GuestCallEnd,
    /// The fuel used, up to the budget. `None` for a call that trapped, because Wasmtime's count is inexact after a
    /// trap.
    pub(crate) used: Option<u64>,
    /// A hash of the memory and its size.
    pub(crate) memory: u64,
    pub(crate) globals: Vec<u64>,
    /// The argument of each host call, and the fuel that remained at that moment.
    pub(crate) calls: Vec<(i32, u64)>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Meter {
    /// Wasmtime: the oracle.
    Wasmtime,
    /// The module itself. The host provides the budget in slices of this size.
    Woven { slice: i64 },
}

#[derive(Default)]
struct Host {
    calls: Vec<(i32, u64)>,
    /// The fuel budget that has not been provided yet.
    reserve: i64,
    slice: i64,
}

/// A compiler of modules with identical settings except for the fuel counter.
pub(crate) struct MeteredEngine {
    engine: Engine,
    meter: Meter,
}

impl MeteredEngine {
    pub(crate) fn new(meter: Meter) -> Self {
        let mut config = Config::new();
        config
            .consume_fuel(matches!(meter, Meter::Wasmtime))
            // The weaver models code with epoch checks, which affect the constants that Wasmtime recognizes.
            .epoch_interruption(true)
            .cranelift_opt_level(OptLevel::None)
            // Woven code has larger frames. With this stack size, every call runs out of fuel first.
            .max_wasm_stack(8 << 20)
            .async_stack_size(16 << 20)
            // NaN results must be equal in both versions.
            .cranelift_nan_canonicalization(true);
        Self { engine: Engine::new(&config).unwrap(), meter }
    }

    pub(crate) fn compile(&self, module: &[u8]) -> Module {
        Module::new(&self.engine, module).unwrap_or_else(|error| panic!("{:?}: {error:?}", self.meter))
    }

    /// Calls one instance with each budget in turn.
    pub(crate) fn run(&self, module: &Module, budgets: &[u64]) -> Vec<CallObservation> {
        let mut store = Store::new(&self.engine, Host::default());
        store.set_epoch_deadline(u64::MAX / 2);
        if let Meter::Woven { slice } = self.meter {
            store.data_mut().slice = slice;
        } else {
            // Start functions and data segments could use fuel, but these modules have neither.
            store.set_fuel(u64::MAX / 2).unwrap();
        }
        let instance = linker(&self.engine).instantiate(&mut store, module).unwrap();
        budgets.iter().map(|&budget| call(&mut store, instance, budget)).collect()
    }
}

fn linker(engine: &Engine) -> Linker<Host> {
    let mut linker = Linker::new(engine);
    let wasi = "wasi_snapshot_preview1";
    linker.func_wrap(wasi, "sched_yield", |caller: Caller<'_, Host>| host_call(caller, -1)).unwrap();
    linker.func_wrap(wasi, "fd_close", |caller: Caller<'_, Host>, cost: i32| host_call(caller, cost)).unwrap();
    linker.func_wrap(REFUEL_IMPORT.0, REFUEL_IMPORT.1, refuel).unwrap();
    linker
}

/// Records the remaining fuel, and charges `cost` if it is positive.
fn host_call(mut caller: Caller<'_, Host>, cost: i32) -> i32 {
    let price = u64::try_from(cost).unwrap_or(0);
    let left = if let Some(counter) = counter(&mut caller) {
        let held = counter.get(&mut caller).unwrap_i64() + 1;
        counter.set(&mut caller, Val::I64(held - 1 - i64::try_from(price).unwrap())).unwrap();
        u64::try_from(caller.data().reserve + held).unwrap_or(0)
    } else {
        let left = caller.get_fuel().unwrap();
        caller.set_fuel(left.saturating_sub(price)).unwrap();
        left
    };
    caller.data_mut().calls.push((cost, left));
    cost
}

/// Replaces the engine's function for an exhausted counter. Returns the next slice, or traps as Wasmtime does.
fn refuel(mut caller: Caller<'_, Host>, exhausted: i64) -> wasmtime::Result<i64> {
    let counter = counter(&mut caller).unwrap();
    let held = exhausted + 1;
    assert!(held <= 0, "the module requested fuel while {held} was left");
    let host = caller.data_mut();
    let left = host.reserve + held;
    let slice = left.clamp(0, host.slice);
    host.reserve = (left - slice).max(0);
    counter.set(&mut caller, Val::I64(slice - 1))?;
    if left <= 0 { Err(Trap::OutOfFuel.into()) } else { Ok(slice - 1) }
}

fn counter(caller: &mut Caller<'_, Host>) -> Option<Global> {
    caller.get_export(FUEL_EXPORT).and_then(Extern::into_global)
}

fn call(store: &mut Store<Host>, instance: Instance, budget: u64) -> CallObservation {
    let counter = instance.get_global(&mut *store, FUEL_EXPORT);
    store.data_mut().calls.clear();
    let whole = i64::try_from(budget).unwrap();
    match &counter {
        Some(counter) => {
            let slice = whole.min(store.data().slice);
            store.data_mut().reserve = whole - slice;
            counter.set(&mut *store, Val::I64(slice - 1)).unwrap();
        }
        None => store.set_fuel(budget).unwrap(),
    }

    let run = instance.get_func(&mut *store, "run").unwrap();
    let mut results = vec![Val::I32(0); run.ty(&*store).results().len()];
    let ended = run.call(&mut *store, &[Val::I32(5), Val::I64(-3)], &mut results);

    let left = match &counter {
        Some(counter) => u64::try_from(store.data().reserve + counter.get(&mut *store).unwrap_i64() + 1).unwrap_or(0),
        None => store.get_fuel().unwrap(),
    };
    let end = match ended {
        Ok(()) => GuestCallEnd::Returned(results.iter().map(bits).collect()),
        Err(error) => match error.downcast_ref::<Trap>() {
            Some(Trap::OutOfFuel) => GuestCallEnd::OutOfFuel,
            Some(&trap) => GuestCallEnd::Trapped(trap),
            None if error.is::<ThrownException>() => GuestCallEnd::Thrown,
            None => panic!("{error:?}"),
        },
    };
    let used = (!matches!(end, GuestCallEnd::Trapped(_))).then(|| budget - left);
    let globals = ["ga", "gb", "gc"]
        .into_iter()
        .filter_map(|name| Some(instance.get_global(&mut *store, name)?.get(&mut *store)))
        .map(|value| bits(&value))
        .collect();
    let memory = instance.get_memory(&mut *store, "memory").unwrap();
    let mut hasher = DefaultHasher::new();
    memory.data(&*store).hash(&mut hasher);
    CallObservation { end, used, memory: hasher.finish(), globals, calls: std::mem::take(&mut store.data_mut().calls) }
}

fn bits(value: &Val) -> u64 {
    match *value {
        Val::I32(number) => u64::from(number.cast_unsigned()),
        Val::I64(number) => number.cast_unsigned(),
        Val::F32(bits) => bits.into(),
        Val::F64(bits) => bits,
        _ => panic!("unexpected value type"),
    }
}
