//! The states that a session can be set back to.

use std::{collections::HashSet, sync::Arc};

use crate::{
    pagemap::PAGE_BYTES,
    session::{CheckpointId, CheckpointInfo, checkpoint::Checkpoint, pages::Pages},
};

/// A checkpoint in its place.
#[derive(Clone)]
pub(super) struct Saved {
    pub(super) id: CheckpointId,
    pub(super) automatic: bool,
    pub(super) state: Arc<Checkpoint>,
    /// How many commits to host directories its files know of.
    pub(super) commits: u64,
}

/// Checkpoints, oldest first. At most one is the session's own; the others were asked for.
#[derive(Default)]
pub(super) struct History {
    saved: Vec<Saved>,
    next: u64,
    /// What those hold that were asked for. Counted when one comes or goes: it is too much work for every execution.
    kept_bytes: u64,
}

impl History {
    /// The newest: what the session goes back to.
    pub(super) fn last(&self) -> Option<&Saved> {
        self.saved.last()
    }

    /// Gives up the session's own checkpoint if it is the newest, and returns the newest's pages for the next one to share.
    pub(super) fn replace(&mut self) -> Option<Pages> {
        match self.saved.pop_if(|newest| newest.automatic) {
            // Nobody else has it as a rule: then its pages are moved, not counted one by one.
            Some(Saved { state, .. }) => Some(Arc::try_unwrap(state).unwrap_or_else(|shared| (*shared).clone()).pages),
            None => self.last().map(|newest| newest.state.pages.clone()),
        }
    }

    /// Adds the newest. The session's own from before is dropped, and of the others all but `kept` of the newest.
    pub(super) fn push(&mut self, state: Arc<Checkpoint>, commits: u64, automatic: bool, kept: usize) -> CheckpointId {
        if automatic {
            self.saved.retain(|saved| !saved.automatic);
        } else {
            self.make_room(kept);
        }
        let id = CheckpointId(self.next);
        self.next += 1;
        self.saved.push(Saved { id, automatic, state, commits });
        if !automatic {
            self.count_kept();
        }
        id
    }

    /// Makes the session's own newest checkpoint one that was asked for.
    pub(super) fn keep_last(&mut self, kept: usize) -> Option<CheckpointId> {
        if self.saved.last()?.automatic {
            self.make_room(kept);
        }
        let last = self.saved.last_mut()?;
        last.automatic = false;
        let id = last.id;
        self.count_kept();
        Some(id)
    }

    fn make_room(&mut self, kept: usize) {
        let asked_for = self.saved.iter().filter(|saved| !saved.automatic).count();
        let mut over = (asked_for + 1).saturating_sub(kept);
        self.saved.retain(|saved| {
            let goes = !saved.automatic && over > 0;
            over -= usize::from(goes);
            !goes
        });
    }

    /// How many commits the files of that checkpoint know of that knows of the fewest.
    pub(super) fn oldest_commits(&self) -> Option<u64> {
        self.saved.iter().map(|saved| saved.commits).min()
    }

    /// The checkpoint called `id`.
    pub(super) fn find(&self, id: CheckpointId) -> Option<&Saved> {
        self.saved.iter().find(|saved| saved.id == id)
    }

    /// The newest but one.
    pub(super) fn before_last(&self) -> Option<&Saved> {
        self.saved.iter().rev().nth(1)
    }

    /// Forgets what is newer than `id`.
    pub(super) fn forget_after(&mut self, id: CheckpointId) {
        self.saved.retain(|saved| saved.id <= id);
        self.count_kept();
    }

    pub(super) fn clear(&mut self) {
        self.saved.clear();
        self.count_kept();
    }

    pub(super) fn count(&self) -> usize {
        self.saved.len()
    }

    pub(super) fn list(&self) -> Vec<CheckpointInfo> {
        let info = |saved: &Saved| CheckpointInfo {
            id: saved.id,
            automatic: saved.automatic,
            executions: saved.state.executions,
            private_bytes: saved.state.pages.bytes(),
        };
        self.saved.iter().map(info).collect()
    }

    /// What all of them hold. Pages that those share that were asked for count once; files count for each, which is too much
    /// where they share them.
    pub(super) fn held_bytes(&self) -> u64 {
        let automatic = self.saved.iter().filter(|saved| saved.automatic);
        automatic.fold(self.kept_bytes, |sum, Saved { state, .. }| {
            sum.saturating_add(state.pages.bytes()).saturating_add(state.wasi.host_bytes())
        })
    }

    fn count_kept(&mut self) {
        let kept = || self.saved.iter().filter(|saved| !saved.automatic).map(|saved| &saved.state);
        let host_bytes = kept().fold(0_u64, |sum, state| sum.saturating_add(state.wasi.host_bytes()));
        let pages: HashSet<_> =
            kept().flat_map(|state| state.pages.iter()).map(|(_, page)| Arc::as_ptr(page)).collect();
        self.kept_bytes = host_bytes.saturating_add((pages.len() * PAGE_BYTES) as u64);
    }
}
