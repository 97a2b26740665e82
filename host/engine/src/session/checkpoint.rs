//! Saving a guest, and making one of a saved state.

use glovebox_core::session::{Checkpoint, Pages};
use glovebox_wasi::Wasi;

use crate::{
    ExecuteError, Request, Sandbox,
    current::Run,
    guest::Guest,
    run::Setting,
    runtime::Image,
    session::{pages::own_pages, pristine},
};

/// Whose random numbers a new guest goes on with. Those of the host's generator are new ones in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaken {
    /// The saved session's own: seeded entropy continues exactly where it was.
    Same,
    /// Its own: seeded entropy is another, and the interpreter's generators are seeded from it.
    Fork,
}

/// What an engine does with a saved state.
pub(crate) trait EngineCheckpoint: Sized {
    /// Saves an idle guest. Pages that are equal in `earlier` are shared with it.
    fn of(image: &Image, guest: &mut Guest, earlier: Pages) -> Result<Self, ExecuteError>;

    /// Its WASI state over host directories as they are now, with what was changed and not committed put over them.
    fn remounted(&self, sandbox: &Sandbox) -> Result<Wasi, ExecuteError>;

    /// A new guest in this state, with a WASI state that goes with it. What the guest itself runs as it awakes is held to
    /// the limits of one execution.
    fn guest(&self, sandbox: &Sandbox, wasi: Wasi, awaken: Awaken, run: Run) -> Result<Guest, ExecuteError>;
}

impl EngineCheckpoint for Checkpoint {
    fn of(image: &Image, guest: &mut Guest, earlier: Pages) -> Result<Self, ExecuteError> {
        let pristine = image.pristine()?;
        let globals = guest.globals(image)?;
        let numbers = guest.machine.private_pages().map(<[u32]>::to_vec);
        Ok(Self {
            memory_bytes: guest.machine.memory().len() as u64,
            pages: own_pages(guest.machine.memory(), pristine, numbers, earlier),
            globals,
            wasi: guest.settled_wasi(),
            executions: 0,
            entropy_key: None,
            forks: 0,
        })
    }

    fn remounted(&self, sandbox: &Sandbox) -> Result<Wasi, ExecuteError> {
        let setting = Setting::new(sandbox, Request::new(""))?;
        let mut wasi = sandbox.wasi(&setting, &sandbox.0.workspace.files()?)?;
        let limit = sandbox.0.runtime.memory_limit(&sandbox.0.policy.limits);
        wasi.set_linear_memory_bytes(limit.counted(self.memory_bytes));
        wasi.restore(&self.wasi.save())
            .map_err(|error| ExecuteError::Driver(format!("the session's files cannot be taken up again: {error}")))?;
        Ok(wasi)
    }

    fn guest(&self, sandbox: &Sandbox, mut wasi: Wasi, awaken: Awaken, run: Run) -> Result<Guest, ExecuteError> {
        let inner = &sandbox.0;
        let broken = |what: &str| ExecuteError::Driver(format!("the saved session does not fit its image: {what}"));
        let image = inner.runtime.image().ok_or_else(|| broken("there is none"))?;
        if self.globals != image.pristine()?.globals() {
            return Err(broken("its globals are not at rest"));
        }
        self.continue_entropy(&mut wasi);
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
