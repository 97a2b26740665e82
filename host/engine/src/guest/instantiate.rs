//! Creates guests. A guest is an instance of a runtime together with its host state.

use glovebox_core::{GuestHost, GuestMachine as _, MemoryLimit};
use glovebox_runtimes::rewrite::MEMORY_EXPORT;
use glovebox_wasi::{Stop, Wasi, wasi_preview1_functions};
use wasmtime::{
    AsContextMut, Caller, Extern, ExternType, Instance, InstancePre, Linker, Memory, Module, PoolConcurrencyLimitError,
    Store, Trap, UpdateDeadline, Val,
};

use crate::{
    ExecuteError, Limits, Metering, RuntimeError, TrapKind,
    engine::EngineInner,
    exec::platform::{EnginePlatform, ExecutionCtx},
    guest::{
        fuel::{self, Fuel, UNBILLED_FUEL},
        machine::GuestMachine,
        recycled::{EarlyEnd, GuestStoreData, UnwindError, classify},
    },
    load::{
        parts::{self, Code},
        runtime::Runtime,
    },
};

/// Creates a guest's instance. All guest stores are created here.
pub(crate) fn instantiate(
    inner: &EngineInner,
    template: &Template,
    wasi: Box<Wasi>,
    memory: MemoryLimit,
    ctx: ExecutionCtx,
) -> Result<GuestMachine, ExecuteError> {
    let (store, instance) = match instantiate_once(inner, template, GuestStoreData::new(wasi, memory, ctx)) {
        // The pool is full: drop idle instances to make room.
        (store, Err(error)) if error.is::<PoolConcurrencyLimitError>() && inner.drop_recycled() => {
            let GuestHost { wasi, ctx, .. } = store.into_data().host;
            instantiate_once(inner, template, GuestStoreData::new(wasi, memory, ctx))
        }
        made => made,
    };
    let instance = instance.map_err(|error| {
        // A custom binary can have a start function, which runs here and can fail. All other errors come from the pool
        // or the system.
        let (reason, trap) = (format!("{error:#}"), error.downcast_ref::<Trap>().map(ToString::to_string));
        match (classify(error), trap) {
            (EarlyEnd::Stopped(stop), _) => failed_start(&describe_stop(&stop)),
            (EarlyEnd::Trapped(TrapKind::Other), _) | (_, None) => ExecuteError::Instantiate { reason },
            (EarlyEnd::Trapped(_), Some(trap)) => failed_start(&trap),
        }
    })?;
    GuestMachine::new(store, instance).ok_or_else(|| ExecuteError::Instantiate {
        reason: "not a WASI program: the binary does not export `memory`".into(),
    })
}

/// A store and the result of instantiating a template in it.
type StoreAndInstance = (Store<GuestStoreData>, wasmtime::Result<Instance>);

fn instantiate_once(inner: &EngineInner, template: &Template, mut state: GuestStoreData) -> StoreAndInstance {
    state.fuel = Fuel::new(inner.metering, UNBILLED_FUEL);
    let mut store = Store::new(&inner.wasmtime, state);
    store.limiter(|state| state);
    if inner.metering == Metering::None {
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|context| match GuestStoreData::check_stop(context, u64::MAX) {
            Ok(()) => Ok(UpdateDeadline::Continue(1)),
            Err(stop) => Err(wasmtime::Error::new(UnwindError(stop))),
        });
    }
    let instance = template.instantiate(&inner.linker, &mut store);
    (store, instance)
}

fn failed_start(cause: &str) -> ExecuteError {
    ExecuteError::Instantiate { reason: format!("the binary could not be started: {cause}") }
}

/// Describes why a start function was stopped.
fn describe_stop(stop: &Stop) -> String {
    match stop {
        Stop::Exit(code) => format!("it exited with {code}"),
        Stop::OutOfFuel => "it ran out of fuel".to_owned(),
        Stop::Deadline => "it exceeded the time limit".to_owned(),
        Stop::Cancelled => "it was cancelled".to_owned(),
        Stop::Trap(reason) => reason.clone(),
        _ => "it was stopped".to_owned(),
    }
}

pub(crate) type Guest = glovebox_core::Guest<GuestMachine>;

/// The runtime, the limits and the initial host state of a new guest.
pub(crate) struct NewGuest<'a> {
    pub(crate) inner: &'a EngineInner,
    pub(crate) runtime: &'a Runtime,
    pub(crate) wasi: Box<Wasi>,
    pub(crate) limits: &'a Limits,
    pub(crate) ctx: ExecutionCtx,
}

/// Creates a guest from a new instance and reseeds its random numbers.
pub(crate) fn new_guest(new: NewGuest<'_>) -> Result<Guest, ExecuteError> {
    reseeded(new.runtime, instantiate_idle(new)?)
}

/// Creates a guest for one script, from a recycled instance if one is available.
pub(crate) fn one_shot(new: NewGuest<'_>) -> Result<Guest, ExecuteError> {
    let (runtime, limits) = (new.runtime, new.limits);
    let Some((recycled, mut machine)) = runtime.recycled.as_ref().and_then(|all| Some((all, all.take()?))) else {
        return new_guest(new);
    };
    let failed = |error| ExecuteError::Instantiate { reason: format!("{error}") };
    machine.set_fuel(UNBILLED_FUEL).map_err(failed)?;
    if let Err(refused) = machine.renew(GuestStoreData::new(new.wasi, runtime.memory_limit(limits), new.ctx)) {
        // A new instance would also exceed the memory limit, but its error is more precise.
        let GuestHost { wasi, ctx, .. } = refused.host;
        recycled.put_back(machine);
        return new_guest(NewGuest { wasi, ctx, ..new });
    }
    reseeded(runtime, Guest::new(machine, limits))
}

