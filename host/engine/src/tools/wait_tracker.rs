//! What whoever steps through an execution learns of its guest's waiting.

use std::sync::Arc;

use super::pending::{PendingCalls, Waiting};

/// How often in a row a guest looks for replies and finds none until that is taken for waiting: a loop that looks between
/// everything else it does comes to a few.
const LOOKS_THAT_ARE_A_WAIT: u32 = 100;

/// Tells [`PendingCalls`] when the guest waits; where nobody steps through the execution there is none.
#[derive(Debug, Default)]
pub(super) struct WaitTracker {
    pending: Option<Arc<PendingCalls>>,
    /// How often the guest has looked for a reply and found none since it did anything else.
    looks_in_vain: u32,
    /// That it waits, where it has looked for long.
    looking: Option<Waiting>,
}

impl WaitTracker {
    pub(super) fn new(pending: Option<Arc<PendingCalls>>) -> Self {
        Self { pending, ..Self::default() }
    }

    pub(super) fn pending(&self) -> Option<&Arc<PendingCalls>> {
        self.pending.as_ref()
    }

    /// The guest waits for these calls at least, for as long as what is returned lives. A guest that only looks does not
    /// wait, unless it does nothing else.
    pub(super) fn begin_wait(&mut self, is_look: bool, calls: impl Iterator<Item = usize>) -> Option<Waiting> {
        let pending = self.pending.as_ref()?;
        if is_look {
            self.looks_in_vain = self.looks_in_vain.saturating_add(1);
            if self.looks_in_vain != LOOKS_THAT_ARE_A_WAIT {
                return None;
            }
        }
        // The one that ends must not end the other.
        self.looking = None;
        let waits = pending.wait_for(calls);
        if is_look {
            self.looking = Some(waits);
            return None;
        }
        Some(waits)
    }

    /// The guest does something else than to look for replies.
    pub(super) fn stop_looking(&mut self) {
        self.looks_in_vain = 0;
        self.looking = None;
    }
}
