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
    /// How often files had been committed to host directories.
    pub(super) commits: u64,
}

/// Checkpoints, oldest first. At most one is the session's own; the others were asked for.
#[derive(Default)]
pub(super) struct History {
    saved: Vec<Saved>,
    next: u64,
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
        id
    }

    /// Makes the session's own newest checkpoint one that was asked for.
    pub(super) fn keep_last(&mut self, kept: usize) -> Option<CheckpointId> {
        if self.saved.last()?.automatic {
            self.make_room(kept);
        }
        let last = self.saved.last_mut()?;
        last.automatic = false;
        Some(last.id)
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
    }

    pub(super) fn clear(&mut self) {
        self.saved.clear();
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

    /// What all of them hold: each page once, files once for each checkpoint, which is too much where they share them.
    pub(super) fn held_bytes(&self) -> u64 {
        let host_bytes = self.saved.iter().fold(0_u64, |sum, saved| sum.saturating_add(saved.state.wasi.host_bytes()));
        let page_bytes = match &*self.saved {
            [] => 0,
            [only] => only.state.pages.bytes(),
            several => {
                let pages = several.iter().flat_map(|saved| saved.state.pages.iter());
                let distinct: HashSet<_> = pages.map(|(_, page)| Arc::as_ptr(page)).collect();
                (distinct.len() * PAGE_BYTES) as u64
            }
        };
        host_bytes.saturating_add(page_bytes)
    }
}
