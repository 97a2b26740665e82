//! Guest fuel, which [metered](glovebox_weave::metered) code counts down in a global.
//!
//! The host refills the global in slices. After each slice it checks the time limit, cancellation and soft limits, so
//! compiled code needs no other check. With Wasmtime's fuel and epochs, eleven Python programs took 12% longer.
//! Unmetered code uses epochs instead.

use std::cmp::min;

use glovebox_wasi::Stop;
use glovebox_weave::{Counter, FUEL_EXPORT, REFUEL_IMPORT, WeaveError};
use wasmtime::{AsContextMut, Caller, Extern, Global, Instance, Linker, Val};

use crate::{Metering, guest::recycled::UnwindError};

/// Fuel limit for work that is not charged to the script: instantiating and reseeding.
pub(crate) const UNBILLED_FUEL: u64 = u64::MAX;

/// Maximum fuel between two checks, about a tenth of a millisecond of ordinary code. Code whose every memory access
/// misses the caches takes about 20 times as long.
const SLICE: u64 = 1_000_000;

/// The remaining fuel of a guest.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fuel {
    /// The guest's code is unmetered. The fuel never decreases.
    Uncounted(u64),
    Counted {
        /// The global that contains the remaining fuel of the current slice, minus one. `None` until the instance
        /// exists.
        counter: Option<Global>,
        /// Fuel that remains after the current slice.
        reserve: u64,
    },
}

impl Fuel {
    /// Returns fuel without a slice: all of it is in the reserve.
    pub(crate) fn new(metering: Metering, fuel: u64) -> Self {
        match metering {
            Metering::Fuel => Self::Counted { counter: None, reserve: fuel },
            Metering::None => Self::Uncounted(fuel),
        }
    }

    /// Splits fuel into a slice and the reserve. Returns the counter's value for the slice.
    fn divide(&mut self, fuel: u64) -> i64 {
        let slice = min(fuel, SLICE);
        if let Self::Counted { reserve, .. } = self {
            *reserve = fuel - slice;
        }
        i64::try_from(slice).unwrap_or(i64::MAX) - 1
    }

    fn counter(&self) -> Option<Global> {
        match self {
            Self::Counted { counter, .. } => *counter,
            Self::Uncounted(_) => None,
        }
    }
}

/// The data of a store whose code may be metered with fuel.
pub(crate) trait MeteredData: Sized + 'static {
    /// Returns the store's fuel.
    fn fuel(&mut self) -> &mut Fuel;

    /// Decides after each slice whether execution continues. `left` is the remaining fuel.
    fn check(caller: &mut Caller<'_, Self>, left: u64) -> Result<(), Stop>;
}

/// Adds metering to a module, or returns it unchanged if `metering` is off.
pub(crate) fn add_metering(metering: Metering, wasm: Vec<u8>, counter: Counter<'_>) -> Result<Vec<u8>, WeaveError> {
    match metering {
        Metering::Fuel => glovebox_weave::metered(&wasm, counter),
        Metering::None => Ok(wasm),
    }
}

/// Defines [`REFUEL_IMPORT`], which refills the counter.
pub(crate) fn define_refuel<T: MeteredData>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    linker.func_wrap(REFUEL_IMPORT.0, REFUEL_IMPORT.1, refuel::<T>)?;
    Ok(())
}

/// Connects the store's fuel to the counter of a new instance.
pub(crate) fn attach<T: MeteredData>(mut store: impl AsContextMut<Data = T>, instance: &Instance) {
    let found = instance.get_global(&mut store, FUEL_EXPORT);
    if let Fuel::Counted { counter, .. } = store.as_context_mut().data_mut().fuel() {
        *counter = found;
    }
}

