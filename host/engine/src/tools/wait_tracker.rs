//! Tracks when the guest of a started execution waits for its caller.

use std::sync::Arc;

use super::pending::{PendingCalls, Waiting};

/// Number of consecutive polls without a reply that count as waiting. A loop that polls between other work makes only a
/// few in a row.
const LOOKS_THAT_ARE_A_WAIT: u32 = 100;

/// Reports to [`PendingCalls`] when the guest waits. `pending` is `None` if no caller steps through the execution.
#[derive(Debug, Default)]
pub(super) struct WaitTracker {
    pending: Option<Arc<PendingCalls>>,
    /// Number of polls without a reply since the guest last did anything else.
    looks_in_vain: u32,
    /// Marks the guest as waiting, once it has polled often enough.
    looking: Option<Waiting>,
}

impl WaitTracker {
    pub(super) fn new(pending: Option<Arc<PendingCalls>>) -> Self {
        Self { pending, ..Self::default() }
    }

    pub(super) fn pending(&self) -> Option<&Arc<PendingCalls>> {
        self.pending.as_ref()
    }

    /// Marks the guest as waiting for the first of these calls, as long as the result is held. A single poll
    /// (`is_look`) does not count as waiting, unless the guest only polls.
    pub(super) fn begin_wait(&mut self, is_look: bool, calls: impl Iterator<Item = usize>) -> Option<Waiting> {
        let pending = self.pending.as_ref()?;
        if is_look {
            self.looks_in_vain = self.looks_in_vain.saturating_add(1);
            if self.looks_in_vain != LOOKS_THAT_ARE_A_WAIT {
                return None;
            }
        }
        // Dropped before the new guard is created, because dropping it ends any wait.
        self.looking = None;
        let waits = pending.wait_for(calls);
        if is_look {
            self.looking = Some(waits);
            return None;
        }
        Some(waits)
    }

    /// Records that the guest does something other than polling for replies.
    pub(super) fn stop_looking(&mut self) {
        self.looks_in_vain = 0;
        self.looking = None;
    }
}
