//! The platform of a session: guests that use one memory in turn.

use std::rc::Rc;

use glovebox_core::{
    Clock, Refusal,
    files::{FileError, change},
    session::{
        Checkpoint, Memory, Pages, Place, SessionBackend, SessionCall, SessionError, SessionFailure, SessionSetup,
    },
};
use glovebox_vfs::{RootId, Vfs, VfsError};
use glovebox_wasi::Wasi;

use super::resident::{ResidentMemory, no_memory};
use crate::{ExecutionCtx, Guest, GuestMachine, Sandbox, bindings::types::SandboxError, convert::refused_variable};

/// The component's state for a session.
#[derive(Debug)]
pub(super) struct ComponentBackend {
    pub(super) sandbox: Sandbox,
    id: Rc<str>,
}

impl ComponentBackend {
    pub(super) fn new(sandbox: Sandbox, id: &Rc<str>) -> Self {
        Self { sandbox, id: Rc::clone(id) }
    }

    /// Returns the policy's time, in nanoseconds since 1970.
    fn realtime_ns(&self) -> u64 {
        match (self.sandbox.policy.clock, &self.sandbox.world.clocks) {
            (Clock::Fixed(realtime_ns), _) => realtime_ns,
            (Clock::Host, clocks) => clocks.as_ref().map_or(0, |clocks| clocks.realtime_ns()),
        }
    }
}

/// Changes a session's files from the host, completely or not at all.
pub(super) fn change_files(
    call: SessionCall<'_, ComponentBackend>,
    work: impl FnOnce(&mut Vfs, RootId) -> Result<(), FileError>,
) -> Result<(), FileError> {
    let wasi = call.guest.wasi_mut();
    let root = wasi.mount_root(glovebox_core::WORKSPACE);
    let vfs = wasi.vfs_mut();
    vfs.mark();
    vfs.set_now_ns(call.backend.realtime_ns());
    let root = root.ok_or_else(|| FileError::refused("find", ".")(VfsError::BadInode))?;
    change::whole(vfs, |vfs| work(vfs, root))
}

/// Returns the memory of a session's guest, which always exists.
fn memory(guest: &Guest) -> Result<&ResidentMemory, SandboxError> {
    let missing = || SandboxError::Unavailable("the session's guest has no memory".into());
    guest.machine.resident.as_ref().ok_or_else(missing)
}

impl SessionBackend for ComponentBackend {
    type Error = SandboxError;
    type Machine = GuestMachine;

    fn setup(&self) -> SessionSetup<'_> {
        let Sandbox { runtime, policy, .. } = &self.sandbox;
        SessionSetup {
            id: &self.id,
            image: runtime.driver(),
            limits: &policy.limits,
            policy: &policy.session,
            image_bytes: runtime.memory_bytes(),
        }
    }

    fn one_shot_ctx(&self) -> ExecutionCtx {
        self.sandbox.one_shot_ctx()
    }

    fn instantiate(&self, _state: &Checkpoint, wasi: Wasi) -> Result<Guest, SandboxError> {
        self.sandbox.instantiate(wasi, self.one_shot_ctx())
    }

    fn memory_of(&mut self, guest: &mut Guest, _earlier: Option<Pages>) -> Result<Memory, SandboxError> {
        Ok(Memory { pages: memory(guest)?.pages()?, globals: self.sandbox.runtime.idle_globals.clone() })
    }

    fn own_bytes(&self, guest: &Guest) -> u64 {
        memory(guest).map_or(0, ResidentMemory::own_bytes)
    }

    fn restored(&mut self, guest: &mut Guest, pages: &Pages, is_same: bool) {
        guest.machine.make_resident(pages.clone(), is_same);
    }

    fn prepare_call(&mut self, guest: &mut Guest, keep_pages: bool) -> Result<(), SandboxError> {
        memory(guest)?.enter(keep_pages)
    }

    fn accounted(&mut self, guest: &mut Guest, place: &Place) {
        if let Ok(memory) = memory(guest) {
            memory.reserve_from(place.reservation(self.setup().limits));
        }
    }

    fn reason(error: &SandboxError) -> String {
        match error {
            SandboxError::Unavailable(text) => text.clone(),
            SandboxError::Variable(text) => format!("variable {text}"),
            error => error.to_string(),
        }
    }
}

impl From<SessionError<'_>> for SandboxError {
    fn from(SessionError { id, failure }: SessionError<'_>) -> Self {
        match failure {
            SessionFailure::Ended(reason) => {
                Self::SessionEnded(format!("session `{id}` has ended: {reason}; open another one"))
            }
            SessionFailure::NoCheckpoint(wanted) => {
                let wanted = wanted.map_or_else(String::new, |id| format!(" with the id {}", id.0));
                Self::NoCheckpoint(format!("session `{id}` has no checkpoint to go back to{wanted}"))
            }
            SessionFailure::Variable { name, reason } => refused_variable(name, Refusal::Guest(reason)),
            SessionFailure::Mismatch(what) => {
                Self::Unavailable(format!("the saved session does not fit its image: {what}"))
            }
            SessionFailure::NoMemory(bytes) => no_memory(bytes),
        }
    }
}
