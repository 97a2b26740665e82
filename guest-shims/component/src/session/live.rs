//! What a session is made of.
//!
//! The rules are the engine's: when a checkpoint is due, what one that is unwound goes back to, what is counted.

use std::{cell::RefCell, rc::Rc, sync::Arc};

use glovebox_core::{
    After, Clock, GuestValue, WORKSPACE,
    files::{Snapshot, change},
    session::{Checkpoint, CheckpointId, CheckpointInfo, History, Pages, Place, Saved, SessionInfo},
};
use glovebox_vfs::{RootId, Vfs, VfsError};
use glovebox_wasi::Wasi;

use super::kept::{self, Kept};
use crate::{
    Executed, Files, Guest, Runtime, Sandbox, Task, bindings::types::SandboxError, error::refused_variable,
    files::refused,
};

mod fate;

/// Whose random numbers a new guest goes on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaken {
    /// The saved session's own, exactly where they were.
    Same,
    /// Its own, and the interpreter's generators are seeded from them.
    Fork,
}

/// The state of a session.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) sandbox: Sandbox,
    pub(super) id: Rc<str>,
    life: Life,
    history: History,
    /// Whether the guest may differ from the last checkpoint.
    changed: bool,
    executions: u64,
    went_back: u64,
    checkpoints_skipped: u64,
    forks: u64,
    entropy_key: Option<[u8; 32]>,
    place: Option<Place>,
}

#[derive(Debug)]
enum Life {
    /// The guest can be entered.
    Resting(Rc<RefCell<Kept>>),
    /// There is none: it was unwound.
    Unwound(String),
    /// There will be none any more, and why.
    Ended(String),
}

impl Live {
    /// A session with a new guest.
    pub(super) fn open(sandbox: Sandbox, id: Rc<str>, place: Place) -> Result<Self, SandboxError> {
        let guest = sandbox.guest(Vec::new(), sandbox.passing_run())?;
        let kept = Kept::new(&sandbox.world, guest, Pages::default(), false);
        let entropy_key = sandbox.policy.entropy.key();
        let mut live = Self {
            sandbox,
            id,
            life: Life::Resting(kept),
            history: History::default(),
            changed: true,
            executions: 0,
            went_back: 0,
            checkpoints_skipped: 0,
            forks: 0,
            entropy_key,
            place: Some(place),
        };
        live.account();
        Ok(live)
    }

    /// A session in a saved state.
    pub(super) fn resumed(
        sandbox: Sandbox,
        id: Rc<str>,
        place: Place,
        state: &Checkpoint,
        awaken: Awaken,
    ) -> Result<Self, SandboxError> {
        let kept = awakened(&sandbox, state, awaken)?;
        let Checkpoint { executions, forks, entropy_key, .. } = *state;
        let mut live = Self {
            sandbox,
            id,
            life: Life::Resting(kept),
            history: History::default(),
            changed: true,
            executions,
            went_back: 0,
            checkpoints_skipped: 0,
            forks,
            entropy_key,
            place: Some(place),
        };
        live.account();
        Ok(live)
    }

    /// Refuses everything once it has ended.
    pub(super) fn check_alive(&self) -> Result<(), SandboxError> {
        match &self.life {
            Life::Ended(reason) => Err(self.has_ended(reason)),
            _ => Ok(()),
        }
    }

    /// Runs a script.
    pub(super) fn run(&mut self, task: &Task) -> Result<Executed, SandboxError> {
        let kept = self.enter(task.stdin.clone())?;
        let run = self.sandbox.start(task);
        let executed = with(&kept, |guest| {
            guest.machine.state.run.renew(run);
            self.sandbox.execute_in(guest, task, false)
        });
        let mut executed = match executed {
            Ok(executed) => executed,
            Err(error) => {
                self.end(text(&error));
                return Err(error);
            }
        };
        let after = executed.ran.after;
        // The count may have come with anybody's bytes.
        self.executions = self.executions.saturating_add(u64::from(after == After::Alive));
        executed.rolled_back_to = self.leave(kept, after, None, || executed.ran.outcome.describe());
        executed.session_id = Some(self.id.to_string());
        Ok(executed)
    }

