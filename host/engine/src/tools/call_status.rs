//! Tracks the status of each call. Also tracks whether the guest of a started execution waits for the caller.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering};

use super::{
    abandoned::{AbandonedCalls, Origin},
    pending::{PendingCalls, WaitGuard},
    toolbox::{Answerer, Entry},
};

/// The status of a call: running, pending, abandoned or over.
#[derive(Debug)]
pub(super) struct CallStatus {
    state: Mutex<CallPhase>,
    entry: Arc<Entry>,
    abandoned: Arc<AbandonedCalls>,
    origin: Origin,
    /// The size of the arguments in memory, in bytes.
    bytes: u64,
    /// `true` if the caller answers the call although the tool has a handler, because the call needs an approval.
    needs_approval: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallPhase {
    Running,
    /// The call's thread has ended, and the caller must answer the call.
    Pending,
    /// The execution no longer waits for the call, but the call's thread still runs.
    Abandoned,
    Over,
}

impl CallStatus {
    /// Creates the status of a running call. If the call is abandoned, `abandoned` counts it. `bytes` is the size of
    /// the call's arguments in memory.
    pub(super) fn new(entry: &Arc<Entry>, abandoned: &Arc<AbandonedCalls>, origin: Origin, bytes: u64) -> Self {
        let (entry, abandoned) = (Arc::clone(entry), Arc::clone(abandoned));
        Self { state: Mutex::new(CallPhase::Running), entry, abandoned, origin, bytes, needs_approval: false }
    }

    /// Sets whether the call needs an approval. Default: `false`.
    pub(super) fn needs_approval(self, needs_approval: bool) -> Self {
        Self { needs_approval, ..self }
    }

    /// Returns `true` if the caller of a started execution answers this call.
    pub(super) fn is_answered_by_caller(&self) -> bool {
        self.needs_approval || matches!(self.entry.answerer, Answerer::Caller)
    }

    /// Returns `true` if the caller of a started execution must answer the call, and no thread runs for it.
    pub(super) fn is_pending(&self) -> bool {
        *self.state() == CallPhase::Pending
    }

    /// Returns the size of the arguments in memory, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Records that the execution no longer waits for the answer. If a thread still runs for the call, the call is
    /// counted as abandoned until the thread ends.
    pub(super) fn abandon(&self) {
        let mut state = self.state();
        match *state {
            CallPhase::Running => {
                *state = CallPhase::Abandoned;
                self.entry.abandoned().fetch_add(1, Ordering::SeqCst);
                self.abandoned.add(&self.origin, self.bytes);
            }
            CallPhase::Pending => *state = CallPhase::Over,
            CallPhase::Abandoned | CallPhase::Over => {}
        }
    }

    /// Records an answer from the handler or the caller. Returns `true` if the execution still waits for the answer.
    pub(super) fn answer(&self) -> bool {
        let mut state = self.state();
        let is_awaited = matches!(*state, CallPhase::Running | CallPhase::Pending);
        self.end_phase(&mut state, CallPhase::Over);
        is_awaited
    }

    /// Records that the call's thread ends and that the caller must answer. Returns `true` if the execution still waits
    /// for the answer.
    pub(super) fn hand_over(&self) -> bool {
        let mut state = self.state();
        // The caller may already have answered.
        let is_awaited = *state == CallPhase::Running;
        self.end_phase(&mut state, if is_awaited { CallPhase::Pending } else { CallPhase::Over });
        is_awaited
    }

    fn end_phase(&self, state: &mut CallPhase, next: CallPhase) {
        if *state == CallPhase::Abandoned {
            self.entry.abandoned().fetch_sub(1, Ordering::SeqCst);
            self.abandoned.remove(&self.origin, self.bytes);
        }
        *state = next;
    }

    fn state(&self) -> MutexGuard<'_, CallPhase> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of consecutive polls without a reply after which the guest is considered to be waiting. A loop that does
/// other work in between makes only a few polls in a row.
const POLLS_BEFORE_WAITING: u32 = 100;

/// A tracker that reports to [`PendingCalls`] when the guest waits. `pending` is `None` if no caller steps through the
/// execution.
#[derive(Debug, Default)]
pub(super) struct WaitTracker {
    pending: Option<Arc<PendingCalls>>,
    /// The number of polls without a reply since the guest last did anything else.
    empty_polls: u32,
    /// A guard that marks the guest as waiting, created after enough consecutive polls.
    looking: Option<WaitGuard>,
}

impl WaitTracker {
    pub(super) fn new(pending: Option<Arc<PendingCalls>>) -> Self {
        Self { pending, ..Self::default() }
    }

    pub(super) fn pending(&self) -> Option<&Arc<PendingCalls>> {
        self.pending.as_ref()
    }

    /// Marks the guest as waiting for the first answer to `calls`, until the returned guard is dropped. A single poll
    /// (`is_poll`) is not a wait, but many consecutive polls are. The guard of such a series stays in the tracker until
    /// [`stop_polling`](Self::stop_polling).
    pub(super) fn begin_wait(&mut self, is_poll: bool, calls: impl Iterator<Item = usize>) -> Option<WaitGuard> {
        let pending = self.pending.as_ref()?;
        if is_poll {
            self.empty_polls = self.empty_polls.saturating_add(1);
            if self.empty_polls != POLLS_BEFORE_WAITING {
                return None;
            }
        }
        // Drop the old guard before creating the new one, because dropping a guard ends any wait.
        self.looking = None;
        let waits = pending.wait_for(calls);
        if is_poll {
            self.looking = Some(waits);
            return None;
        }
        Some(waits)
    }

    /// Records that the guest did something other than polling for replies.
    pub(super) fn stop_polling(&mut self) {
        self.empty_polls = 0;
        self.looking = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::{Tool, Toolbox};

    /// Returns a running call, and a function that counts the abandoned calls to its tool.
    fn running() -> (Arc<CallStatus>, impl Fn() -> usize) {
        let toolbox = Toolbox::new(&[Tool::new("ask", "").stepped()]).unwrap();
        let entry = Arc::clone(toolbox.tools().find("ask").unwrap());
        let status = Arc::new(CallStatus::new(&entry, toolbox.abandoned(), None, 1));
        (status, move || entry.abandoned().load(Ordering::SeqCst))
    }

    #[test]
    fn abandoned_call_of_the_caller_is_not_counted() {
        let (status, counted) = running();
        assert!(status.hand_over());
        status.abandon();
        assert_eq!(counted(), 0);
        assert!(!status.answer(), "the execution no longer waits");
        assert_eq!(counted(), 0);
    }

    #[test]
    fn abandoned_call_counts_until_its_handler_ends() {
        for ends in [[CallStatus::answer, CallStatus::hand_over], [CallStatus::hand_over, CallStatus::answer]] {
            let (status, counted) = running();
            status.abandon();
            status.abandon();
            assert_eq!(counted(), 1);
            assert!(!ends[0](&status));
            assert!(!ends[1](&status));
            assert_eq!(counted(), 0, "the call is released once, in either order");
        }
    }

    #[test]
    fn answered_call_is_finished_before_its_thread() {
        let (status, counted) = running();
        assert!(status.answer());
        assert!(!status.hand_over());
        status.abandon();
        assert_eq!(counted(), 0);
        assert!(!status.answer(), "a second answer is ignored");
    }
}
