//! Creation of guests in saved states.

use glovebox_interpreters::Machine as _;
use glovebox_wasi::Wasi;

use super::{Checkpoint, SessionBackend, SessionFailure, SessionSetup};
use crate::{Guest, GuestMachine as _};

/// The seeded random numbers of a restored guest. The host's generator gives new numbers in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RandomNumbers {
    /// The saved session's numbers: seeded entropy continues at the same position.
    Same,
    /// The fork's own numbers: seeded entropy has another key, which also seeds the interpreter's generators.
    Fork,
}

/// Creates a guest in a saved state, with a matching WASI state. Code that the guest runs during seeding is subject to
/// the limits of one execution.
pub(super) fn restore<B: SessionBackend>(
    backend: &mut B,
    state: &Checkpoint,
    mut wasi: Wasi,
    numbers: RandomNumbers,
) -> Result<Guest<B::Machine>, B::Error> {
    state.continue_entropy(&mut wasi);
    let mut guest = backend.instantiate(state, wasi)?;
    let grown_bytes = state.memory_bytes.checked_sub(guest.machine.memory_bytes());
    let grown_bytes = grown_bytes.ok_or_else(|| backend.failed(SessionFailure::Mismatch("it is smaller")))?;
    if !guest.grow_freely(grown_bytes) {
        return Err(backend.failed(SessionFailure::NoMemory(state.memory_bytes)));
    }
    if !guest.machine.write_pages(&state.pages) {
        return Err(backend.failed(SessionFailure::Mismatch("it has pages beyond its end")));
    }
    let is_same = numbers == RandomNumbers::Same && state.entropy_key.is_some();
    if !is_same {
        let SessionSetup { image, limits, .. } = backend.setup();
        guest.reseed_within(image, limits)?;
    }
    backend.restored(&mut guest, &state.pages, is_same);
    Ok(guest)
}
