//! What a session is made of, in the hands of whoever has the turn.

use std::sync::Arc;

use glovebox_core::{
    After,
    session::{Checkpoint, CheckpointId, CheckpointInfo, History, Pages, Place, Saved},
};
use glovebox_vfs::{RootId, Vfs};
use glovebox_wasi::Wasi;

use crate::{
    ExecuteError, Execution, Files, GuestValue, Sandbox,
    budget::Keeper,
    current::Run,
    guest::Guest,
    own_commits::OwnCommits,
    run::Setting,
    runtime::Image,
    session::{
        SharedWorkspace,
        checkpoint::{Awaken, EngineCheckpoint as _},
        info::Status,
        pages::OwnBytes,
        shared,
    },
    workspace::Roots,
};

mod fate;

/// The state of a session.
pub(super) struct Live {
    sandbox: Sandbox,
    id: Arc<str>,
    life: Life,
    roots: Roots,
    workspace: Option<SharedWorkspace>,
    /// In a shared workspace: what the host keeps for the guest as the turn began, with the files as they were. Between
    /// turns its references to open files are those that the workspace knows of.
    before: Option<Wasi>,
    history: History,
    /// What the pages of a first checkpoint may be shared with: those that a fork began with.
    alike: Pages,
    /// Whether the guest may differ from the last checkpoint.
    changed: bool,
    executions: u64,
    went_back: u64,
    /// What was committed to host directories. In a shared workspace only how often: its files never go back to before.
    commits: OwnCommits,
    forks: u64,
    entropy_key: Option<[u8; 32]>,
    keeper: Keeper,
    place: Option<Place>,
    /// What the guest had of its own when it was last idle.
    own: OwnBytes,
    /// How often there was no room for a checkpoint that was due.
    checkpoints_skipped: u64,
}

enum Life {
    /// The guest can be entered.
    Resting(Box<Guest>),
    /// There is none: it was unwound, or is in use. Should its user panic, this is what stays.
    Unwound(String),
    /// There will be none any more, and why.
    Ended(String),
}

impl Live {
    /// A session around a new guest.
    pub(super) fn new(
        sandbox: &Sandbox,
        id: Arc<str>,
        guest: Guest,
        roots: Roots,
        workspace: Option<SharedWorkspace>,
        keeper: Keeper,
        place: Place,
    ) -> Self {
        let mut live = Self {
            sandbox: sandbox.clone(),
            id,
            life: Life::Resting(Box::new(guest)),
            roots,
            workspace,
            before: None,
            history: History::default(),
            alike: Pages::default(),
            changed: true,
            executions: 0,
            went_back: 0,
            commits: OwnCommits::default(),
            forks: 0,
            entropy_key: sandbox.0.policy.entropy.key(),
            keeper,
            place: Some(place),
            own: OwnBytes::default(),
            checkpoints_skipped: 0,
        };
        live.account();
        live
    }

    /// A session in a saved state. Called on a guest stack.
    pub(super) fn resumed(
        sandbox: &Sandbox,
        id: Arc<str>,
        state: Checkpoint,
        awaken: Awaken,
        roots: Roots,
        keeper: Keeper,
        place: Place,
    ) -> Result<Self, ExecuteError> {
        let guest = state.guest(sandbox, state.wasi.clone(), awaken, passing_run(sandbox, &keeper))?;
        let mut live = Self::new(sandbox, id, guest, roots, None, keeper, place);
        live.executions = state.executions;
        live.forks = state.forks;
        live.entropy_key = state.entropy_key;
        live.own = OwnBytes::restored(&state.pages, live.image_bytes());
        live.alike = state.pages;
        live.account();
        Ok(live)
    }

    /// Takes up the files as others have left them. Called when the turn in the workspace begins.
    pub(super) fn take_files(&mut self) {
        let Some(workspace) = &self.workspace else { return };
        let current = workspace.current();
        if let Life::Resting(guest) = &mut self.life {
            *guest.wasi_mut().vfs_mut() = current;
            self.before = Some(guest.wasi().clone());
        } else if let Some(before) = &mut self.before {
            *before.vfs_mut() = current;
        }
    }

    /// Leaves the files to the others. Called when the turn ends.
    pub(super) fn give_files(&mut self) {
        let Some(workspace) = &self.workspace else { return };
        if let Life::Resting(guest) = &self.life {
            workspace.publish(guest.wasi().vfs().clone());
            self.before = Some(guest.wasi().clone());
        }
    }