/// Returns the remaining fuel, or `u64::MAX` for unmetered code.
pub(crate) fn left<T: MeteredData>(mut store: impl AsContextMut<Data = T>) -> u64 {
    match *store.as_context_mut().data_mut().fuel() {
        Fuel::Uncounted(_) => u64::MAX,
        Fuel::Counted { counter: None, reserve } => reserve,
        Fuel::Counted { counter: Some(counter), reserve } => remaining(reserve, value(&mut store, counter)),
    }
}

/// Sets the remaining fuel. Must not be called while guest code runs, except from a host function that the guest
/// called.
pub(crate) fn set<T: MeteredData>(mut store: impl AsContextMut<Data = T>, fuel: u64) -> wasmtime::Result<()> {
    let mut context = store.as_context_mut();
    let known = context.data_mut().fuel();
    if let Fuel::Uncounted(given) = known {
        *given = fuel;
        return Ok(());
    }
    match known.counter() {
        Some(counter) => {
            let slice = known.divide(fuel);
            counter.set(&mut context, Val::I64(slice))
        }
        None => {
            *known = Fuel::Counted { counter: None, reserve: fuel };
            Ok(())
        }
    }
}

/// Subtracts fuel for a host call. The next check is due as early as if guest code had used the fuel.
pub(crate) fn charge<T: MeteredData>(mut store: impl AsContextMut<Data = T>, amount: u64) -> wasmtime::Result<()> {
    let Some(counter) = store.as_context_mut().data_mut().fuel().counter() else { return Ok(()) };
    let before = value(&mut store, counter);
    let in_slice = min(amount, u64::try_from(before.saturating_add(1)).unwrap_or(0));
    if let Fuel::Counted { reserve, .. } = store.as_context_mut().data_mut().fuel() {
        *reserve = reserve.saturating_sub(amount - in_slice);
    }
    counter.set(store, Val::I64(before.saturating_sub_unsigned(in_slice)))
}

/// Refills an exhausted counter. Metered code calls this function. Returns the counter's value for the next slice.
///
/// A custom binary can import this function and pass any number. The binary then loses at least the remaining fuel of
/// its slice, and never gains fuel.
fn refuel<T: MeteredData>(mut caller: Caller<'_, T>, exhausted: i64) -> wasmtime::Result<i64> {
    let counter = match *caller.data_mut().fuel() {
        Fuel::Counted { counter: Some(counter), .. } => counter,
        // A start function runs before the counter is attached.
        _ => caller.get_export(FUEL_EXPORT).and_then(Extern::into_global).ok_or_else(no_counter)?,
    };
    let left = match *caller.data_mut().fuel() {
        Fuel::Counted { reserve, .. } => remaining(reserve, exhausted.min(-1)),
        Fuel::Uncounted(_) => return Err(no_counter()),
    };
    let next = caller.data_mut().fuel().divide(left);
    counter.set(&mut caller, Val::I64(next))?;
    let checked = if left == 0 { Err(Stop::OutOfFuel) } else { T::check(&mut caller, left) };
    checked.map(|()| next).map_err(|stop| wasmtime::Error::new(UnwindError(stop)))
}

fn no_counter() -> wasmtime::Error {
    wasmtime::Error::msg(format!("`{FUEL_EXPORT}` is missing"))
}

fn value<T: 'static>(store: impl AsContextMut<Data = T>, counter: Global) -> i64 {
    counter.get(store).i64().unwrap_or(-1)
}

