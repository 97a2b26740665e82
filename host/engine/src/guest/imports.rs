//! WASI preview 1 for the language guests: `glovebox-wasi` over Wasmtime.

use glovebox_wasi::{Stop, Wasi, wasi_preview1_functions};
use wasmtime::{AsContextMut, Caller, Extern, Linker, Memory};

use crate::{
    exec::platform::EnginePlatform,
    guest::state::{GuestStoreData, Unwound, fuel_left},
};

/// Module name of the WASI preview 1 imports.
const PREVIEW1: &str = "wasi_snapshot_preview1";

/// The guest's memory and the host, as a WASI call sees them.
type CallHost<'a> = glovebox_core::CallHost<'a, [u8], EnginePlatform>;

/// Runs `work` with a guest's WASI state, its memory and the host. Subtracts the fuel that `work` charges from the
/// store's.
pub(crate) fn with_wasi<R>(
    mut store: impl AsContextMut<Data = GuestStoreData>,
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
    mut caller: Caller<'_, GuestStoreData>,
    run: impl FnOnce(&mut Wasi, &mut CallHost<'_>) -> Result<R, Stop>,
) -> wasmtime::Result<R> {
    // The state holds the memory only once the instance exists. A start function may call before that.
    let memory = caller.data().memory.or_else(|| caller.get_export("memory").and_then(Extern::into_memory));
    with_wasi(caller, memory, run)?.map_err(|stop| wasmtime::Error::new(Unwound(stop)))
}

/// Defines all functions of WASI preview 1.
pub(crate) fn define(linker: &mut Linker<GuestStoreData>) -> wasmtime::Result<()> {
    macro_rules! define {
        ($( $(#[$meta:meta])* fn $name:ident( $($arg:ident: $ty:ty),* ) -> $ret:ty; )*) => {
            $( linker.func_wrap(
                PREVIEW1,
                stringify!($name),
                |caller: Caller<'_, GuestStoreData>, $($arg: $ty),*| -> wasmtime::Result<$ret> {
                    call(caller, |wasi, host| wasi.$name(host, $($arg),*).map(<$ret>::from))
                },
            )?; )*
        };
    }
    wasi_preview1_functions!(define);
    // CPython 3.15 was built with an import for calls to its host. It always returns -1, for no host: tools use another
    // path.
    linker.func_wrap("host", "call", |_: u32, _: u32, _: u32, _: u32| -1_i32)?;
    Ok(())
}
