//! Taking a session's guest and putting it back, and what becomes of the session when there is none to put back.

use std::{mem, sync::Arc};

use glovebox_core::{
    After,
    session::{Checkpoint, CheckpointId, Pages, Rollback, Saved, TooMany},
};

use crate::{
    ExecuteError, OnUnwind, SessionPolicy, events,
    guest::Guest,
    session::{
        checkpoint::{Awaken, EngineCheckpoint as _},
        pages::OwnBytes,
    },
};

use super::{Life, Live, image, passing_run};

impl Live {
    /// Takes the guest for an execution, saved if that is due.
    pub(super) fn enter(&mut self, stdin: &[u8]) -> Result<Box<Guest>, ExecuteError> {
        let limits = &self.sandbox.0.policy.limits;
        self.place.as_ref().map_or(Ok(()), |place| place.check(limits, 0))?;
        let mut guest = self.take()?;
        let wasi = guest.wasi_mut();
        wasi.begin_execution();
        wasi.set_stdin(Vec::new());
        // Before it is saved: the saved file system and the live one are then the same until the guest changes files.
        wasi.vfs_mut().mark();
        self.save_if_due(&mut guest)?;
        self.changed = true;
        self.reserve(&mut guest);
        if !stdin.is_empty() {
            guest.wasi_mut().set_stdin(stdin.to_vec());
        }
        Ok(guest)
    }

    /// From now on what the guest takes is taken of what all sessions may hold together, until it is idle again.
    pub(super) fn reserve(&mut self, guest: &mut Guest) {
        // With the checkpoint that may just have been made, and what the host has changed of the files.
        self.account_for(guest);
        if let Some(place) = &self.place {
            let reservation = place.reservation(&self.sandbox.0.policy.limits);
            let host_bytes = guest.wasi().host_bytes();
            guest.machine.store.data_mut().limiter.memory.reserve_from(reservation, host_bytes);
        }
    }

    /// Saves the state if that is due before the guest or its files change, and if there is room for it: a session without
    /// room goes back to an earlier checkpoint, should it have to.
    pub(super) fn save_if_due(&mut self, guest: &mut Guest) -> Result<(), ExecuteError> {
        if !self.is_due() {
            return Ok(());
        }
        if let Err(over) = self.check_room(guest, self.history.automatic_bytes()) {
            self.checkpoints_skipped += 1;
            events::checkpoint_skipped(&self.id, &over);
            return Ok(());
        }
        let earlier = self.history.replace().unwrap_or_else(|| mem::take(&mut self.alike));
        match self.save_from(guest, earlier) {
            Ok(state) => {
                self.push(state, true);
                Ok(())
            }
            Err(error) => {
                self.end(error.to_string());
                Err(error)
            }
        }
    }

    /// Whether there is room for a checkpoint of the guest that takes the place of one of `replaced_bytes`.
    pub(super) fn check_room(&self, guest: &mut Guest, replaced_bytes: u64) -> Result<(), TooMany> {
        let bytes = self.own.all.saturating_add(guest.wasi_mut().host_bytes()).saturating_sub(replaced_bytes);
        self.place.as_ref().map_or(Ok(()), |place| place.check(&self.sandbox.0.policy.limits, bytes))
    }

    /// Takes the guest back after an execution, or sees to what becomes of the session without it: `to` is where it goes
    /// back to, if not to the last checkpoint.
    pub(super) fn leave(
        &mut self,
        mut guest: Box<Guest>,
        after: After,
        to: Option<Saved>,
        why: impl FnOnce() -> String,
    ) -> Option<Rollback> {
        match after {
            After::Alive | After::Untouched => {
                guest.wasi_mut().set_stdin(Vec::new());
                self.own = OwnBytes::measure(&mut guest.machine, self.image_bytes());
                self.life = Life::Resting(guest);
                self.account();
                None
            }
            After::Left => {
                self.part_from(&guest);
                self.end(why());
                None
            }
            After::Unwound => {
                // The pool may have no other place.
                drop(guest);
                // If another was quicker to take the place, whoever comes next tries again.
                self.go_back(to, why()).unwrap_or_default()
            }
        }
    }

    /// Takes note that files were committed, all that was to be or not.
    pub(super) fn committed(&mut self, whole: bool) {
        self.commits.ended(whole, self.history.oldest_commits());
    }

    /// In a shared workspace: has the session go on with the files as they are now, should it be unwound.
    pub(super) fn keep_files(&mut self, guest: &Guest) {
        if let Some(before) = &mut self.before {
            *before = guest.wasi().clone();
        }
    }

    /// In a shared workspace: leaves the files as a guest has left them that is not entered again.
    pub(super) fn part_from(&mut self, guest: &Guest) {
        if let Some(workspace) = &self.workspace {
            workspace.publish(guest.wasi().clone().unbind());
            self.before = None;
        }
    }

