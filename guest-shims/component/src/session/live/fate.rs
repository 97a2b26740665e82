//! Taking a session's guest and putting it back, and what becomes of the session when there is none to put back.

use std::{cell::RefCell, rc::Rc, sync::Arc};

use glovebox_core::{
    After,
    session::{Checkpoint, CheckpointId, OnUnwind, Rollback, Saved, SessionPolicy, TooMany},
};

use super::{Awaken, Life, Live, awakened, globals, text, with};
use crate::{
    bindings::types::SandboxError,
    session::kept::{self, Kept},
};

impl Live {
    /// Takes the guest for an execution, saved if that is due.
    pub(super) fn enter(&mut self, stdin: Vec<u8>) -> Result<Rc<RefCell<Kept>>, SandboxError> {
        self.check_room(0)?;
        let kept = self.take()?;
        with(&kept, |guest| {
            let wasi = guest.wasi_mut();
            wasi.begin_execution();
            wasi.set_stdin(Vec::new());
            // Before it is saved: the saved file system and the live one are then the same until the guest changes files.
            wasi.vfs_mut().mark();
            Ok(())
        })?;
        self.save_if_due(&kept)?;
        self.come_in(&kept)?;
        self.changed = true;
        if !stdin.is_empty() {
            with(&kept, |guest| {
                guest.wasi_mut().set_stdin(stdin);
                Ok(())
            })?;
        }
        Ok(kept)
    }

