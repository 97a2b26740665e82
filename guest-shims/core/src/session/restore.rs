//! New guests in saved states.

use glovebox_interpreters::Machine as _;
use glovebox_wasi::Wasi;

use super::{Checkpoint, SessionBackend, SessionFailure, SessionSetup};
use crate::{Guest, GuestMachine as _};

/// Whose random numbers a new guest goes on with. Those of the host's generator are new ones in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RandomNumbers {
    /// The saved session's own: seeded entropy continues exactly where it was.
    Same,
    /// Its own: seeded entropy is another, and the interpreter's generators are seeded from it.
    Fork,
}

/// A new guest in a saved state, with a WASI state that goes with it. What the guest itself runs as it is seeded is held to the limits of
/// one execution.
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
