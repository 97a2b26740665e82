//! What a session is given by the platform that it runs on.

use glovebox_interpreters::DriverError;
use glovebox_wasi::Wasi;

use super::{Checkpoint, CheckpointId, History, Pages, Place, Saved, SessionPolicy, TooMany};
use crate::{Guest, GuestMachine, GuestState, ImageDriver, Limits, Outcome};

/// What bounds a call into a session's guest.
pub type CtxOf<B> = <<B as SessionBackend>::Machine as GuestMachine>::Ctx;

/// The platform under one session, and what the platform keeps for that session.
pub trait SessionBackend {
    /// What the caller is told of a failure.
    type Error: From<TooMany> + From<DriverError>;
    /// An instance.
    type Machine: GuestMachine;

    /// The policy's limits.
    fn limits(&self) -> &Limits;

    /// How the session keeps and loses its state.
    fn policy(&self) -> &SessionPolicy;

    /// How the image is called.
    fn image(&self) -> Result<ImageDriver<'_>, Self::Error>;

    /// The size of the image's linear memory.
    fn image_bytes(&self) -> u64;

    /// What the image's mutable globals hold, by their export name and in that order.
    fn globals(&self) -> Result<Vec<(String, u64)>, Self::Error>;

    /// What bounds a call into the guest that is no script's.
    fn one_shot_ctx(&self) -> CtxOf<Self>;

    /// A guest as its image is.
    fn instantiate(&self, wasi: Wasi) -> Result<Guest<Self::Machine>, Self::Error>;

    /// The pages of an idle guest that differ from its image's, each shared with `earlier` where it is equal there. Without `earlier`
    /// there is no checkpoint to share with.
    ///
    /// # Errors
    /// When the guest left a global changed.
    fn pages(&mut self, guest: &mut Guest<Self::Machine>, earlier: Option<Pages>) -> Result<Pages, Self::Error>;

    /// The most that the pages of a checkpoint of an idle guest take, in bytes.
    fn pages_bytes_max(&mut self, guest: &mut Guest<Self::Machine>) -> Result<u64, Self::Error>;

    /// What is held for an idle guest's pages within the image and for no checkpoint, in bytes.
    fn own_bytes(&self, guest: &Guest<Self::Machine>) -> u64;

    /// A guest has these pages of a saved state. `is_same`: it has run nothing since.
    fn restored(&mut self, guest: &mut Guest<Self::Machine>, pages: &Pages, is_same: bool);

    /// The session begins with the pages of another: what its first checkpoint may share.
    fn resumed(&mut self, pages: Pages) {
        let _ = pages;
    }

    /// Has the guest where it can be called. `keep_pages`: a checkpoint has its pages as well, so that they are worth keeping.
    fn prepare_call(&mut self, guest: &mut Guest<Self::Machine>, keep_pages: bool) -> Result<(), Self::Error> {
        let _ = (guest, keep_pages);
        Ok(())
    }

    /// The guest has been called and is idle again.
    fn idle(&mut self, guest: &mut Guest<Self::Machine>) {
        let _ = guest;
    }

    /// What the session holds has been written down.
    fn accounted(&mut self, guest: &mut Guest<Self::Machine>, place: &Place) {
        let _ = (guest, place);
    }

    /// The WASI state that a saved state is gone on with.
    fn wasi_of(&self, saved: &Saved) -> Result<Wasi, Self::Error> {
        Ok(saved.state.wasi.clone())
    }

    /// Makes a saved state one of its own: nothing of it is another session's.
    fn detach(&self, state: &mut Checkpoint) -> Result<(), Self::Error> {
        let _ = state;
        Ok(())
    }

    /// How many commits to host directories the session's files know of.
    fn known_commits(&self) -> u64 {
        0
    }

    /// The session is in this state again.
    fn rolled_back_to(&mut self, saved: &Saved) {
        let _ = saved;
    }

    /// The guest was lost, and the session is back in an earlier state.
    fn rolled_back(&self, executions_lost: u64, why: &str) {
        let _ = (executions_lost, why);
    }

    /// There was no room for a checkpoint that was due.
    fn skipped(&self, over: &TooMany) {
        let _ = over;
    }

    /// The guest's exit handlers have run.
    fn closed(&mut self, guest: &mut Guest<Self::Machine>) -> Result<(), Self::Error> {
        let _ = guest;
        Ok(())
    }

    /// The guest is gone for good, and leaves its files like this.
    fn left(&mut self, guest: &Guest<Self::Machine>) {
        let _ = guest;
    }

    /// The session has ended.
    fn ended(&mut self) {}

    /// What is told of a session that has ended.
    fn session_ended(&self, reason: &str) -> Self::Error;

    /// There is no such state; without `wanted`, none at all.
    fn no_checkpoint(&self, wanted: Option<CheckpointId>) -> Self::Error;

    /// What the guest said of a variable, or what stopped it.
    fn variable(name: &str, reason: String) -> Self::Error;

    /// A saved state does not fit the image.
    fn misfit(what: &str) -> Self::Error;

    /// So many bytes of memory are not to be had.
    fn no_memory(bytes: u64) -> Self::Error;

    /// Whether what failed may work later: no instance is to be had now.
    fn is_temporary(error: &Self::Error) -> bool;

    /// An error as the reason for which a session ends.
    fn reason(error: &Self::Error) -> String;
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

/// What running a script came to.
pub trait Executed {
    /// What the guest is good for.
    fn after(&self) -> GuestState;

    /// What it did.
    fn outcome(&self) -> &Outcome;
}
