//! Making guests. How they are called is `glovebox-core`'s.

use std::rc::Rc;

use glovebox_core::Limits;
use glovebox_wasi::Wasi;

use crate::{ExecutionCtx, GuestMachine, GuestMemory, Runtime, State, World, bindings::types::SandboxError};

/// A guest. While one is called, the memory of its runtime is its own: there is one in it at a time.
pub type Guest = glovebox_core::Guest<GuestMachine>;

/// Fuel while nothing is on the script's bill: new random numbers.
const UNBILLED_FUEL: u64 = u64::MAX;

/// A guest as its image is. Whoever was in that memory before is gone; a session is evicted.
pub(crate) fn instantiate_idle(
    world: &World,
    runtime: &Rc<Runtime>,
    wasi: Wasi,
    limits: &Limits,
    ctx: ExecutionCtx,
) -> Result<Guest, SandboxError> {
    let mut state = State::new(wasi, runtime.memory_limit(limits), ctx);
    if !state.host.limiter.grow(0, runtime.memory_bytes(), None) {
        return Err(SandboxError::Unavailable(format!(
            "`limits.memory-bytes` has no room for `{}` and what its guest begins with",
            runtime.name
        )));
    }
    runtime.residence.vacate()?;
    let memory = GuestMemory::new(Rc::clone(&world.guests), runtime.number);
    memory.reset(runtime.memory_pages, &runtime.image);
    state.set_fuel(&memory, UNBILLED_FUEL);
    runtime.reset_globals(memory.guests());
    Ok(Guest::new(GuestMachine::new(Rc::clone(runtime), memory, state), limits))
}

/// A new guest with random numbers of its own.
pub(crate) fn fresh(
    world: &World,
    runtime: &Rc<Runtime>,
    wasi: Wasi,
    limits: &Limits,
    ctx: ExecutionCtx,
) -> Result<Guest, SandboxError> {
    let mut guest = instantiate_idle(world, runtime, wasi, limits, ctx)?;
    guest.reseed(runtime.driver())?;
    Ok(guest)
}
