//! Calls that the caller of a started execution answers.
//!
//! A call is added once its arguments match the tool's schema, and removed once it is answered or abandoned. No thread
//! waits for it. The guest's thread reports when it waits, and for which calls. The caller must act only if the guest
//! waits and all calls that it waits for are here. Calls of the host's own tools may run at the same time: their
//! replies do not need the caller.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use glovebox_core::tools::{Done, Failure, Held, hold_answer, within};

use super::{ToolErrorKind, call_status::CallStatus, runner::CompletionQueue};

/// The calls of one execution for the caller to answer, and the progress of the execution.
#[derive(Debug, Default)]
pub(crate) struct PendingCalls {
    state: Mutex<PendingState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PendingState {
    calls: BTreeMap<usize, PendingCall>,
    /// Lower bound for the number of calls that the execution has made: smaller indices are valid.
    known: usize,
    /// The calls for the caller that the guest waits for. `None` while it does not wait.
    awaited: Option<Vec<usize>>,
    has_ended: bool,
}

/// An unanswered call.
pub(super) struct PendingCall {
    pub(super) name: String,
    pub(super) arguments: String,
    /// Memory charged for the arguments.
    pub(super) held: Held,
    pub(super) max_bytes: u64,
    pub(super) status: Arc<CallStatus>,
    pub(super) completions: Arc<CompletionQueue>,
}

impl fmt::Debug for PendingCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingCall")
            .field("name", &self.name)
            .field("bytes", &self.held.bytes())
            .finish_non_exhaustive()
    }
}

/// A call as the caller sees it.
#[derive(Debug)]
pub(crate) struct OpenCall {
    pub(crate) index: usize,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// The caller's answer to a call.
#[derive(Debug)]
pub(crate) struct CallerAnswer {
    pub(crate) index: usize,
    /// JSON text, or the kind and the message of an error for the script.
    pub(crate) answer: Result<String, (ToolErrorKind, String)>,
}

/// Progress of an execution.
#[derive(Debug)]
pub(crate) enum Progress {
    Ended,
    /// The guest waits only for these calls, apart from timeouts. Or the caller's time is up, and these calls are
    /// unanswered.
    Waits(Vec<OpenCall>),
    Runs,
}

/// Guard that marks the guest as waiting.
#[derive(Debug)]
pub(crate) struct Waiting(Arc<PendingCalls>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.state().awaited = None;
    }
}

impl PendingCalls {
    fn state(&self) -> MutexGuard<'_, PendingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a call for the caller to answer.
    pub(super) fn push(&self, index: usize, call: PendingCall) {
        let mut state = self.state();
        state.known = state.known.max(index.saturating_add(1));
        state.calls.insert(index, call);
        drop(state);
        self.changed.notify_all();
    }

    /// Removes an abandoned call, if it is here.
    pub(super) fn withdraw(&self, index: usize) {
        let withdrawn = self.state().calls.remove(&index);
        drop(withdrawn);
    }

    /// Marks the guest as waiting for the first of these calls.
    pub(super) fn wait_for(self: &Arc<Self>, calls: impl Iterator<Item = usize>) -> Waiting {
        self.state().awaited = Some(calls.collect());
        self.changed.notify_all();
        Waiting(Arc::clone(self))
    }

    /// Records the end of the execution.
    pub(crate) fn end(&self) {
        self.state().has_ended = true;
        self.changed.notify_all();
    }

    /// Returns `true` if the execution has made this call, as far as the caller can know.
    pub(crate) fn knows(&self, index: usize) -> bool {
        index < self.state().known
    }

    /// Passes answers on. Answers to calls that are not outstanding are ignored.
    pub(crate) fn answer(&self, answers: Vec<CallerAnswer>) {
        for CallerAnswer { index, answer } in answers {
            let Some(call) = self.state().calls.remove(&index) else { continue };
            call.answer(index, answer);
        }
    }

    /// Waits until the execution has ended or its guest waits for the caller, at most until `end`.
    pub(crate) fn wait(&self, end: Option<Instant>) -> Progress {
        let mut state = self.state();
        loop {
            if state.has_ended {
                return Progress::Ended;
            }
            if let Some(calls) = state.open_calls() {
                return Progress::Waits(calls);
            }
            state = match end.map(|end| end.saturating_duration_since(Instant::now())) {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) if left.is_zero() => return state.progress(),
                Some(left) => self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }
}

impl PendingState {
    /// Returns the calls that the guest waits for, if the caller can answer all of them.
    fn open_calls(&self) -> Option<Vec<OpenCall>> {
        let awaited = self.awaited.as_ref().filter(|awaited| !awaited.is_empty())?;
        // Checked first, and without a copy: an answer may be on its way, or a schema not yet checked.
        if !awaited.iter().all(|index| self.calls.contains_key(index)) {
            return None;
        }
        Some(self.calls.iter().filter(|(index, _)| awaited.contains(index)).map(open_call).collect())
    }

    /// Returns the progress when the caller's time is up. Lists all unanswered calls, even if the guest does not wait
    /// for them now: it may be polling for the answers.
    fn progress(&self) -> Progress {
        if self.calls.is_empty() {
            return Progress::Runs;
        }
        Progress::Waits(self.calls.iter().map(open_call).collect())
    }
}

fn open_call((index, call): (&usize, &PendingCall)) -> OpenCall {
    OpenCall { index: *index, name: call.name.clone(), arguments: call.arguments.clone() }
}

impl PendingCall {
    fn answer(self, index: usize, answer: Result<String, (ToolErrorKind, String)>) {
        let ended = self.completions.elapsed();
        drop(self.held);
        let answer = match answer {
            Ok(text) => within(text, self.max_bytes),
            Err((kind, message)) => Err(Failure::new(kind, message)),
        };
        if self.status.answer() {
            let (answer, held) = hold_answer(&self.completions.account, answer);
            self.completions.put(Done { index, answer, held, ended });
        }
    }
}