    /// A global variable of the guest's. Looking at it is nothing that could be undone.
    pub(super) fn get_variable(&mut self, name: &str) -> Result<Option<GuestValue>, SandboxError> {
        let kept = self.take()?;
        let last = self.history.last().filter(|_| !self.changed).cloned();
        let now = match last {
            None if self.policy().interval(0).is_some() => {
                let state = Arc::new(self.save_from(&kept)?);
                Some(Saved { id: CheckpointId(0), automatic: true, state, commits: 0 })
            }
            last => last,
        };
        self.come_in(&kept)?;
        let (run, limits) = (self.sandbox.passing_run(), &self.sandbox.policy.limits);
        let (result, after) = with(&kept, |guest| {
            guest.wasi_mut().begin_execution();
            guest.machine.state.run.renew(run);
            Ok(guest.get_variable(limits, name))
        })?;
        let result = result.map_err(|refusal| refused_variable(name, &refusal));
        self.leave(kept, after, now, || said(&result));
        result
    }

    /// Sets a global variable of the guest's to what `json` says.
    pub(super) fn set_variable(&mut self, name: &str, json: &str) -> Result<(), SandboxError> {
        let kept = self.enter(Vec::new())?;
        let (run, limits) = (self.sandbox.passing_run(), &self.sandbox.policy.limits);
        let (result, after) = with(&kept, |guest| {
            guest.machine.state.run.renew(run);
            Ok(guest.set_variable(limits, name, json))
        })?;
        let result = result.map_err(|refusal| refused_variable(name, &refusal));
        self.leave(kept, after, None, || said(&result));
        result
    }

    /// Saves the state as one to come back to.
    pub(super) fn checkpoint(&mut self) -> Result<CheckpointId, SandboxError> {
        let most = self.checkpoints_kept();
        let kept = self.take()?;
        let id = match self.history.keep_last(most).filter(|_| !self.changed) {
            Some(id) => Ok(id),
            None => self.save_from(&kept).and_then(|state| {
                self.check_room(state.held_bytes())?;
                Ok(self.push(state, false))
            }),
        };
        self.rest(kept);
        id
    }

    /// The session as it is, for a fork or to become bytes.
    pub(super) fn save(&mut self) -> Result<Checkpoint, SandboxError> {
        let kept = self.take()?;
        let state = self.save_from(&kept);
        self.rest(kept);
        state
    }

    /// A state for one more fork.
    pub(super) fn save_for_fork(&mut self) -> Result<Checkpoint, SandboxError> {
        // As with executions.
        self.forks = self.forks.saturating_add(1);
        Ok(self.save()?.forked())
    }

    /// Sets the session back to a checkpoint: the given one, or the last that differs from now.
    pub(super) fn undo(&mut self, to: Option<CheckpointId>) -> Result<CheckpointId, SandboxError> {
        let is_new = self.changed || matches!(self.life, Life::Unwound(_));
        let saved = self.history.undo_target(to, is_new).cloned().ok_or_else(|| {
            let wanted = to.map_or_else(String::new, |id| format!(" with the id {}", id.0));
            SandboxError::NoCheckpoint(format!("session `{}` has no checkpoint to go back to{wanted}", self.id))
        })?;
        // The new guest first: if there is none to be had, the session stays as it is.
        let guest = awakened(&self.sandbox, &saved.state, Awaken::Same)?;
        self.history.forget_after(saved.id);
        self.rest_at(guest, &saved);
        Ok(saved.id)
    }

    pub(super) fn checkpoints(&self) -> Vec<CheckpointInfo> {
        self.history.list()
    }

    /// The files as they are. Looking at them is no change that a checkpoint would be due for.
    pub(super) fn files(&mut self) -> Result<Files, SandboxError> {
        let kept = self.take()?;
        let files = with(&kept, |guest| {
            let wasi = guest.wasi();
            Ok(Files::new(Snapshot::new(wasi.vfs().clone(), wasi.mount_root(WORKSPACE))))
        });
        self.life = Life::Resting(kept);
        files
    }

    /// Lets the host change the files.
    pub(super) fn with_files(
        &mut self,
        path: &str,
        work: impl FnOnce(&mut Vfs, RootId) -> Result<(), glovebox_core::files::FileError>,
    ) -> Result<(), SandboxError> {
        let kept = self.take()?;
        self.save_if_due(&kept)?;
        let now_ns = match (self.sandbox.policy.clock, &self.sandbox.world.clocks) {
            (Clock::Fixed(realtime_ns), _) => realtime_ns,
            (Clock::Host, clocks) => clocks.as_ref().map_or(0, |clocks| clocks.realtime_ns()),
        };
        let result = with(&kept, |guest| {
            let wasi = guest.wasi_mut();
            let root = wasi.mount_root(WORKSPACE);
            let vfs = wasi.vfs_mut();
            vfs.mark();
            vfs.set_now_ns(now_ns);
            let missing = || glovebox_core::files::FileError::refused("find", ".")(VfsError::BadInode);
            let changed = root.ok_or_else(missing).and_then(|root| change::whole(vfs, |vfs| work(vfs, root)));
            changed.map_err(refused(path))
        });
        self.changed = true;
        self.rest(kept);
        result
    }

