//! What a session is given by the platform that it runs on.

use glovebox_interpreters::DriverError;
use glovebox_wasi::Wasi;

use super::{Checkpoint, CheckpointId, History, Pages, Place, Saved, SessionPolicy, TooMany};
use crate::{ExecutionCtx, Guest, GuestMachine, ImageDriver, Limits};

/// What holds for a call into a session's guest.
pub type CtxOf<B> = ExecutionCtx<<<B as SessionBackend>::Machine as GuestMachine>::Platform>;

/// What a session runs in and is held to.
#[derive(Clone, Copy)]
pub struct SessionSetup<'a> {
    /// The session's id.
    pub id: &'a str,
    /// How its image is called.
    pub image: ImageDriver<'a>,
    /// The policy's limits.
    pub limits: &'a Limits,
    /// How the session keeps and loses its state.
    pub policy: &'a SessionPolicy,
    /// The size of the image's linear memory.
    pub image_bytes: u64,
}

/// What a session cannot do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionFailure<'a> {
    /// Anything: it has ended, for this reason.
    Ended(&'a str),
    /// Go back to this checkpoint; without an id, to any.
    NoCheckpoint(Option<CheckpointId>),
    /// Read or set a variable.
    Variable {
        /// The variable.
        name: &'a str,
        /// What the guest said, or what stopped it.
        reason: String,
    },
    /// Go on in a saved state, which does not fit the image: in what.
    Mismatch(&'a str),
    /// Go on in a saved state: so many bytes of memory are not to be had.
    NoMemory(u64),
}

/// A session cannot do something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionError<'a> {
    /// The session.
    pub id: &'a str,
    /// What it cannot do.
    pub failure: SessionFailure<'a>,
}

/// The platform under one session, and what the platform keeps for that session.
pub trait SessionBackend {
    /// What the caller is told of a failure.
    type Error: From<TooMany> + From<DriverError> + for<'a> From<SessionError<'a>>;
    /// An instance.
    type Machine: GuestMachine;

    /// What the session runs in and is held to.
    fn setup(&self) -> SessionSetup<'_>;

    /// What bounds a call into the guest that is no script's.
    fn one_shot_ctx(&self) -> CtxOf<Self>;

    /// A guest as its image is, which is to go on in a saved state.
    ///
    /// # Errors
    /// When the state has other globals than the image, among others.
    fn instantiate(&self, state: &Checkpoint, wasi: Wasi) -> Result<Guest<Self::Machine>, Self::Error>;

    /// What differs from its image in the memory of an idle guest: pages, each shared with `earlier` where it is equal there. Without
    /// `earlier` there is no checkpoint to share with. Also the image's mutable globals, by their export name and in that order.
    ///
    /// # Errors
    /// When the guest left a global changed.
    fn memory_of(&mut self, guest: &mut Guest<Self::Machine>, earlier: Option<Pages>) -> Result<Memory, Self::Error>;

    /// The most that the pages of a checkpoint of an idle guest take, in bytes.
    fn max_page_bytes(&mut self, guest: &mut Guest<Self::Machine>) -> Result<u64, Self::Error> {
        Ok(self.memory_of(guest, None)?.pages.bytes())
    }

    /// What is held for an idle guest's pages within the image and for no checkpoint, in bytes.
    fn own_bytes(&self, guest: &Guest<Self::Machine>) -> u64;

    /// A guest has these pages of a saved state. `is_same`: it has run nothing since.
    fn restored(&mut self, guest: &mut Guest<Self::Machine>, _pages: &Pages, is_same: bool);

    /// The session begins with the pages of another: what its first checkpoint may share.
    fn resumed(&mut self, _pages: Pages) {}

    /// Has the guest where it can be called. `keep_pages`: a checkpoint has its pages as well, so that they are worth keeping.
    fn prepare_call(&mut self, _guest: &mut Guest<Self::Machine>, _keep_pages: bool) -> Result<(), Self::Error> {
        Ok(())
    }

    /// The guest has been called and is idle again.
    fn measure(&mut self, _guest: &mut Guest<Self::Machine>) {}

    /// What the session holds has been written down.
    fn accounted(&mut self, _guest: &mut Guest<Self::Machine>, _place: &Place) {}

    /// The WASI state that a saved state is gone on with.
    fn wasi_of(&self, saved: &Saved) -> Result<Wasi, Self::Error> {
        Ok(saved.state.wasi.clone())
    }

    /// Makes a saved state one of its own: nothing of it is another session's.
    fn detach(&self, _state: &mut Checkpoint) -> Result<(), Self::Error> {
        Ok(())
    }

    /// How many commits to host directories the session's files know of.
    fn known_commits(&self) -> u64 {
        0
    }

    /// The session is in this state again.
    fn rolled_back_to(&mut self, _saved: &Saved) {}

    /// The guest was lost, and the session is back in an earlier state.
    fn rolled_back(&self, _executions_lost: u64, _why: &str) {}

    /// There was no room for a checkpoint that was due.
    fn skipped(&self, _over: &TooMany) {}

    /// The guest's exit handlers have run.
    fn closed(&mut self, _guest: &mut Guest<Self::Machine>) -> Result<(), Self::Error> {
        Ok(())
    }

    /// The guest is gone for good, and leaves its files like this.
    fn left(&mut self, _guest: &Guest<Self::Machine>) {}

    /// The session has ended.
    fn ended(&mut self) {}

    /// The error for what the session cannot do.
    fn failed(&self, failure: SessionFailure<'_>) -> Self::Error {
        SessionError { id: self.setup().id, failure }.into()
    }

    /// Whether what failed may work later: no instance is to be had now.
    fn is_temporary(_error: &Self::Error) -> bool {
        true
    }

    /// An error as the reason for which a session ends.
    fn reason(error: &Self::Error) -> String;
}

/// The linear memory and the globals of an idle guest.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The pages that differ from the image's.
    pub pages: Pages,
    /// The mutable globals.
    pub globals: Vec<(String, u64)>,
}

/// A session's guest while it is called.
pub struct SessionCall<'a, B: SessionBackend> {
    /// What the platform keeps for the session.
    pub backend: &'a mut B,
    /// The guest.
    pub guest: &'a mut Guest<B::Machine>,
    /// The states that the session can be set back to.
    pub history: &'a History,
}
