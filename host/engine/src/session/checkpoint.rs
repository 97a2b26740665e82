//! A saved state of a session, and a guest made from one.

use glovebox_wasi::{Entropy as WasiEntropy, Wasi};
use sha2::{Digest as _, Sha256};

use crate::{
    ExecuteError, Request, Sandbox,
    current::Run,
    guest::Guest,
    run::Setting,
    runtime::Image,
    session::{pages::Pages, pristine},
};

/// Everything a resting session is made of.
///
/// Linear memory as its difference to the image, mutable globals, and what the host keeps for the guest: descriptors,
/// files, standard input, clock, entropy. Tables are not part of it, because no image changes its own.
#[derive(Clone)]
pub(crate) struct Checkpoint {
    /// The size of the whole linear memory, a multiple of 64 KiB.
    pub(crate) memory_bytes: u64,
    /// Its pages that differ from the image's.
    pub(crate) pages: Pages,
    /// The mutable globals by their export name, as bits, in the names' order. A resting guest has the image's.
    pub(crate) globals: Vec<(String, u64)>,
    /// What the host keeps for the guest. Its monotonic clock has no host's share in it.
    pub(crate) wasi: Wasi,
    /// How many executions the state has behind it.
    pub(crate) executions: u64,
    /// The key that a session with seeded entropy draws from: the policy's seed, or a fork's own. None with the host's.
    pub(crate) entropy_key: Option<[u8; 32]>,
    /// How many forks were made of the session. Later ones go on counting, so that none draws what another did.
    pub(crate) forks: u64,
}

/// Whose random numbers a new guest goes on with. Those of the host's generator are new ones in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaken {
    /// The saved session's own: seeded entropy continues exactly where it was.
    Same,
    /// Its own: seeded entropy is another, and the interpreter's generators are seeded from it.
    Fork,
}

/// The key of a session's fork.
pub(crate) fn fork_key(parent: &[u8; 32], fork: u64) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(b"glovebox fork");
    hasher.update(parent);
    hasher.update(fork.to_le_bytes());
    hasher.finalize().into()
}

impl Checkpoint {
    /// Saves a resting guest. Pages that are equal in `earlier` are shared with it.
    pub(crate) fn of(image: &Image, guest: &mut Guest, earlier: Pages) -> Result<Self, ExecuteError> {
        let pristine = image.pristine()?;
        let globals = guest.globals(image)?;
        Ok(Self {
            memory_bytes: guest.machine.memory().len() as u64,
            pages: Pages::of(guest.machine.memory(), pristine, earlier),
            globals,
            wasi: guest.settled_wasi(),
            executions: 0,
            entropy_key: None,
            forks: 0,
        })
    }

    /// The same state, to be gone on with by a fork.
    pub(crate) fn forked(mut self) -> Self {
        self.entropy_key = self.entropy_key.map(|key| fork_key(&key, self.forks));
        self.forks = 0;
        if let Some(key) = self.entropy_key {
            self.wasi.set_entropy(WasiEntropy::Seeded(key));
        }
        self
    }

    /// Its WASI state over host directories as they are now, with what was changed and not committed put over them.
    pub(crate) fn remounted(&self, sandbox: &Sandbox) -> Result<Wasi, ExecuteError> {
        let setting = Setting::new(sandbox, Request::new(""))?;
        let mut wasi = sandbox.wasi(&setting, &sandbox.0.workspace.files()?)?;
        wasi.set_linear_memory_bytes(self.memory_bytes);
        wasi.restore(&self.wasi.save())
            .map_err(|error| ExecuteError::Driver(format!("the session's files cannot be taken up again: {error}")))?;
        Ok(wasi)
    }

    /// A new guest in this state, with a WASI state that goes with it. What the guest itself runs as it awakes is held to
    /// the limits of one execution.
    pub(crate) fn guest(
        &self,
        sandbox: &Sandbox,
        mut wasi: Wasi,
        awaken: Awaken,
        run: Run,
    ) -> Result<Guest, ExecuteError> {
        let inner = &sandbox.0;
        let broken = |what: &str| ExecuteError::Driver(format!("the saved session does not fit its image: {what}"));
        let image = inner.runtime.image().ok_or_else(|| broken("there is none"))?;
        if self.globals != image.pristine()?.globals() {
            return Err(broken("its globals are not at rest"));
        }
        if let Some(key) = self.entropy_key {
            let position = self.wasi.entropy_position().unwrap_or(0);
            wasi.set_entropy(WasiEntropy::Seeded(key));
            wasi.set_entropy_position(position);
        }
        let limits = &inner.policy.limits;
        let mut guest = Guest::asleep(&inner.engine.0, &inner.runtime, Box::new(wasi), limits, run)?;
        let memory_bytes = guest.machine.memory().len() as u64;
        let grown = self.memory_bytes.checked_sub(memory_bytes).ok_or_else(|| broken("it is smaller"))?;
        // Files may have taken what is kept free of memory. A guest that could not come back for it would have ruined its
        // session.
        let kept_free = guest.machine.store.data_mut().limiter.memory.free_all();
        let has_grown = guest.machine.grow_bytes(grown);
        guest.machine.store.data_mut().limiter.memory.keep_free(kept_free);
        if !has_grown {
            return Err(ExecuteError::Instantiate {
                reason: format!(
                    "the session's {} bytes of memory are not to be had within `limits.memory_bytes`",
                    self.memory_bytes
                ),
            });
        }
        if !self.pages.write_to(guest.machine.memory_mut()) {
            return Err(broken("it has pages beyond its end"));
        }
        if self.entropy_key.is_none() || awaken == Awaken::Fork {
            guest.awaken_within(image, limits)?;
        }
        Ok(guest)
    }
}

impl Guest {
    /// The mutable globals of a resting guest, by name; an error when one is not as the image has it.
    fn globals(&mut self, image: &Image) -> Result<Vec<(String, u64)>, ExecuteError> {
        let resting = image.pristine()?.globals();
        for (name, value) in resting {
            let now = self.machine.global_value(name).as_ref().and_then(pristine::bits);
            if now != Some(*value) {
                return Err(ExecuteError::Driver(format!("the guest left its global `{name}` changed")));
            }
        }
        Ok(resting.to_vec())
    }
}
