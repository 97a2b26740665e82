//! Taking a session's guest, returning it, and recovering from its loss with a guest in a saved state.

use std::mem;

use glovebox_interpreters::Machine as _;
use glovebox_wasi::Wasi;

use super::{
    Checkpoint, OnUnwind, Rollback, Saved, SessionBackend, SessionFailure, SessionSetup, SessionState, state::Phase,
};
use crate::{Guest, GuestMachine as _, GuestState};

impl<B: SessionBackend> SessionState<B> {
    /// Takes the guest. A lost guest is first restored by a rollback.
    pub(super) fn take(&mut self) -> Result<Box<Guest<B::Machine>>, B::Error> {
        if let Phase::Unwound(why) = &self.phase {
            let why = why.clone();
            self.roll_back(None, why)?;
        }
        match mem::replace(&mut self.phase, Phase::Unwound("its last execution did not come back".into())) {
            Phase::Active(guest) => Ok(guest),
            Phase::Unwound(reason) | Phase::Ended(reason) => {
                let error = self.backend.failed(SessionFailure::Ended(&reason));
                self.end(reason);
                Err(error)
            }
        }
    }

    /// Returns the guest after a call, or handles its loss. `to` replaces the last checkpoint as the target of a
    /// rollback.
    pub(super) fn leave(
        &mut self,
        mut guest: Box<Guest<B::Machine>>,
        after: GuestState,
        to: Option<Saved>,
        why: impl FnOnce() -> String,
    ) -> Option<Rollback> {
        match after {
            GuestState::Alive | GuestState::Untouched => {
                guest.wasi_mut().set_stdin(Vec::new());
                self.backend.measure(&mut guest);
                self.put_back(guest);
                None
            }
            GuestState::Left => {
                self.backend.left(&guest);
                self.end(why());
                None
            }
            GuestState::Unwound => {
                // The platform may be unable to hold a second instance.
                drop(guest);
                // If another session has taken the room meanwhile, the next call tries again.
                self.roll_back(to, why()).unwrap_or_default()
            }
        }
    }

    /// Rolls back a session whose guest was lost, or ends it. An error means that no instance is available now. The
    /// session then stays without a guest, keeps its checkpoints, and can be rolled back later.
    fn roll_back(&mut self, to: Option<Saved>, why: String) -> Result<Option<Rollback>, B::Error> {
        self.phase = Phase::Unwound(why.clone());
        if self.backend.setup().policy.on_unwind == OnUnwind::End {
            self.end(why);
            return Ok(None);
        }
        // A later rollback can only return to a checkpoint in the history, and `to` is none.
        let is_unchanged = to.is_none();
        let Some(saved) = to.or_else(|| self.history.last().cloned()) else {
            self.end(format!("{why}; there is no checkpoint to go back to"));
            return Ok(None);
        };
        match self.guest_of(&saved) {
            Ok(guest) => {
                let executions_lost = self.executions.saturating_sub(saved.state.executions);
                self.rollbacks += 1;
                self.go_on_at(guest, &saved);
                self.changed = !is_unchanged;
                self.backend.rolled_back(executions_lost, &why);
                Ok(Some(Rollback { checkpoint: saved.id, executions_lost }))
            }
            Err(error) if B::is_temporary(&error) => Err(error),
            Err(error) => {
                self.end(format!("{why}; it could not go back: {}", B::reason(&error)));
                Ok(None)
            }
        }
    }

    /// Creates a guest in a state of this session.
    pub(super) fn guest_of(&mut self, saved: &Saved) -> Result<Guest<B::Machine>, B::Error> {
        let wasi = self.backend.wasi_of(saved)?;
        restore(&mut self.backend, &saved.state, wasi, RandomNumbers::Same)
    }

    pub(super) fn go_on_at(&mut self, guest: Guest<B::Machine>, saved: &Saved) {
        self.executions = saved.state.executions;
        self.backend.rolled_back_to(saved);
        self.changed = false;
        self.put_back(Box::new(guest));
    }

    pub(super) fn end(&mut self, reason: String) {
        self.phase = Phase::Ended(reason);
        self.backend.ended();
        self.history.clear();
        self.place = None;
    }
}

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
