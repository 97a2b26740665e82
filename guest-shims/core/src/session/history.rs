//! The states that a session can be set back to.

use std::{collections::HashSet, sync::Arc};

use super::{Checkpoint, CheckpointId, CheckpointInfo, PAGE_BYTES, Pages, SessionPolicy};

/// A checkpoint in its place.
#[derive(Clone, Debug)]
pub struct Saved {
    /// Its name.
    pub id: CheckpointId,
    /// Whether the session took it by itself.
    pub automatic: bool,
    /// What was saved.
    pub state: Arc<Checkpoint>,
    /// How many commits to host directories its files know of.
    pub commits: u64,
}

/// Checkpoints, oldest first. At most one is the session's own; the others were asked for.
#[derive(Debug, Default)]
pub struct History {
    saved: Vec<Saved>,
    next: u64,
    /// What those hold that were asked for. Counted when one comes or goes: it is too much work for every execution.
    retained_bytes: u64,
}

impl History {
    /// The newest: what the session goes back to.
    #[must_use]
    pub fn last(&self) -> Option<&Saved> {
        self.saved.last()
    }

    /// Gives up the session's own checkpoint if it is the newest, and returns the newest's pages for the next one to share.
    pub fn replace(&mut self) -> Option<Pages> {
        match self.saved.pop_if(|newest| newest.automatic) {
            // Nobody else has it as a rule: then its pages are moved, not counted one by one.
            Some(Saved { state, .. }) => Some(Arc::try_unwrap(state).unwrap_or_else(|shared| (*shared).clone()).pages),
            None => self.last().map(|newest| newest.state.pages.clone()),
        }
    }

    /// Adds the newest. The session's own from before is dropped, and of the others all but `max` of the newest.
    pub fn push(&mut self, state: Arc<Checkpoint>, commits: u64, automatic: bool, max: usize) -> CheckpointId {
        if automatic {
            self.saved.retain(|saved| !saved.automatic);
        } else {
            self.make_room(max);
        }
        let id = CheckpointId(self.next);
        self.next += 1;
        self.saved.push(Saved { id, automatic, state, commits });
        if !automatic {
            self.count_held();
        }
        id
    }

    /// Makes the session's own newest checkpoint one that was asked for.
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

    /// How many commits the files of that checkpoint know of that knows of the fewest.
    #[must_use]
    pub fn oldest_commits(&self) -> Option<u64> {
        self.saved.iter().map(|saved| saved.commits).min()
    }

    /// Whether the state is to be saved before the next execution, of a session that has so many behind it. `changed`: whether
    /// its guest may differ from the last checkpoint.
    #[must_use]
    pub fn is_due(&self, policy: &SessionPolicy, executions: u64, changed: bool) -> bool {
        let Some(saved) = self.last() else { return policy.interval(0).is_some() };
        let interval = policy.interval(saved.state.pages.bytes());
        // Variables that the host set are worth a checkpoint as much as an execution is.
        let since = executions.saturating_sub(saved.state.executions).max(1);
        changed && interval.is_some_and(|interval| since >= interval)
    }

    /// What undoing goes back to: the given one, or the last that differs from now. `changed`: whether the session's guest may
    /// differ from the last checkpoint, or is lost.
    #[must_use]
    pub fn undo_target(&self, to: Option<CheckpointId>, changed: bool) -> Option<&Saved> {
        match to {
            Some(id) => self.find(id),
            None if changed => self.last(),
            None => self.before_last(),
        }
    }

    /// The checkpoint called `id`.
    #[must_use]
    pub fn find(&self, id: CheckpointId) -> Option<&Saved> {
        self.saved.iter().find(|saved| saved.id == id)
    }

    /// The newest but one.
    #[must_use]
    pub fn before_last(&self) -> Option<&Saved> {
        self.saved.iter().rev().nth(1)
    }

    /// Forgets what is newer than `id`.
    pub fn forget_after(&mut self, id: CheckpointId) {
        self.saved.retain(|saved| saved.id <= id);
        self.count_held();
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.saved.clear();
        self.count_held();
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.saved.len()
    }

    /// What is told of them, oldest first.
    #[must_use]
    pub fn list(&self) -> Vec<CheckpointInfo> {
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
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.retained_bytes.saturating_add(self.automatic_bytes())
    }

    /// What the session's own checkpoint holds: what making the next one gives back at least.
    #[must_use]
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