/// Returns the remaining fuel. A counter below -1 means that the slice has already used fuel from the reserve.
fn remaining(reserve: u64, counter: i64) -> u64 {
    reserve.saturating_add_signed(counter.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use wasmtime::{Engine, Module, Store, TypedFunc};

    use super::*;

    struct MeteredState {
        fuel: Fuel,
        /// The remaining fuel at each check.
        checks: Vec<u64>,
        /// The number of checks after which execution stops.
        allowed: usize,
    }

    impl MeteredData for MeteredState {
        fn fuel(&mut self) -> &mut Fuel {
            &mut self.fuel
        }

        fn check(caller: &mut Caller<'_, Self>, left: u64) -> Result<(), Stop> {
            let counted = caller.data_mut();
            counted.checks.push(left);
            if counted.checks.len() > counted.allowed { Err(Stop::Cancelled) } else { Ok(()) }
        }
    }

    /// A module whose fuel the tests check. `run` counts down from its argument. `ask` returns the host's view of the
    /// remaining fuel. `pay` lets the host charge its argument and returns the remaining fuel. `spend` lets the host
    /// charge 100 units of fuel repeatedly. `steal` calls `refuel` directly. The start function uses fuel too.
    const MODULE: &str = r#"(module
        (import "host" "left" (func $left (result i64)))
        (import "host" "pay" (func $pay (param i64) (result i64)))
        (import "glovebox" "refuel" (func $refuel (param i64) (result i64)))
        (func (export "run") (param $rounds i32)
            (loop $again
                (local.set $rounds (i32.sub (local.get $rounds) (i32.const 1)))
                (br_if $again (i32.gt_s (local.get $rounds) (i32.const 0)))))
        (func (export "ask") (result i64) (call $left))
        (func (export "steal") (param $counter i64) (result i64) (call $refuel (local.get $counter)))
        (func (export "pay") (param $amount i64) (result i64) (call $pay (local.get $amount)))
        (func (export "spend") (param $rounds i32)
            (loop $again
                (drop (call $pay (i64.const 100)))
                (local.set $rounds (i32.sub (local.get $rounds) (i32.const 1)))
                (br_if $again (i32.gt_s (local.get $rounds) (i32.const 0)))))
        (func $start nop nop (drop (i32.const 0))) (start $start))"#;

    fn instance(allowed: usize) -> (Store<MeteredState>, Instance) {
        let engine = Engine::default();
        let module = wat::parse_str(MODULE).unwrap();
        let module = Module::new(&engine, add_metering(Metering::Fuel, module, Counter::Own).unwrap()).unwrap();
        let mut linker = Linker::new(&engine);
        define_refuel(&mut linker).unwrap();
        let host = |caller: Caller<'_, MeteredState>| i64::try_from(left(caller)).unwrap();
        linker.func_wrap("host", "left", host).unwrap();
        let pay = |mut caller: Caller<'_, MeteredState>, amount: i64| {
            charge(&mut caller, amount.unsigned_abs()).unwrap();
            i64::try_from(left(caller)).unwrap()
        };
        linker.func_wrap("host", "pay", pay).unwrap();
        let fuel = Fuel::new(Metering::Fuel, UNBILLED_FUEL);
        let mut store = Store::new(&engine, MeteredState { fuel, checks: Vec::new(), allowed });
        let instance = linker.instantiate(&mut store, &module).unwrap();
        attach(&mut store, &instance);
        (store, instance)
    }

    fn run(store: &mut Store<MeteredState>, instance: &Instance, rounds: i32) -> Option<Stop> {
        let run: TypedFunc<i32, ()> = instance.get_typed_func(&mut *store, "run").unwrap();
        run.call(store, rounds).err().map(|error| error.downcast::<UnwindError>().unwrap().0)
    }

    #[test]
    fn fuel_ends_at_the_same_place_in_any_number_of_slices() {
        let (mut store, instance) = instance(usize::MAX);
        assert!(left(&mut store) > u64::MAX - 10, "the start function takes three units");
        for rounds in [1000, 100_000, 1_000_000] {
            let whole = 100_000_000;
            set(&mut store, whole).unwrap();
            store.data_mut().checks.clear();
            assert_eq!(run(&mut store, &instance, rounds), None);
            let used = whole - left(&mut store);
            let checks = store.data().checks.clone();
            let slices = used / (SLICE + 10)..=used / SLICE;
            assert!(slices.contains(&(checks.len() as u64)), "{rounds}: one check after each slice: {checks:?}");
            assert!(checks.windows(2).all(|pair| pair[0] - pair[1] >= SLICE), "{checks:?}");

            set(&mut store, used + 1).unwrap();
            assert_eq!(run(&mut store, &instance, rounds), None);
            assert_eq!(left(&mut store), 1);
            set(&mut store, used / 2).unwrap();
            assert_eq!(run(&mut store, &instance, rounds), Some(Stop::OutOfFuel));
            assert_eq!(left(&mut store), 0);
        }
    }

    #[test]
    fn check_stops_an_endless_loop() {
        let (mut store, instance) = instance(4);
        set(&mut store, UNBILLED_FUEL).unwrap();
        assert_eq!(run(&mut store, &instance, i32::MAX), Some(Stop::Cancelled));
        assert_eq!(store.data().checks.len(), 5);
        assert_eq!(left(&mut store), *store.data().checks.last().unwrap(), "the remaining fuel is exact");
    }

    #[test]
    fn host_reads_and_charges_exact_fuel() {
        let (mut store, instance) = instance(usize::MAX);
        let ask: TypedFunc<(), i64> = instance.get_typed_func(&mut store, "ask").unwrap();
        for fuel in [10, SLICE, SLICE + 1, 3 * SLICE] {
            set(&mut store, fuel).unwrap();
            assert_eq!(left(&mut store), fuel);
            // The function entry and the call cost one unit each.
            assert_eq!(ask.call(&mut store, ()).unwrap().unsigned_abs(), fuel - 2);
            assert_eq!(left(&mut store), fuel - 2);
        }
    }

    #[test]
    fn host_charges_reach_into_the_reserve() {
        let (mut store, instance) = instance(usize::MAX);
        let pay: TypedFunc<i64, i64> = instance.get_typed_func(&mut store, "pay").unwrap();
        let fuel = 3 * SLICE;
        for (amount, rest) in [(0, fuel - 3), (1, fuel - 4), (2 * SLICE, SLICE - 3), (fuel - 3, 0), (u64::MAX >> 1, 0)]
        {
            set(&mut store, fuel).unwrap();
            assert_eq!(pay.call(&mut store, i64::try_from(amount).unwrap()).unwrap().unsigned_abs(), rest);
            assert_eq!(left(&mut store), rest);
        }
    }

    #[test]
    fn host_charges_do_not_delay_checks() {
        let (mut store, instance) = instance(usize::MAX);
        let spend: TypedFunc<i32, ()> = instance.get_typed_func(&mut store, "spend").unwrap();
        set(&mut store, 100 * SLICE).unwrap();
        store.data_mut().checks.clear();
        spend.call(&mut store, 20_000).unwrap();
        let used = 100 * SLICE - left(&mut store);
        assert_eq!(store.data().checks.len() as u64, used / SLICE);
    }

    #[test]
    fn guest_that_refuels_itself_gains_nothing() {
        let (mut store, instance) = instance(usize::MAX);
        let steal: TypedFunc<i64, i64> = instance.get_typed_func(&mut store, "steal").unwrap();
        for counter in [i64::MAX, 0, -1, -100, i64::MIN] {
            set(&mut store, 3 * SLICE).unwrap();
            let result = steal.call(&mut store, counter);
            let after = left(&mut store);
            assert!(after < 3 * SLICE, "{counter}: {after}");
            assert_eq!(result.is_ok(), counter > i64::MIN);
        }
    }

    #[test]
    fn unmetered_code_has_all_its_fuel() {
        let (mut store, _) = instance(1);
        store.data_mut().fuel = Fuel::new(Metering::None, 5);
        assert_eq!(left(&mut store), u64::MAX);
        set(&mut store, 7).unwrap();
        assert!(matches!(store.data().fuel, Fuel::Uncounted(7)));
        assert_eq!(add_metering(Metering::None, vec![1], Counter::Own).unwrap(), [1]);
    }
}