    /// Runs a script. Called on a guest stack.
    pub(super) fn run(&mut self, setting: &mut Setting<'_>) -> Result<Execution, ExecuteError> {
        let mut guest = self.enter(setting.stdin)?;
        guest.machine.store.data_mut().run.renew(setting.start());
        let own = if self.workspace.is_none() { Some(&mut self.commits) } else { None };
        let executed = setting.execute(&mut guest, &self.roots, false, own);
        guest.machine.store.data_mut().run.forget_listener();
        let mut executed = match executed {
            Ok(executed) => executed,
            Err(error) => {
                self.end(error.to_string());
                return Err(error);
            }
        };
        if let Some(whole) = executed.committed.whole() {
            self.committed(whole);
            // What is in the host's directories is there to stay, even if the guest now goes back.
            self.keep_files(&guest);
        }
        // The count may have come with anybody's bytes.
        self.executions = self.executions.saturating_add(u64::from(executed.after == After::Alive));
        executed.execution.rolled_back_to =
            self.leave(guest, executed.after, None, || executed.execution.outcome.describe());
        executed.into_result()
    }

    /// A global variable of the guest's. Looking at it is nothing that could be undone. Called on a guest stack.
    pub(super) fn get_variable(&mut self, name: &str) -> Result<Option<GuestValue>, ExecuteError> {
        let mut guest = self.take()?;
        guest.wasi_mut().begin_execution();
        self.reserve(&mut guest);
        let last = self.history.last().filter(|_| !self.changed).cloned();
        let now = match last {
            None if self.policy().interval(0).is_some() => {
                let earlier = self.earlier();
                let state = Arc::new(self.save_from(&mut guest, earlier)?);
                Some(Saved { id: CheckpointId(0), automatic: true, state, commits: self.commits.known() })
            }
            last => last,
        };
        guest.machine.store.data_mut().run.renew(passing_run(&self.sandbox, &self.keeper));
        let (result, after) = guest.get_variable(image(&self.sandbox)?, &self.sandbox.0.policy.limits, name);
        self.leave(guest, after, now, || said(&result));
        result
    }

    /// Sets a global variable of the guest's to what `json` says. Called on a guest stack.
    pub(super) fn set_variable(&mut self, name: &str, json: &str) -> Result<(), ExecuteError> {
        let mut guest = self.enter(&[])?;
        guest.machine.store.data_mut().run.renew(passing_run(&self.sandbox, &self.keeper));
        let (result, after) = guest.set_variable(image(&self.sandbox)?, &self.sandbox.0.policy.limits, name, json);
        self.leave(guest, after, None, || said(&result));
        result
    }

    /// Saves the state as one to come back to.
    pub(super) fn checkpoint(&mut self) -> Result<CheckpointId, ExecuteError> {
        let kept = self.checkpoints_kept();
        let guest = self.take()?;
        self.rested(guest, |live, guest| {
            if !live.changed
                && let Some(id) = live.history.keep_last(kept)
            {
                return Ok(id);
            }
            live.check_room(guest, 0)?;
            let earlier = live.earlier();
            let state = live.save_from(guest, earlier)?;
            Ok(live.push(state, false))
        })
    }

    /// The session as it is, for a fork or to be stored. Pages are shared with the last checkpoint.
    pub(super) fn save(&mut self) -> Result<Checkpoint, ExecuteError> {
        let guest = self.take()?;
        self.rested(guest, |live, guest| {
            let earlier = live.earlier();
            live.save_from(guest, earlier)
        })
    }

    /// A state for one more fork.
    pub(super) fn save_for_fork(&mut self) -> Result<Checkpoint, ExecuteError> {
        // As with executions.
        self.forks = self.forks.saturating_add(1);
        let mut state = self.save()?;
        if self.workspace.is_some() {
            // A copy of the files without what others have open.
            state.wasi = state.remounted(&self.sandbox)?;
        }
        Ok(state.forked())
    }

    /// Sets the session back to a checkpoint: the given one, or the last that differs from now. Called on a guest stack.
    pub(super) fn undo(&mut self, to: Option<CheckpointId>) -> Result<CheckpointId, ExecuteError> {
        if let Life::Ended(reason) = &self.life {
            return Err(self.has_ended(reason));
        }
        let is_new = self.changed || matches!(self.life, Life::Unwound(_));
        let saved = self.history.undo_target(to, is_new);
        let saved = saved.cloned().ok_or_else(|| ExecuteError::NoCheckpoint { id: self.id.to_string(), wanted: to })?;
        // The new instance first: if there is none to be had, the session stays as it is.
        let guest = self.awaken(&saved)?;
        self.history.forget_after(saved.id);
        self.rest_at(guest, &saved);
        Ok(saved.id)
    }

    pub(super) fn checkpoints(&self) -> Vec<CheckpointInfo> {
        self.history.list()
    }

    /// The files as they are. Looking at them is no change that a checkpoint would be due for.
    pub(super) fn files(&mut self) -> Result<Files, ExecuteError> {
        let mut guest = self.take()?;
        let files = Files::of(guest.wasi_mut().vfs_mut().clone(), self.roots.workspace());
        self.life = Life::Resting(guest);
        Ok(files)
    }

