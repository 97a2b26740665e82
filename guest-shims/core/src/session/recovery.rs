//! Saved states of a session, and its recovery after the guest was unwound: a rollback creates a new guest in a saved
//! state.

use std::{fmt, mem};

use glovebox_interpreters::Machine as _;
use glovebox_wasi::{Entropy as WasiEntropy, Wasi};
use sha2::{Digest as _, Sha256};

use super::{OnUnwind, Pages, Rollback, SavedCheckpoint, SessionBackend, SessionFailure, SessionState, state::Phase};
use crate::{Guest, GuestMachine as _, GuestState};

impl<B: SessionBackend> SessionState<B> {
    /// Takes the guest out of the session. If the guest was unwound, rolls back first.
    pub(super) fn take(&mut self) -> Result<Box<Guest<B::Machine>>, B::Error> {
        if let Phase::Unwound(why) = &self.phase {
            let why = why.clone();
            self.roll_back(None, why)?;
        }
        match mem::replace(&mut self.phase, Phase::Unwound("its last execution did not return".into())) {
            Phase::Active(guest) => Ok(guest),
            Phase::Unwound(reason) | Phase::Ended(reason) => {
                let error = self.backend.error(SessionFailure::Ended(&reason));
                self.end(reason);
                Err(error)
            }
        }
    }

    /// Puts the guest back after a call. Rolls back if the guest was unwound, and ends the session if the guest exited.
    /// `to` is the rollback target; the default is the last checkpoint.
    pub(super) fn leave(
        &mut self,
        mut guest: Box<Guest<B::Machine>>,
        after: GuestState,
        to: Option<SavedCheckpoint>,
        why: impl FnOnce() -> String,
    ) -> Option<Rollback> {
        match after {
            GuestState::Alive | GuestState::Untouched => {
                guest.wasi_mut().set_stdin(Vec::new());
                self.backend.on_idle(&mut guest);
                self.put_back(guest);
                None
            }
            GuestState::Left => {
                self.backend.on_final_files(&guest);
                self.end(why());
                None
            }
            GuestState::Unwound => {
                // Drop the unwound guest first: the platform might not have room for a second instance.
                drop(guest);
                // If the rollback fails because another session has used the freed memory, the next call retries it.
                self.roll_back(to, why()).unwrap_or_default()
            }
        }
    }

    /// Rolls back a session whose guest was unwound, or ends the session. Fails if no instance is available now. In
    /// that case, the session has no guest but keeps its checkpoints, and the next call rolls it back.
    fn roll_back(&mut self, to: Option<SavedCheckpoint>, why: String) -> Result<Option<Rollback>, B::Error> {
        self.phase = Phase::Unwound(why.clone());
        if self.backend.setup().policy.on_unwind == OnUnwind::End {
            self.end(why);
            return Ok(None);
        }
        // A given `to` might not be in the history. The session is known to match its last checkpoint only if `to` is
        // `None`.
        let is_unchanged = to.is_none();
        let Some(saved) = to.or_else(|| self.history.last().cloned()) else {
            self.end(format!("{why}, and the session has no checkpoint to restore"));
            return Ok(None);
        };
        match self.guest_of(&saved) {
            Ok(guest) => {
                let executions_lost = self.executions.saturating_sub(saved.state.executions);
                self.rollbacks += 1;
                self.continue_at(guest, &saved);
                self.changed = !is_unchanged;
                self.backend.on_rollback(executions_lost, &why);
                Ok(Some(Rollback { checkpoint: saved.id, executions_lost }))
            }
            Err(error) if B::is_temporary(&error) => Err(error),
            Err(error) => {
                self.end(format!("{why}, and the rollback failed: {}", B::reason(&error)));
                Ok(None)
            }
        }
    }

    /// Creates a guest in a saved state of this session.
    pub(super) fn guest_of(&mut self, saved: &SavedCheckpoint) -> Result<Guest<B::Machine>, B::Error> {
        let wasi = self.backend.wasi_of(saved)?;
        restore(&mut self.backend, &saved.state, wasi, RandomNumbers::Same)
    }

    pub(super) fn continue_at(&mut self, guest: Guest<B::Machine>, saved: &SavedCheckpoint) {
        self.executions = saved.state.executions;
        self.backend.on_rollback_to(saved);
        self.changed = false;
        self.put_back(Box::new(guest));
    }

    pub(super) fn end(&mut self, reason: String) {
        self.phase = Phase::Ended(reason);
        self.backend.on_ended();
        self.history.clear();
        self.place = None;
    }
}

/// The random numbers of a restored guest. With the host's entropy, a restored guest draws new numbers, except from
/// generators that a script has seeded, and with [`Repeated`](Self::Repeated).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RandomNumbers {
    /// The random numbers of the saved session: the seeded generator continues at its position.
    Same,
    /// The random numbers of the saved session, even with the host's entropy: the interpreter's generators continue
    /// unchanged. For a session that replays an execution.
    Repeated,
    /// New numbers for a fork: the seeded generator has another key, which also seeds the interpreter's generators.
    Fork,
}

