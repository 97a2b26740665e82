//! Calls that whoever steps through an execution answers.
//!
//! A call comes here when its arguments have passed the tool's schema, and is gone when it was answered or given up; no thread
//! waits with it. The guest's thread says while it waits, and for which calls: only then, and only when all of them are
//! here, is it the caller that must go on. Others of the host's own tools may be at work as well: their replies do not need it.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use glovebox_core::tools::{Done, Failure, Held, hold_answer, within};

use super::{ToolErrorKind, call_status::CallStatus, completions::CompletionQueue};

/// The calls of one execution that its caller is to answer, and how far the execution has come.
#[derive(Debug, Default)]
pub(crate) struct PendingCalls {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    calls: BTreeMap<usize, PendingCall>,
    /// How many calls the execution has made at least, for all that has come here: smaller numbers are known.
    known: usize,
    /// The calls of the caller's that the guest waits for, while it does.
    awaited: Option<Vec<usize>>,
    has_ended: bool,
}

/// A call that has no answer yet.
pub(super) struct PendingCall {
    pub(super) name: String,
    pub(super) arguments: String,
    /// What is held for the arguments.
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

/// What the caller says to a call.
#[derive(Debug)]
pub(crate) struct CallerAnswer {
    pub(crate) index: usize,
    /// JSON text, or how it failed and what the script is told.
    pub(crate) answer: Result<String, (ToolErrorKind, String)>,
}

/// How far an execution has come.
#[derive(Debug)]
pub(crate) enum Progress {
    Ended,
    /// The guest waits for these and for nothing else but time, or the time that was given is over and these have no answer.
    Waits(Vec<OpenCall>),
    Runs,
}

/// The guest waits, as long as this lives.
#[derive(Debug)]
pub(crate) struct Waiting(Arc<PendingCalls>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.state().awaited = None;
    }
}

impl PendingCalls {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a call that the caller is to answer.
    pub(super) fn push(&self, index: usize, call: PendingCall) {
        let mut state = self.state();
        state.known = state.known.max(index.saturating_add(1));
        state.calls.insert(index, call);
        drop(state);
        self.changed.notify_all();
    }

    /// Takes a call back that nobody waits for any longer, if it is here.
    pub(super) fn withdraw(&self, index: usize) {
        let withdrawn = self.state().calls.remove(&index);
        drop(withdrawn);
    }

    /// From now on the guest waits, for any of these calls at least.
    pub(super) fn wait_for(self: &Arc<Self>, calls: impl Iterator<Item = usize>) -> Waiting {
        self.state().awaited = Some(calls.collect());
        self.changed.notify_all();
        Waiting(Arc::clone(self))
    }

    /// The execution has ended.
    pub(crate) fn end(&self) {
        self.state().has_ended = true;
        self.changed.notify_all();
    }

    /// Whether the execution has made this call, for all that the caller can know.
    pub(crate) fn knows(&self, index: usize) -> bool {
        index < self.state().known
    }

    /// Hands answers on; those to calls that have none outstanding go nowhere.
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

impl State {
    /// What the guest waits for, if the caller has all of it to answer.
    fn open_calls(&self) -> Option<Vec<OpenCall>> {
        let awaited = self.awaited.as_ref().filter(|awaited| !awaited.is_empty())?;
        // First, and without a copy: an answer may be on its way, or a schema not yet checked.
        if !awaited.iter().all(|index| self.calls.contains_key(index)) {
            return None;
        }
        Some(self.calls.iter().filter(|(index, _)| awaited.contains(index)).map(open_call).collect())
    }

    /// What the caller learns when its time is over: of all calls that it has to answer, also where the guest does something else
    /// meanwhile. It may be asking again and again whether they were answered.
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