    /// Does something with the resting guest and puts it back.
    pub(super) fn rested<R>(
        &mut self,
        mut guest: Box<Guest>,
        work: impl FnOnce(&mut Self, &mut Guest) -> Result<R, ExecuteError>,
    ) -> Result<R, ExecuteError> {
        let result = work(self, &mut guest);
        self.life = Life::Resting(guest);
        self.account();
        result
    }

    /// The guest, made anew if it was lost.
    pub(super) fn take(&mut self) -> Result<Box<Guest>, ExecuteError> {
        if let Life::Unwound(why) = &self.life {
            let why = why.clone();
            self.go_back(None, why)?;
        }
        match mem::replace(&mut self.life, Life::Unwound("its last execution did not come back".into())) {
            Life::Resting(guest) => Ok(guest),
            Life::Unwound(reason) | Life::Ended(reason) => {
                let error = self.has_ended(&reason);
                self.end(reason);
                Err(error)
            }
        }
    }

    /// What becomes of the session now that its guest is lost. An error says that no instance is to be had now: then
    /// it stays without a guest, with its checkpoints, and can go back later.
    pub(super) fn go_back(&mut self, to: Option<Saved>, why: String) -> Result<Option<Rollback>, ExecuteError> {
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
        match self.awaken(&saved) {
            Ok(guest) => {
                let executions_lost = self.executions.saturating_sub(saved.state.executions);
                self.went_back += 1;
                self.rest_at(guest, &saved);
                self.changed = !is_kept;
                events::rolled_back(&self.id, executions_lost, &why);
                Ok(Some(Rollback { checkpoint: saved.id, executions_lost }))
            }
            Err(error @ ExecuteError::Instantiate { .. }) => Err(error),
            Err(error) => {
                self.end(format!("{why}; it could not go back: {error}"));
                Ok(None)
            }
        }
    }

    /// A new guest in a saved state.
    pub(super) fn awaken(&self, saved: &Saved) -> Result<Guest, ExecuteError> {
        let mut wasi = if self.commits.count() == saved.commits || self.workspace.is_some() {
            saved.state.wasi.clone()
        } else {
            // The saved file system knows host directories as they were before.
            saved.state.remounted(&self.sandbox)?
        };
        if let Some(mut before) = self.before.clone() {
            // In this order: a deleted file that both have open must not be lost in between.
            wasi.rebind(before.vfs().clone());
            *before.vfs_mut() = wasi.vfs().clone();
            *wasi.vfs_mut() = before.unbind();
        }
        saved.state.guest(&self.sandbox, wasi, Awaken::Same, passing_run(&self.sandbox, &self.keeper))
    }

    pub(super) fn rest_at(&mut self, guest: Guest, saved: &Saved) {
        self.life = Life::Resting(Box::new(guest));
        self.own = OwnBytes::restored(&saved.state.pages, self.image_bytes());
        self.executions = saved.state.executions;
        self.commits.went_back_to(saved.commits);
        self.changed = false;
        self.account();
    }

    pub(super) fn end(&mut self, reason: String) {
        self.life = Life::Ended(reason);
        if let (Some(workspace), Some(mut before)) = (&self.workspace, self.before.take()) {
            workspace.publish(before.unbind());
        }
        self.history.clear();
        self.alike = Pages::default();
        self.place = None;
    }

    pub(super) fn has_ended(&self, reason: &str) -> ExecuteError {
        ExecuteError::SessionEnded { id: self.id.to_string(), reason: reason.to_owned() }
    }

    /// Whether the state is to be saved before the next execution.
    pub(super) fn is_due(&self) -> bool {
        self.history.is_due(self.policy(), self.executions, self.changed)
    }

    /// Pages that a checkpoint made now may share.
    pub(super) fn earlier(&mut self) -> Pages {
        match self.history.last() {
            Some(saved) => saved.state.pages.clone(),
            None => mem::take(&mut self.alike),
        }
    }

    pub(super) fn save_from(&self, guest: &mut Guest, earlier: Pages) -> Result<Checkpoint, ExecuteError> {
        Ok(Checkpoint {
            executions: self.executions,
            entropy_key: self.entropy_key,
            forks: self.forks,
            ..Checkpoint::of(image(&self.sandbox)?, guest, earlier)?
        })
    }

    pub(super) fn push(&mut self, state: Checkpoint, automatic: bool) -> CheckpointId {
        self.changed = false;
        self.history.push(Arc::new(state), self.commits.known(), automatic, self.checkpoints_kept())
    }

    pub(super) fn policy(&self) -> &SessionPolicy {
        &self.sandbox.0.policy.session
    }

    pub(super) fn checkpoints_kept(&self) -> usize {
        self.policy().checkpoints_kept.max(1) as usize
    }
}

impl Drop for Live {
    /// Others may be executing: what this session had open is given up when it is their turn to take the files.
    fn drop(&mut self) {
        if let (Some(workspace), Some(before)) = (&self.workspace, self.before.take()) {
            workspace.depart(before);
        }
    }
}
