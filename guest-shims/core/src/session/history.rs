//! The checkpoints of a session.

use std::{collections::HashSet, sync::Arc};

use super::{Checkpoint, CheckpointId, CheckpointInfo, PAGE_BYTES, Pages, SessionPolicy};

/// A checkpoint in a session's history.
#[derive(Clone, Debug)]
pub struct SavedCheckpoint {
    /// The checkpoint's ID.
    pub id: CheckpointId,
    /// `true` for an automatic checkpoint, `false` for a requested one.
    pub automatic: bool,
    /// The saved state.
    pub state: Arc<Checkpoint>,
    /// The number of commits to host directories that are included in the checkpoint's files.
    pub commits: u64,
}

/// A session's checkpoints, oldest first. At most one is automatic; the embedder requested the others.
#[derive(Debug, Default)]
pub struct History {
    saved: Vec<SavedCheckpoint>,
    next: u64,
    /// Bytes held by the requested checkpoints. Cached, because counting them for every execution is too expensive.
    retained_bytes: u64,
}

impl History {
    /// Returns the newest checkpoint, the default target of a rollback.
    pub fn last(&self) -> Option<&SavedCheckpoint> {
        self.saved.last()
    }

    /// Returns the newest checkpoint's pages, which the next checkpoint may share. Removes this checkpoint if it is
    /// automatic.
    pub fn replace(&mut self) -> Option<Pages> {
        match self.saved.pop_if(|newest| newest.automatic) {
            // The state is rarely shared. An unshared state is moved, which avoids incrementing every page's reference
            // count.
            Some(SavedCheckpoint { state, .. }) => {
                Some(Arc::try_unwrap(state).unwrap_or_else(|shared| (*shared).clone()).pages)
            }
            None => self.last().map(|newest| newest.state.pages.clone()),
        }
    }

    /// Adds a checkpoint. An automatic checkpoint replaces the previous automatic one. A requested checkpoint drops the
    /// oldest requested ones, so that at most `max` remain.
    pub fn push(&mut self, state: Arc<Checkpoint>, commits: u64, automatic: bool, max: usize) -> CheckpointId {
        if automatic {
            self.saved.retain(|saved| !saved.automatic);
        } else {
            self.make_room(max);
        }
        let id = CheckpointId(self.next);
        self.next += 1;
        self.saved.push(SavedCheckpoint { id, automatic, state, commits });
        if !automatic {
            self.count_held();
        }
        id
    }

    /// Marks the newest checkpoint as requested if it was automatic. Returns the checkpoint's ID.
    pub fn keep_last(&mut self, max: usize) -> Option<CheckpointId> {
        if self.saved.last()?.automatic {
            self.make_room(max);
        }
        let last = self.saved.last_mut()?;
        last.automatic = false;
        let id = last.id;
        self.count_held();
        Some(id)
    }

    fn make_room(&mut self, max: usize) {
        let asked_for = self.saved.iter().filter(|saved| !saved.automatic).count();
        let mut over = (asked_for + 1).saturating_sub(max);
        self.saved.retain(|saved| {
            let goes = !saved.automatic && over > 0;
            over -= usize::from(goes);
            !goes
        });
    }

    /// Returns the lowest [`commits`](SavedCheckpoint::commits) of all checkpoints.
    pub fn oldest_commits(&self) -> Option<u64> {
        self.saved.iter().map(|saved| saved.commits).min()
    }

    /// Returns `true` if a checkpoint is due before the next execution. `executions` is the number of executions so
    /// far. `changed` is `true` if the guest may differ from the last checkpoint.
    pub fn is_due(&self, policy: &SessionPolicy, executions: u64, changed: bool) -> bool {
        let Some(saved) = self.last() else { return policy.interval(0).is_some() };
        let interval = policy.interval(saved.state.pages.bytes());
        // Variables that the host has set since the last checkpoint count as one execution.
        let since = executions.saturating_sub(saved.state.executions).max(1);
        changed && interval.is_some_and(|interval| since >= interval)
    }

    /// Returns the checkpoint that an undo restores: the given one, or the last one that differs from the current
    /// state. `changed` is `true` if the guest may differ from the last checkpoint, or is lost.
    pub fn undo_target(&self, to: Option<CheckpointId>, changed: bool) -> Option<&SavedCheckpoint> {
        match to {
            Some(id) => self.find(id),
            None if changed => self.last(),
            None => self.before_last(),
        }
    }

    /// Returns the checkpoint with this ID.
    pub fn find(&self, id: CheckpointId) -> Option<&SavedCheckpoint> {
        self.saved.iter().find(|saved| saved.id == id)
    }

    /// Returns the second newest checkpoint.
    pub fn before_last(&self) -> Option<&SavedCheckpoint> {
        self.saved.iter().rev().nth(1)
    }

    /// Drops the checkpoints that are newer than `id`.
    pub fn forget_after(&mut self, id: CheckpointId) {
        self.saved.retain(|saved| saved.id <= id);
        self.count_held();
    }

    /// Drops all checkpoints.
    pub fn clear(&mut self) {
        self.saved.clear();
        self.count_held();
    }

    /// Returns the number of checkpoints.
    pub fn count(&self) -> usize {
        self.saved.len()
    }

    /// Returns descriptions of the checkpoints, oldest first.
    pub fn list(&self) -> Vec<CheckpointInfo> {
        let info = |saved: &SavedCheckpoint| CheckpointInfo {
            id: saved.id,
            automatic: saved.automatic,
            executions: saved.state.executions,
            private_bytes: saved.state.pages.bytes(),
        };
        self.saved.iter().map(info).collect()
    }

    /// Returns the bytes held by all checkpoints. A page that several requested checkpoints share counts once. A
    /// file counts for every checkpoint, even if it is shared.
    pub fn held_bytes(&self) -> u64 {
        self.retained_bytes.saturating_add(self.automatic_bytes())
    }

    /// Returns the bytes held by the automatic checkpoint, which the next automatic checkpoint releases.
    pub fn automatic_bytes(&self) -> u64 {
        let automatic = self.saved.iter().filter(|saved| saved.automatic);
        automatic.fold(0, |sum, saved| sum.saturating_add(saved.state.held_bytes()))
    }

    fn count_held(&mut self) {
        let requested = || self.saved.iter().filter(|saved| !saved.automatic).map(|saved| &saved.state);
        let host_bytes = requested().fold(0_u64, |sum, state| sum.saturating_add(state.wasi.host_bytes()));
        let pages: HashSet<_> =
            requested().flat_map(|state| state.pages.iter()).map(|(_, page)| Arc::as_ptr(page)).collect();
        self.retained_bytes = host_bytes.saturating_add((pages.len() * PAGE_BYTES) as u64);
    }
}