    /// Lets the host change the files. What it changed is committed as after a successful execution.
    pub(super) fn with_files<R, E: From<ExecuteError>>(
        &mut self,
        work: impl FnOnce(&mut Vfs, RootId) -> Result<R, E>,
    ) -> Result<R, E> {
        let mut guest = self.take()?;
        self.save_if_due(&mut guest)?;
        let own = if self.workspace.is_none() { Some(&mut self.commits) } else { None };
        let (result, committed) = shared::change(&self.sandbox, &self.roots, guest.wasi_mut().vfs_mut(), own, work);
        if let Some(whole) = committed {
            self.committed(whole);
        }
        self.changed = true;
        self.life = Life::Resting(guest);
        self.account();
        result
    }

    /// Runs the exit handlers, commits what they wrote, and ends the session. Called on a guest stack.
    pub(super) fn close(&mut self) -> Result<(), ExecuteError> {
        if matches!(self.life, Life::Ended(_)) {
            return Ok(());
        }
        let mut guest = match self.take() {
            Ok(guest) => guest,
            // It was lost, and there was nothing to go back to.
            Err(ExecuteError::SessionEnded { .. }) => return Ok(()),
            // It was lost, and there is no instance for one to run exit handlers in.
            Err(error) => {
                self.end("it was closed".into());
                return Err(error);
            }
        };
        self.reserve(&mut guest);
        let closed = self.close_guest(&mut guest);
        self.part_from(&guest);
        self.end("it was closed".into());
        closed
    }

    fn close_guest(&mut self, guest: &mut Guest) -> Result<(), ExecuteError> {
        let inner = &self.sandbox.0;
        guest.machine.store.data_mut().run.renew(passing_run(&self.sandbox, &self.keeper));
        guest.wasi_mut().begin_execution();
        guest.close(&inner.runtime, &inner.policy.limits)?;
        match inner.workspace.commit(guest.wasi_mut().vfs_mut(), &self.roots, true, Some(&mut self.commits)).failed {
            Some((_, source)) => Err(source.into()),
            None => Ok(()),
        }
    }

    pub(super) fn report(&self, status: &mut Status) {
        status.executions = self.executions;
        status.rollbacks = self.went_back;
        status.checkpoints = self.history.count();
        status.checkpoints_skipped = self.checkpoints_skipped;
        status.private_bytes = self.history.last().map_or(0, |saved| saved.state.pages.bytes());
        status.held_bytes = self.place.as_ref().map_or(0, Place::bytes);
        match &self.life {
            Life::Resting(guest) => status.memory_bytes = guest.machine.memory().len() as u64,
            Life::Unwound(_) => {}
            Life::Ended(reason) => {
                status.memory_bytes = 0;
                status.ended = Some(reason.clone());
            }
        }
    }

    fn image_bytes(&self) -> u64 {
        self.sandbox.0.runtime.image().map_or(0, |image| image.memory_bytes)
    }

    /// Writes down what the session holds: memory grown beyond the shared image and pages of its own within it, what the host
    /// keeps for it, its checkpoints, and the pages that it began with for as long as they are kept for the first.
    fn account(&mut self) {
        self.life = match std::mem::replace(&mut self.life, Life::Unwound(String::new())) {
            Life::Resting(mut guest) => {
                self.account_for(&mut guest);
                Life::Resting(guest)
            }
            other => other,
        };
    }

    fn account_for(&mut self, guest: &mut Guest) {
        let grown_bytes = (guest.machine.memory().len() as u64).saturating_sub(self.image_bytes());
        let host_bytes = guest.wasi_mut().host_bytes();
        let held_bytes = [self.history.held_bytes(), self.alike.bytes(), self.own.in_image, grown_bytes, host_bytes];
        if let Some(place) = &mut self.place {
            place.update(held_bytes.into_iter().fold(0, u64::saturating_add));
        }
        guest.machine.store.data_mut().limiter.memory.give_back_reservation();
    }
}

/// What bounds a call into the guest that is no script's.
pub(super) fn passing_run(sandbox: &Sandbox, keeper: &Keeper) -> Run {
    Run::new(sandbox.0.policy.limits.timeout(), keeper.cancel.clone(), None).with_budget(keeper.budget.clone())
}

/// What kept a guest from answering.
fn said<T>(result: &Result<T, ExecuteError>) -> String {
    result.as_ref().err().map_or_else(String::new, ToString::to_string)
}

fn image(sandbox: &Sandbox) -> Result<&Image, ExecuteError> {
    sandbox.0.runtime.image().ok_or_else(|| ExecuteError::NotPrepared { name: sandbox.0.runtime.name.clone() })
}
