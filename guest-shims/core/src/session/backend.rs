//! The platform interface of a session.

use glovebox_interpreters::DriverError;
use glovebox_wasi::Wasi;

use super::{Checkpoint, CheckpointId, History, LedgerEntry, Pages, Saved, SessionPolicy, TooMany};
use crate::{ExecutionCtx, Guest, GuestMachine, ImageDriver, Limits};

/// The context of a call into a session's guest.
pub type CtxOf<B> = ExecutionCtx<<<B as SessionBackend>::Machine as GuestMachine>::Platform>;

/// The image, the limits and the policy of a session.
#[derive(Clone, Copy)]
pub struct SessionSetup<'a> {
    /// The session's id.
    pub id: &'a str,
    /// The image's driver.
    pub image: ImageDriver<'a>,
    /// The limits of each execution.
    pub limits: &'a Limits,
    /// The session settings of the policy.
    pub policy: &'a SessionPolicy,
    /// The size of the image's linear memory.
    pub image_bytes: u64,
}

/// An operation that a session could not perform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionFailure<'a> {
    /// Any operation: the session has ended, for this reason.
    Ended(&'a str),
    /// A return to this checkpoint, or without an id to any checkpoint.
    NoCheckpoint(Option<CheckpointId>),
    /// Reading or setting a variable.
    Variable {
        /// The variable's name.
        name: &'a str,
        /// The reason, from the guest or from the limit that stopped it.
        reason: String,
    },
    /// Restoring a saved state that does not match the image. Holds the mismatch.
    Mismatch(&'a str),
    /// Restoring a saved state without enough memory. Holds the bytes that were needed.
    NoMemory(u64),
}

/// An operation that a session could not perform, with the session's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionError<'a> {
    /// The session's id.
    pub id: &'a str,
    /// The operation and the reason.
    pub failure: SessionFailure<'a>,
}

/// The platform of one session, and the platform's state for that session.
pub trait SessionBackend {
    /// The error that callers receive.
    type Error: From<TooMany> + From<DriverError> + for<'a> From<SessionError<'a>>;
    /// An instance.
    type Machine: GuestMachine;

    /// Returns the session's image, limits and policy.
    fn setup(&self) -> SessionSetup<'_>;

    /// Returns the context of a call into the guest that does not run a script.
    fn one_shot_ctx(&self) -> CtxOf<Self>;

    /// Creates a guest from the image, into which a saved state will be restored.
    ///
    /// # Errors
    /// The state does not match the image, for example in its globals, or no instance is available.
    fn instantiate(&self, state: &Checkpoint, wasi: Wasi) -> Result<Guest<Self::Machine>, Self::Error>;

    /// Returns the memory of an idle guest, as its difference from the image. Each page that equals one of `earlier` is
    /// shared with it; without `earlier`, there is no checkpoint to share with. The globals are the image's mutable
    /// ones, ordered by export name.
    ///
    /// # Errors
    /// The guest left a global changed.
    fn memory_of(&mut self, guest: &mut Guest<Self::Machine>, earlier: Option<Pages>) -> Result<Memory, Self::Error>;

    /// Returns an upper bound of the page bytes that a checkpoint of an idle guest would take.
    fn max_page_bytes(&mut self, guest: &mut Guest<Self::Machine>) -> Result<u64, Self::Error> {
        Ok(self.memory_of(guest, None)?.pages.bytes())
    }

    /// Returns the bytes held for an idle guest's pages within the image, apart from checkpoints.
    fn own_bytes(&self, guest: &Guest<Self::Machine>) -> u64;

    /// Called after the pages of a saved state were written to a guest. `is_same` means that the guest has run nothing
    /// since.
    fn restored(&mut self, guest: &mut Guest<Self::Machine>, _pages: &Pages, is_same: bool);

    /// Called when the session starts with the pages of another one, which its first checkpoint may share.
    fn resumed(&mut self, _pages: Pages) {}

    /// Prepares the guest for a call. With `keep_pages`, a checkpoint has the guest's pages as well, so they are worth
    /// keeping.
    fn prepare_call(&mut self, _guest: &mut Guest<Self::Machine>, _keep_pages: bool) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Called when the guest is idle again after a call.
    fn measure(&mut self, _guest: &mut Guest<Self::Machine>) {}

    /// Called after the session's usage was recorded in the ledger.
    fn accounted(&mut self, _guest: &mut Guest<Self::Machine>, _place: &LedgerEntry) {}

    /// Returns the WASI state to restore a checkpoint with.
    fn wasi_of(&self, saved: &Saved) -> Result<Wasi, Self::Error> {
        Ok(saved.state.wasi.clone())
    }

    /// Detaches a saved state from its session, so that the two share nothing.
    fn detach(&self, _state: &mut Checkpoint) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Returns the number of commits to host directories that the session's files include.
    fn known_commits(&self) -> u64 {
        0
    }

    /// Called when the session has returned to this state.
    fn rolled_back_to(&mut self, _saved: &Saved) {}

    /// Called when the guest was lost and the session has returned to an earlier state.
    fn rolled_back(&self, _executions_lost: u64, _why: &str) {}

    /// Called when a checkpoint was due and did not fit.
    fn skipped(&self, _over: &TooMany) {}

    /// Called after the guest's exit handlers have run.
    fn closed(&mut self, _guest: &mut Guest<Self::Machine>) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Called when the guest has exited with `os._exit`, with its final files.
    fn left(&mut self, _guest: &Guest<Self::Machine>) {}

    /// Called when the session has ended.
    fn ended(&mut self) {}

    /// Returns the error for an operation that the session could not perform.
    fn failed(&self, failure: SessionFailure<'_>) -> Self::Error {
        SessionError { id: self.setup().id, failure }.into()
    }

    /// Returns whether a failed operation may succeed later, because no instance was available.
    fn is_temporary(_error: &Self::Error) -> bool {
        true
    }

    /// Returns the description of an error for use as the reason of a session's end.
    fn reason(error: &Self::Error) -> String;
}

/// The linear memory and the globals of an idle guest.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The pages that differ from the image's pages.
    pub pages: Pages,
    /// The mutable globals.
    pub globals: Vec<(String, u64)>,
}

/// A session's guest during a call.
pub struct SessionCall<'a, B: SessionBackend> {
    /// The platform's state for the session.
    pub backend: &'a mut B,
    /// The guest, which is not idle.
    pub guest: &'a mut Guest<B::Machine>,
    /// The checkpoints that the session can return to.
    pub history: &'a History,
}
