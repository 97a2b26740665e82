//! WASI preview 1 for the language guests: `glovebox-wasi` over Wasmtime.

use std::time::Duration;

use glovebox_core::tools::{CALL_FUEL, message_fuel};
use glovebox_wasi::{Fault, Host, Stop, Stream, Wasi, wasi_preview1_functions};
use wasmtime::{AsContextMut, Caller, Extern, Linker, Memory};

use crate::{
    current::{Run, Seen},
    entropy,
    state::{self, State},
    trap::Unwound,
};

/// The module name that WASI preview 1 functions are imported from.
const PREVIEW1: &str = "wasi_snapshot_preview1";

/// What a WASI call sees of guest and host.
pub(crate) struct CallHost<'a> {
    memory: &'a mut [u8],
    run: &'a mut Run,
    fuel_left: u64,
    /// What was charged since the deadline was last looked at.
    unchecked: u64,
}

/// How much fuel one call may be charged between two looks at the deadline: a fifth of a millisecond of host work. Only
/// calls that move megabytes reach it.
const FUEL_BETWEEN_LOOKS: u64 = 1 << 20;

impl CallHost<'_> {
    fn seen(&mut self) -> (&mut Run, Seen<'_>) {
        (self.run, Seen { fuel_left: self.fuel_left, memory: self.memory })
    }

    fn range(at: u32, len: usize) -> std::ops::Range<usize> {
        let at = at as usize;
        at..at.saturating_add(len)
    }
}

impl Host for CallHost<'_> {
    fn memory_len(&self) -> u64 {
        self.memory.len() as u64
    }

    fn read(&mut self, at: u32, into: &mut [u8]) -> Result<(), Fault> {
        into.copy_from_slice(self.memory.get(Self::range(at, into.len())).ok_or(Fault)?);
        Ok(())
    }

    fn write(&mut self, at: u32, from: &[u8]) -> Result<(), Fault> {
        self.memory.get_mut(Self::range(at, from.len())).ok_or(Fault)?.copy_from_slice(from);
        Ok(())
    }

    fn charge(&mut self, fuel: u64) -> Result<(), Stop> {
        // As Wasmtime's own rule has it: the fuel is out when what was charged reaches the budget.
        self.fuel_left = self.fuel_left.saturating_sub(fuel);
        if self.fuel_left == 0 {
            return Err(Stop::OutOfFuel);
        }
        // The epoch is only looked at by the guest's own code, and one call may fill or copy gigabytes.
        self.unchecked = self.unchecked.saturating_add(fuel);
        if self.unchecked < FUEL_BETWEEN_LOOKS {
            return Ok(());
        }
        self.unchecked = 0;
        let (run, mut seen) = self.seen();
        run.look(&mut seen)
    }

    fn realtime_ns(&mut self) -> u64 {
        state::realtime_ns()
    }

    fn monotonic_ns(&mut self) -> u64 {
        self.run.monotonic_ns()
    }

    fn sleep_ns(&mut self, duration: u64) -> Result<(), Stop> {
        let (run, mut seen) = self.seen();
        run.sleep(Duration::from_nanos(duration), &mut seen)
    }

    fn fill_random(&mut self, into: &mut [u8]) {
        entropy::fill(into);
    }

    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        self.run.output(stream, bytes);
    }

    fn stdin(&mut self) -> Result<Option<Vec<u8>>, Stop> {
        let (run, mut seen) = self.seen();
        run.stdin(&mut seen)
    }

    fn tool_send(&mut self, message: &[u8]) -> Result<(), Stop> {
        self.charge(message_fuel(message.len()))?;
        if self.run.send(message) {
            self.charge(CALL_FUEL)?;
        }
        Ok(())
    }

    fn tool_receive(&mut self) -> Result<Option<Vec<u8>>, Stop> {
        let (run, mut seen) = self.seen();
        Ok(run.receive(&mut seen)?.map(String::into_bytes))
    }
}

/// What a guest's clocks are read with while it rests.
pub(crate) fn resting(run: &mut Run) -> CallHost<'_> {
    CallHost { memory: &mut [], run, fuel_left: u64::MAX, unchecked: 0 }
}

/// Does something with a guest's WASI state, its memory and the world; the fuel it charges is taken from the store.
pub(crate) fn with_wasi<R>(
    mut store: impl AsContextMut<Data = State>,
    memory: Option<Memory>,
    work: impl FnOnce(&mut Wasi, &mut CallHost<'_>) -> R,
) -> wasmtime::Result<R> {
    let mut context = store.as_context_mut();
    let fuel_left = context.get_fuel()?;
    let (memory, state) = match memory {
        Some(memory) => memory.data_and_store_mut(&mut context),
        None => (&mut [][..], context.data_mut()),
    };
    let State { wasi, limiter, run, .. } = state;
    // The tools' share is taken like linear memory: what is left is for files and output.
    let limiter = &mut limiter.memory;
    wasi.set_linear_memory_bytes(limiter.taken_bytes());
    let mut host = CallHost { memory, run, fuel_left, unchecked: 0 };
    let result = work(wasi, &mut host);
    let charged_to = host.fuel_left;
    limiter.set_host_bytes(wasi.host_bytes());
    // A reply that was delivered has passed from the tools to the WASI state; now that there is less room for others, they
    // let go of it.
    host.run.settle();
    limiter.see_peak();
    if charged_to != fuel_left {
        context.set_fuel(charged_to)?;
    }
    Ok(result)
}

/// Runs one WASI call.
fn call<R>(
    mut caller: Caller<'_, State>,
    run: impl FnOnce(&mut Wasi, &mut CallHost<'_>) -> Result<R, Stop>,
) -> wasmtime::Result<R> {
    // Known once the instance is made; until then a start function may be calling.
    let memory = caller.data().memory.or_else(|| caller.get_export("memory").and_then(Extern::into_memory));
    with_wasi(caller, memory, run)?.map_err(|stop| wasmtime::Error::new(Unwound(stop)))
}

/// Defines all of WASI preview 1.
pub(crate) fn define(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    macro_rules! define {
        ($( $(#[$meta:meta])* fn $name:ident( $($arg:ident: $ty:ty),* ) -> $ret:ty; )*) => {
            $( linker.func_wrap(
                PREVIEW1,
                stringify!($name),
                |caller: Caller<'_, State>, $($arg: $ty),*| -> wasmtime::Result<$ret> {
                    call(caller, |wasi, host| wasi.$name(host, $($arg),*).map(<$ret>::from))
                },
            )?; )*
        };
    }
    wasi_preview1_functions!(define);
    Ok(())
}
