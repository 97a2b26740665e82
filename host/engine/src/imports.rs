//! WASI preview 1 for the language guests: `glovebox-wasi` over Wasmtime.

use glovebox_wasi::{Stop, Wasi, wasi_preview1_functions};
use wasmtime::{AsContextMut, Caller, Extern, Linker, Memory};

use crate::{
    platform::EnginePlatform,
    state::{State, fuel_left},
    trap::Unwound,
};

/// The module name that WASI preview 1 functions are imported from.
const PREVIEW1: &str = "wasi_snapshot_preview1";

/// What a WASI call sees of guest and host.
pub(crate) type CallHost<'a> = glovebox_core::CallHost<'a, [u8], EnginePlatform>;

/// Runs `work` with a guest's WASI state, its memory and the world. The fuel it charges is taken from the store.
pub(crate) fn with_wasi<R>(
    mut store: impl AsContextMut<Data = State>,
    memory: Option<Memory>,
    work: impl FnOnce(&mut Wasi, &mut CallHost<'_>) -> R,
) -> wasmtime::Result<R> {
    let mut context = store.as_context_mut();
    let fuel = fuel_left(&context)?;
    let (memory, state) = match memory {
        Some(memory) => memory.data_and_store_mut(&mut context),
        None => (&mut [][..], context.data_mut()),
    };
    let (result, left) = state.host.call(memory, fuel, work);
    if left != fuel && context.data().uncounted.is_none() {
        context.set_fuel(left)?;
    }
    Ok(result)
}

/// Runs one WASI call.
fn call<R>(
    mut caller: Caller<'_, State>,
    run: impl FnOnce(&mut Wasi, &mut CallHost<'_>) -> Result<R, Stop>,
) -> wasmtime::Result<R> {
    // Known once the instance exists. Before that a start function may call.
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
    // CPython 3.15 was built with a call to its host, which answers that there is none: tools have a way of their own.
    linker.func_wrap("host", "call", |_: u32, _: u32, _: u32, _: u32| -1_i32)?;
    Ok(())
}
