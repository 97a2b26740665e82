//! Sessions: interpreters that persist between executions.
//!
//! * [`SessionState`]: the state machine, on top of a [`SessionBackend`]; the `recovery` module replaces unwound
//!   guests.
//! * [`Checkpoint`]: a saved state; [`Pages`]: its memory, as the difference from the image.
//! * [`History`]: a session's checkpoints, their schedule, and the target of an undo.
//! * [`SessionLedger`]: the total usage of all sessions.

mod history;
mod info;
mod ledger;
mod pages;
mod recovery;
mod state;

use glovebox_interpreters::DriverError;
use glovebox_wasi::Wasi;

use crate::{ExecutionCtx, Guest, GuestMachine, ImageDriver, Limits};

pub use history::{History, SavedCheckpoint};
pub use info::{
    CheckpointId, CheckpointInfo, Checkpoints, MAX_SESSION_ID_BYTES, OnUnwind, Rollback, SessionInfo, SessionPolicy,
    is_session_id,
};
pub use ledger::{LedgerEntry, Reservation, SessionLedger, SessionUsage, TooMany};
pub use pages::{GuestPages, PAGE_BYTES, Page, PageChange, Pages};
pub use recovery::{Checkpoint, RandomNumbers};
pub use state::SessionState;

/// The execution context of a session's guest.
pub type CtxOf<B> = ExecutionCtx<<<B as SessionBackend>::Machine as GuestMachine>::Platform>;

/// A session's image, limits and policy.
#[derive(Clone, Copy)]
pub struct SessionSetup<'a> {
    /// The session's ID.
    pub id: &'a str,
    /// The image's driver.
    pub image: ImageDriver<'a>,
    /// The limits of each execution.
    pub limits: &'a Limits,
    /// The policy's session settings.
    pub policy: &'a SessionPolicy,
    /// The size of the image's linear memory, in bytes.
    pub image_bytes: u64,
}

/// The operation that a session could not perform, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionFailure<'a> {
    /// Any operation, because the session has ended. Holds the reason for its end.
    Ended(&'a str),
    /// Returning to the checkpoint with this ID or, without an ID, to any checkpoint.
    NoCheckpoint(Option<CheckpointId>),
    /// Reading or setting a global variable.
    Variable {
        /// The variable's name.
        name: &'a str,
        /// The reason: the guest's exception, or the limit that stopped the guest.
        reason: String,
    },
    /// Restoring a saved state that does not match the image. Holds a description of the mismatch.
    Mismatch(&'a str),
    /// Restoring a saved state without enough memory. Holds the required size of linear memory, in bytes.
    NoMemory(u64),
}

/// A [`SessionFailure`] with the session's ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionError<'a> {
    /// The session's ID.
    pub id: &'a str,
    /// The operation, and the reason why it failed.
    pub failure: SessionFailure<'a>,
}

/// The platform's operations and state for one session.
pub trait SessionBackend {
    /// The error that callers receive.
    type Error: From<TooMany> + From<DriverError> + for<'a> From<SessionError<'a>>;
    /// An instance of an image.
    type Machine: GuestMachine;

    /// Returns the session's image, limits and policy.
    fn setup(&self) -> SessionSetup<'_>;

    /// Returns the context for a call into the guest that does not run a script.
    fn one_shot_ctx(&self) -> CtxOf<Self>;

    /// Creates a guest from the image, for restoring `state` into it.
    ///
    /// # Errors
    /// Fails if the state (for example its globals) does not match the image, or if no instance is available.
    fn instantiate(&self, state: &Checkpoint, wasi: Wasi) -> Result<Guest<Self::Machine>, Self::Error>;

    /// Returns an idle guest's memory, as its difference from the image. Pages that equal pages of `earlier`, the last
    /// checkpoint, share that checkpoint's storage. The globals are the image's mutable globals, ordered by export
    /// name.
    ///
    /// # Errors
    /// Fails if the guest has left a global changed.
    fn memory_of(&mut self, guest: &mut Guest<Self::Machine>, earlier: Option<Pages>) -> Result<Memory, Self::Error>;

    /// Returns an upper bound on the size of the pages in an idle guest's checkpoint, in bytes.
    fn max_page_bytes(&mut self, guest: &mut Guest<Self::Machine>) -> Result<u64, Self::Error> {
        Ok(self.memory_of(guest, None)?.pages.bytes())
    }

    /// Returns the size of the pages that an idle guest has changed within the image, in bytes. Does not count the
    /// pages of checkpoints.
    fn own_bytes(&self, guest: &Guest<Self::Machine>) -> u64;

    /// Called after the pages of a saved state were written to a guest. `is_same` is `true` if the guest has not run
    /// code since then.
    fn on_restored(&mut self, guest: &mut Guest<Self::Machine>, _pages: &Pages, is_same: bool);

    /// Called when the session starts with another session's pages, which the new session's first checkpoint may
    /// share.
    fn on_resumed(&mut self, _pages: Pages) {}

    /// Prepares the guest for a call. `keep_pages` is `true` if the guest's stored pages must remain, because a
    /// checkpoint may share them.
    fn prepare_call(&mut self, _guest: &mut Guest<Self::Machine>, _keep_pages: bool) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Called when the guest is idle again after a call.
    fn on_idle(&mut self, _guest: &mut Guest<Self::Machine>) {}

    /// Called after the session's usage was recorded in the ledger.
    fn on_accounted(&mut self, _guest: &mut Guest<Self::Machine>, _place: &LedgerEntry) {}

    /// Returns the WASI state to restore a checkpoint with.
    fn wasi_of(&self, saved: &SavedCheckpoint) -> Result<Wasi, Self::Error> {
        Ok(saved.state.wasi.clone())
    }

    /// Detaches a saved state from its session, so that the two share no data.
    fn detach(&self, _state: &mut Checkpoint) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Returns the number of commits to host directories that are included in the session's files.
    fn known_commits(&self) -> u64 {
        0
    }

    /// Called when the session has returned to a saved state.
    fn on_rollback_to(&mut self, _saved: &SavedCheckpoint) {}

    /// Called when the guest was unwound and the session has returned to a saved state. `why` is the reason for the
    /// unwinding.
    fn on_rollback(&self, _executions_lost: u64, _why: &str) {}

    /// Called when a checkpoint was due but exceeded the limit on all sessions.
    fn on_checkpoint_skipped(&self, _over: &TooMany) {}

    /// Called after the guest's exit handlers have run.
    fn on_closed(&mut self, _guest: &mut Guest<Self::Machine>) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Called with the final files of a guest that has exited or was closed.
    fn on_final_files(&mut self, _guest: &Guest<Self::Machine>) {}

    /// Called when the session has ended.
    fn on_ended(&mut self) {}

    /// Returns the error for an operation that the session could not perform.
    fn error(&self, failure: SessionFailure<'_>) -> Self::Error {
        SessionError { id: self.setup().id, failure }.into()
    }

    /// Returns `true` if a failed operation may succeed later, for example when an instance becomes available.
    fn is_temporary(_error: &Self::Error) -> bool {
        true
    }

    /// Describes an error that ended the session. Later errors contain the text as the reason.
    fn reason(error: &Self::Error) -> String;
}

/// The linear memory and the globals of an idle guest.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The pages that differ from the image's pages.
    pub pages: Pages,
    /// The mutable globals' bits, ordered by export name.
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