    /// Runs the exit handlers, and ends the session.
    pub(super) fn close(&mut self) -> Result<(), SandboxError> {
        if matches!(self.life, Life::Ended(_)) {
            return Ok(());
        }
        let kept = match self.take() {
            Ok(kept) => kept,
            // It was lost, and there was nothing to go back to.
            Err(SandboxError::SessionEnded(_)) => return Ok(()),
            // It was lost, and there is no instance for one to run exit handlers in.
            Err(error) => {
                self.end("it was closed".into());
                return Err(error);
            }
        };
        let run = self.sandbox.passing_run();
        let closed = self.come_in(&kept).and_then(|()| {
            with(&kept, |guest| {
                guest.machine.state.run.renew(run);
                guest.wasi_mut().begin_execution();
                guest.close(&self.sandbox.policy.limits)
            })
        });
        self.end("it was closed".into());
        closed
    }

    /// What is told about it.
    pub(super) fn info(&self) -> SessionInfo {
        let (memory_bytes, ended) = match &self.life {
            Life::Resting(kept) => (kept.try_borrow().map_or(0, |kept| kept.memory_bytes()), None),
            Life::Unwound(_) => (0, None),
            Life::Ended(reason) => (0, Some(reason.clone())),
        };
        SessionInfo {
            executions: self.executions,
            memory_bytes,
            private_bytes: self.history.last().map_or(0, |saved| saved.state.pages.bytes()),
            held_bytes: self.place.as_ref().map_or(0, Place::bytes),
            checkpoints: self.history.count(),
            checkpoints_skipped: self.checkpoints_skipped,
            rollbacks: self.went_back,
            ended,
            ..info_of(&self.id, &self.sandbox.runtime)
        }
    }
}

/// What is told of a session that nothing else is known of.
pub(super) fn info_of(id: &str, runtime: &Runtime) -> SessionInfo {
    SessionInfo {
        id: id.to_owned(),
        language: runtime.language,
        runtime_name: runtime.name.clone(),
        executions: 0,
        memory_bytes: 0,
        private_bytes: 0,
        held_bytes: 0,
        checkpoints: 0,
        checkpoints_skipped: 0,
        rollbacks: 0,
        ended: None,
    }
}

/// Does something with a guest that is taken by nobody else.
fn with<R>(
    kept: &Rc<RefCell<Kept>>,
    work: impl FnOnce(&mut Guest) -> Result<R, SandboxError>,
) -> Result<R, SandboxError> {
    work(kept.try_borrow_mut().map_err(|_| kept::busy())?.guest())
}

/// What the mutable globals of a runtime hold while it rests, by name.
pub(super) fn globals(sandbox: &Sandbox) -> Vec<(String, u64)> {
    let globals = sandbox.runtime.globals.iter();
    let mut globals: Vec<_> = globals.map(|global| (global.export.clone(), global.value)).collect();
    globals.sort();
    globals
}

/// A new guest in a saved state. What the guest itself runs as it awakes is held to the limits of one execution.
fn awakened(sandbox: &Sandbox, state: &Checkpoint, awaken: Awaken) -> Result<Rc<RefCell<Kept>>, SandboxError> {
    let mut wasi: Wasi = state.wasi.clone();
    state.continue_entropy(&mut wasi);
    let Sandbox { world, runtime, policy, .. } = sandbox;
    let mut guest = Guest::asleep(world, runtime, wasi, &policy.limits, sandbox.passing_run())?;
    kept::grow(&mut guest, state.memory_bytes.saturating_sub(runtime.memory_bytes()))?;
    kept::write(&mut guest, &state.pages)?;
    let is_same = awaken == Awaken::Same && state.entropy_key.is_some();
    if !is_same {
        guest.awaken_within(&policy.limits)?;
    }
    Ok(Kept::new(world, guest, state.pages.clone(), is_same))
}

/// What kept a guest from answering.
fn said<T>(result: &Result<T, SandboxError>) -> String {
    match result {
        Err(SandboxError::Variable(said)) => format!("variable {said}"),
        Err(error) => text(error),
        Ok(_) => String::new(),
    }
}

/// The words of an error that calls into guests give.
fn text(error: &SandboxError) -> String {
    match error {
        SandboxError::Unavailable(text) => text.clone(),
        error => error.to_string(),
    }
}