    /// Brings the guest into its memory; it stays where it is if that cannot be.
    pub(super) fn come_in(&mut self, kept: &Rc<RefCell<Kept>>) -> Result<(), SandboxError> {
        let came = Kept::come_in(kept, self.history.count() > 0);
        if came.is_err() {
            self.life = Life::Resting(Rc::clone(kept));
        }
        came?;
        // From now on what the guest takes is taken of what all sessions may hold together, until it is idle again.
        self.account_for(kept);
        if let Some(place) = &self.place {
            let reservation = place.reservation(&self.sandbox.policy.limits);
            with(kept, |guest| {
                let host_bytes = guest.wasi().host_bytes();
                guest.machine.state.limiter.reserve_from(reservation, host_bytes);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Whether sessions may hold `bytes` more.
    pub(super) fn check_room(&self, bytes: u64) -> Result<(), TooMany> {
        self.place.as_ref().map_or(Ok(()), |place| place.check(&self.sandbox.policy.limits, bytes))
    }

    /// Saves the state if that is due before the guest or its files change, and if there is room for it: a session without
    /// room goes back to an earlier checkpoint, should it have to.
    pub(super) fn save_if_due(&mut self, kept: &Rc<RefCell<Kept>>) -> Result<(), SandboxError> {
        if !self.history.is_due(self.policy(), self.executions, self.changed) {
            return Ok(());
        }
        match self.save_from(kept) {
            Ok(state) => {
                if self.check_room(state.held_bytes().saturating_sub(self.history.automatic_bytes())).is_ok() {
                    self.push(state, true);
                } else {
                    self.checkpoints_skipped += 1;
                }
                Ok(())
            }
            Err(error) => {
                self.end(text(&error));
                Err(error)
            }
        }
    }

    /// Takes the guest back after a call, or sees to what becomes of the session without it: `to` is where it goes back to, if
    /// not to the last checkpoint.
    pub(super) fn leave(
        &mut self,
        kept: Rc<RefCell<Kept>>,
        after: After,
        to: Option<Saved>,
        why: impl FnOnce() -> String,
    ) -> Option<Rollback> {
        match after {
            After::Alive | After::Untouched => {
                // It was taken by nobody else meanwhile: then this is done.
                let _taken = with(&kept, |guest| {
                    guest.wasi_mut().set_stdin(Vec::new());
                    Ok(())
                });
                self.rest(kept);
                None
            }
            After::Left => {
                self.end(why());
                None
            }
            After::Unwound => {
                drop(kept);
                // If there is no memory now, whoever comes next tries again.
                self.go_back(to, why()).unwrap_or_default()
            }
        }
    }

    /// The guest, made anew if it was lost.
    pub(super) fn take(&mut self) -> Result<Rc<RefCell<Kept>>, SandboxError> {
        if let Life::Unwound(why) = &self.life {
            let why = why.clone();
            self.go_back(None, why)?;
        }
        let lost = || Life::Unwound("its last execution did not come back".into());
        match std::mem::replace(&mut self.life, lost()) {
            Life::Resting(kept) => Ok(kept),
            Life::Unwound(reason) | Life::Ended(reason) => {
                let error = self.has_ended(&reason);
                self.end(reason);
                Err(error)
            }
        }
    }

    /// What becomes of the session now that its guest is lost. An error says that no guest is to be had now: then it stays
    /// without one, with its checkpoints, and can go back later.
    pub(super) fn go_back(&mut self, to: Option<Saved>, why: String) -> Result<Option<Rollback>, SandboxError> {
        self.life = Life::Unwound(why.clone());
        if self.policy().on_unwind == OnUnwind::End {
            self.end(why);
            return Ok(None);
        }
        // Only what is in the history can be gone back to once more.
        let is_kept = to.is_none();
        let Some(saved) = to.or_else(|| self.history.last().cloned()) else {
            self.end(format!("{why}; there is no checkpoint to go back to"));
            return Ok(None);
        };
        let guest = awakened(&self.sandbox, &saved.state, Awaken::Same)?;
        let executions_lost = self.executions.saturating_sub(saved.state.executions);
        self.went_back += 1;
        self.rest_at(guest, &saved);
        self.changed = !is_kept;
        Ok(Some(Rollback { checkpoint: saved.id, executions_lost }))
    }

    pub(super) fn rest_at(&mut self, guest: Rc<RefCell<Kept>>, saved: &Saved) {
        self.executions = saved.state.executions;
        self.changed = false;
        self.rest(guest);
    }

    pub(super) fn rest(&mut self, kept: Rc<RefCell<Kept>>) {
        self.life = Life::Resting(kept);
        self.account();
    }

    pub(super) fn end(&mut self, reason: String) {
        self.life = Life::Ended(reason);
        self.history.clear();
        self.place = None;
    }

    pub(super) fn has_ended(&self, reason: &str) -> SandboxError {
        SandboxError::SessionEnded(format!("session `{}` has ended: {reason}; open another one", self.id))
    }

    pub(super) fn save_from(&self, kept: &Rc<RefCell<Kept>>) -> Result<Checkpoint, SandboxError> {
        let mut kept = kept.try_borrow_mut().map_err(|_| kept::busy())?;
        Ok(Checkpoint {
            memory_bytes: kept.memory_bytes(),
            pages: kept.pages()?,
            globals: globals(&self.sandbox),
            wasi: kept.guest().settled_wasi(),
            executions: self.executions,
            entropy_key: self.entropy_key,
            forks: self.forks,
        })
    }

    pub(super) fn push(&mut self, state: Checkpoint, automatic: bool) -> CheckpointId {
        self.changed = false;
        let most = self.checkpoints_kept();
        self.history.push(Arc::new(state), 0, automatic, most)
    }

    pub(super) fn policy(&self) -> &SessionPolicy {
        &self.sandbox.policy.session
    }

    pub(super) fn checkpoints_kept(&self) -> usize {
        usize::try_from(self.policy().checkpoints_kept.max(1)).unwrap_or(usize::MAX)
    }

    /// Writes down what the session holds: memory grown beyond the image, what is kept for it beside that, its checkpoints, and
    /// pages of its own.
    pub(super) fn account(&mut self) {
        if let Life::Resting(kept) = &self.life {
            let kept = Rc::clone(kept);
            self.account_for(&kept);
        }
    }

    fn account_for(&mut self, kept: &Rc<RefCell<Kept>>) {
        let (Some(place), Ok(mut kept)) = (&mut self.place, kept.try_borrow_mut()) else { return };
        let grown_bytes = kept.memory_bytes().saturating_sub(self.sandbox.runtime.memory_bytes());
        let host_bytes = kept.guest().wasi().host_bytes();
        let held_bytes = [self.history.held_bytes(), grown_bytes, kept.own_bytes(), host_bytes];
        place.update(held_bytes.into_iter().fold(0, u64::saturating_add));
        kept.guest().machine.state.limiter.give_back_reservation();
        kept.reserve_from(place.reservation(&self.sandbox.policy.limits));
    }
}