/// Creates a guest in a saved state. `wasi` is the matching WASI state. Runs no code of the guest.
pub(super) fn restore<B: SessionBackend>(
    backend: &mut B,
    state: &Checkpoint,
    mut wasi: Wasi,
    numbers: RandomNumbers,
) -> Result<Guest<B::Machine>, B::Error> {
    state.continue_entropy(&mut wasi);
    let mut guest = backend.instantiate(state, wasi)?;
    let grown_bytes = state.memory_bytes.checked_sub(guest.machine.memory_bytes());
    let grown_bytes =
        grown_bytes.ok_or_else(|| backend.error(SessionFailure::Mismatch("its memory is smaller than the image's")))?;
    if !guest.grow_freely(grown_bytes) {
        return Err(backend.error(SessionFailure::NoMemory(state.memory_bytes)));
    }
    if !guest.machine.write_pages(&state.pages) {
        return Err(backend.error(SessionFailure::Mismatch("it has pages beyond the end of its memory")));
    }
    let is_same = match numbers {
        RandomNumbers::Same => state.entropy_key.is_some(),
        RandomNumbers::Repeated => true,
        RandomNumbers::Fork => false,
    };
    if !is_same {
        guest.reseed(backend.setup().image)?;
    }
    backend.on_restored(&mut guest, &state.pages, is_same);
    Ok(guest)
}

/// The complete state of an idle session.
///
/// The state consists of the linear memory as its difference from the image, the mutable globals, and the host's state
/// for the guest: descriptors, files, standard input, clock and entropy. It contains no tables, because no image
/// changes its tables.
#[derive(Clone)]
pub struct Checkpoint {
    /// The size of the whole linear memory in bytes, a multiple of 64 KiB.
    pub memory_bytes: u64,
    /// The pages that differ from the image's pages.
    pub pages: Pages,
    /// The mutable globals' bits, ordered by export name. In an idle guest, the globals have the image's values.
    pub globals: Vec<(String, u64)>,
    /// The host's state for the guest. Its monotonic clock includes the age of the saved instance.
    pub wasi: Wasi,
    /// The number of executions before this state.
    pub executions: u64,
    /// The key of seeded entropy: the policy's, or a fork's own. `None` with the host's entropy.
    pub entropy_key: Option<[u8; 32]>,
    /// The number of forks that the session has made. An undo does not reset the number, so that every fork draws
    /// distinct numbers. A fork itself starts at 0 with its own key.
    pub forks: u64,
}

/// Derives the entropy key of a fork from its parent's key.
fn fork_key(parent: &[u8; 32], fork: u64) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(b"glovebox fork");
    hasher.update(parent);
    hasher.update(fork.to_le_bytes());
    hasher.finalize().into()
}

impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checkpoint")
            .field("executions", &self.executions)
            .field("pages", &self.pages)
            .finish_non_exhaustive()
    }
}

impl Checkpoint {
    /// Returns the size of the pages and of the host's state for the guest, in bytes, even if shared.
    pub fn held_bytes(&self) -> u64 {
        self.pages.bytes().saturating_add(self.wasi.host_bytes())
    }

    /// Returns the initial state of a fork.
    #[must_use]
    pub fn forked(mut self) -> Self {
        self.entropy_key = self.entropy_key.map(|key| fork_key(&key, self.forks));
        self.forks = 0;
        if let Some(key) = self.entropy_key {
            self.wasi.set_entropy(WasiEntropy::Seeded(key));
        }
        self
    }

    /// Makes another WASI state continue this state's seeded random numbers.
    pub fn continue_entropy(&self, wasi: &mut Wasi) {
        if let Some(key) = self.entropy_key {
            let position = self.wasi.entropy_position().unwrap_or(0);
            wasi.set_entropy(WasiEntropy::Seeded(key));
            wasi.set_entropy_position(position);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Entropy, boot_wasi};

    fn saved(entropy: Entropy) -> Checkpoint {
        let mut wasi = boot_wasi(Vec::new(), Vec::new(), None, Vec::new()).unwrap();
        wasi.set_entropy(entropy.wasi());
        Checkpoint {
            memory_bytes: 0,
            pages: Pages::default(),
            globals: Vec::new(),
            wasi,
            executions: 3,
            entropy_key: entropy.key(),
            forks: 0,
        }
    }

    #[test]
    fn forks_draw_different_random_numbers() {
        let mut state = saved(Entropy::Seeded(7));
        let mut keys = vec![state.entropy_key];
        for forks in 1..4 {
            state.forks = forks;
            let fork = state.clone().forked();
            assert_eq!((fork.forks, fork.executions), (0, 3));
            // Nested forks restart the fork counter and still get distinct keys.
            let again = Checkpoint { forks, ..fork.clone() }.forked();
            keys.extend([fork.entropy_key, again.entropy_key]);
        }
        let count = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    #[test]
    fn host_entropy_has_no_key() {
        let fork = Checkpoint { forks: 1, ..saved(Entropy::Host) }.forked();
        assert_eq!((fork.entropy_key, fork.wasi.entropy_position()), (None, None));
    }

    #[test]
    fn seeded_random_numbers_continue_after_restore() {
        let mut state = saved(Entropy::Seeded(7));
        state.wasi.set_entropy_position(12);
        let mut wasi = boot_wasi(Vec::new(), Vec::new(), None, Vec::new()).unwrap();
        state.continue_entropy(&mut wasi);
        assert_eq!(wasi.entropy_position(), Some(12));
        wasi.set_entropy(Entropy::Host.wasi());
        saved(Entropy::Host).continue_entropy(&mut wasi);
        assert_eq!(wasi.entropy_position(), None, "without a key, the policy's entropy remains");
    }
}
