//! Creation of guests. `glovebox-core` makes the calls into them.

use std::rc::Rc;

use glovebox_core::{Limits, MemoryLimit};
use glovebox_wasi::Wasi;

use crate::{ExecutionCtx, GuestMachine, GuestMemory, Guests, Runtime, State, bindings::types::SandboxError};

/// A guest. The memory of a runtime holds one guest at a time.
pub type Guest = glovebox_core::Guest<GuestMachine>;

/// Fuel for work that is not charged to a script, such as reseeding.
const UNBILLED_FUEL: u64 = u64::MAX;

/// Creates a guest from the image. A one-shot guest in the runtime's memory is lost; a session's guest is evicted.
pub(crate) fn instantiate(
    runtime: &Rc<Runtime>,
    guests: &Rc<dyn Guests>,
    limits: &Limits,
    wasi: Wasi,
    ctx: ExecutionCtx,
) -> Result<Guest, SandboxError> {
    let limit = MemoryLimit::of_image(limits.memory_bytes, runtime.memory_bytes());
    let mut state = State::new(wasi, limit, ctx);
    if !state.host.limiter.grow(0, runtime.memory_bytes(), None) {
        return Err(SandboxError::Unavailable(format!(
            "`limits.memory-bytes` has no room for `{}` and what its guest begins with",
            runtime.name
        )));
    }
    runtime.residence.vacate()?;
    let memory = GuestMemory::new(Rc::clone(guests), runtime.number);
    memory.reset(runtime.memory_pages, &runtime.image);
    state.set_fuel(&memory, UNBILLED_FUEL);
    runtime.reset_globals(memory.guests());
    Ok(Guest::new(GuestMachine::new(Rc::clone(runtime), memory, state), limits))
}