/// Creates a guest in the state of its image, not yet reseeded.
pub(crate) fn instantiate_idle(new: NewGuest<'_>) -> Result<Guest, ExecuteError> {
    let NewGuest { inner, runtime, wasi, limits, ctx } = new;
    Ok(Guest::new(instantiate(inner, &runtime.template, wasi, runtime.memory_limit(limits), ctx)?, limits))
}

fn reseeded(runtime: &Runtime, mut guest: Guest) -> Result<Guest, ExecuteError> {
    if let Some(image) = runtime.image().map(|image| image.driver()) {
        guest.reseed(image)?;
    }
    Ok(guest)
}

/// The compiled code that instances are created from.
pub(crate) enum Template {
    /// A plain command: a module that defines its own memory.
    Whole(InstancePre<GuestStoreData>),
    /// The separately compiled code and memory of an interpreter. All images of the interpreter share the code.
    Apart {
        /// The code, which imports its memory.
        code: Code,
        /// A module that defines only the memory.
        memory: Module,
        /// The code's mutable globals: their export names, and their values in the image.
        globals: Vec<(String, Val)>,
    },
}

impl Template {
    /// Loads the code that is otherwise loaded when a guest first needs it.
    pub(crate) fn load_all(&self) -> Result<(), RuntimeError> {
        match self {
            Self::Apart { code: Code { parts: Some(parts), .. }, .. } => parts.load_all(),
            _ => Ok(()),
        }
    }

    /// Creates an instance in a store.
    pub(crate) fn instantiate(
        &self,
        linker: &Linker<GuestStoreData>,
        store: &mut Store<GuestStoreData>,
    ) -> wasmtime::Result<Instance> {
        let (code, memory, globals) = match self {
            Self::Whole(pre) => return pre.instantiate(store),
            Self::Apart { code, memory, globals } => (code, memory, globals),
        };
        let memory = instantiate_memory(&mut *store, memory)?;
        let imports = code.base.imports().map(|import| match import.ty() {
            ExternType::Memory(_) => Ok(memory.into()),
            _ => linker.get_by_import(&mut *store, &import).ok_or_else(|| missing_export(import.name())),
        });
        let imports = imports.collect::<wasmtime::Result<Vec<Extern>>>()?;
        let instance = Instance::new(&mut *store, &code.base, &imports)?;
        for (name, value) in globals {
            let global = instance.get_global(&mut *store, name).ok_or_else(|| missing_export(name))?;
            global.set(&mut *store, *value)?;
        }
        if let Some(parts) = &code.parts {
            parts::enable(linker, store, instance, parts)?;
        }
        Ok(instance)
    }
}

/// Instantiates a module that defines only a memory.
pub(crate) fn instantiate_memory<T>(store: &mut Store<T>, module: &Module) -> wasmtime::Result<Memory> {
    let instance = Instance::new(&mut *store, module, &[])?;
    instance.get_memory(store, MEMORY_EXPORT).ok_or_else(|| missing_export(MEMORY_EXPORT))
}

fn missing_export(name: &str) -> wasmtime::Error {
    wasmtime::Error::msg(format!("`{name}` is missing"))
}

/// The module name of the WASI preview 1 imports.
const PREVIEW1: &str = "wasi_snapshot_preview1";

/// A WASI call's view of the guest memory and the host.
type CallHost<'a> = glovebox_core::CallHost<'a, [u8], EnginePlatform>;

/// Runs `work` with the WASI state, the memory and the host of a guest. Subtracts the fuel that `work` charges from the
/// store's fuel.
pub(crate) fn with_wasi<R>(
    mut store: impl AsContextMut<Data = GuestStoreData>,
    memory: Option<Memory>,
    work: impl FnOnce(&mut Wasi, &mut CallHost<'_>) -> R,
) -> wasmtime::Result<R> {
    let mut context = store.as_context_mut();
    let fuel = fuel::left(&mut context);
    let (memory, state) = match memory {
        Some(memory) => memory.data_and_store_mut(&mut context),
        None => (&mut [][..], context.data_mut()),
    };
    let (result, left) = state.host.call(memory, fuel, work);
    if left != fuel {
        fuel::charge(&mut context, fuel.saturating_sub(left))?;
    }
    Ok(result)
}

/// Runs one WASI call.
fn call<R>(
    mut caller: Caller<'_, GuestStoreData>,
    run: impl FnOnce(&mut Wasi, &mut CallHost<'_>) -> Result<R, Stop>,
) -> wasmtime::Result<R> {
    // The store data contains the memory only after instantiation, but a start function can call WASI before that.
    let memory = caller.data().memory.or_else(|| caller.get_export("memory").and_then(Extern::into_memory));
    with_wasi(caller, memory, run)?.map_err(|stop| wasmtime::Error::new(UnwindError(stop)))
}

/// Defines all functions of WASI preview 1.
pub(crate) fn define_wasi(linker: &mut Linker<GuestStoreData>) -> wasmtime::Result<()> {
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
    // CPython 3.15 imports a function for calls to its host. Tools do not use this function, so it always returns -1,
    // which means that there is no host.
    linker.func_wrap("host", "call", |_: u32, _: u32, _: u32, _: u32| -1_i32)?;
    Ok(())
}
