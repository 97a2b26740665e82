//! Tool calls that the caller of a started execution answers.
//!
//! A call is added once its arguments match the tool's schema, and removed once it is answered or abandoned. No thread
//! waits for a pending call. The guest's thread reports when it waits and for which calls. The caller must act only if
//! the guest waits and all calls that it waits for are pending here. Calls with handlers can run concurrently. Their
//! replies do not need the caller.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use glovebox_core::tools::{CallFailure, FinishedCall, ReservedMemory, hold_answer, within};

use super::{ToolError, call_status::CallStatus, runner::CompletionQueue};
use crate::{ToolAnswer, ToolRequest};

/// The minimum time for which a cancelled guest must wait before its wait is reported. JavaScript waits again for a few
/// microseconds before it notices the cancellation.
const SETTLE_TIME: Duration = Duration::from_millis(50);

/// The unanswered calls of one execution, and the execution's progress.
#[derive(Debug, Default)]
pub(crate) struct PendingCalls {
    state: Mutex<PendingState>,
    condition: Condvar,
}

#[derive(Debug, Default)]
struct PendingState {
    calls: BTreeMap<usize, PendingCall>,
    /// A lower bound for the number of calls that the execution has made. All smaller indices are valid.
    known: usize,
    /// The calls that the guest waits for. `None` while it does not wait.
    awaited: Option<Vec<usize>>,
    /// `true` once the execution was cancelled.
    is_cancelled: bool,
    /// `true` if the guest's current wait was cancelled. The guest is about to stop waiting.
    is_wait_cancelled: bool,
    /// The time before which [`PendingCalls::wait`] does not report the current wait ([`SETTLE_TIME`]).
    reported_from: Option<Instant>,
    has_ended: bool,
    /// `true` if the caller approves or denies the calls that need approval.
    is_approver: bool,
    /// The tasks to wake when the caller must act.
    wakers: Vec<Waker>,
    /// The waker to wake for each new call and at the end of the execution.
    observer: Option<Waker>,
}

/// A call that the caller must answer.
pub(super) struct PendingCall {
    pub(super) name: String,
    pub(super) arguments: String,
    /// Memory charged for the arguments.
    pub(super) held: ReservedMemory,
    pub(super) max_bytes: u64,
    /// `true` if the call needs an approval.
    pub(super) approve: bool,
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

/// The progress of a started execution.
#[derive(Debug)]
pub(crate) enum Progress {
    Ended,
    /// The unanswered calls. Either the guest can continue only after an answer or a timeout, or the caller's time
    /// limit has expired.
    Waits(Vec<ToolRequest>),
    Runs,
}

/// A guard that marks the guest as waiting.
#[derive(Debug)]
pub(crate) struct WaitGuard(Arc<PendingCalls>);

impl Drop for WaitGuard {
    fn drop(&mut self) {
        let mut state = self.0.state();
        (state.awaited, state.is_wait_cancelled) = (None, false);
    }
}

impl PendingCalls {
    fn state(&self) -> MutexGuard<'_, PendingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets whether the caller approves or denies the calls that need approval. Default: `false`.
    pub(crate) fn set_approver(&self, is_approver: bool) {
        self.state().is_approver = is_approver;
    }

    /// Returns `true` if the caller approves or denies the calls that need approval.
    pub(super) fn is_approver(&self) -> bool {
        self.state().is_approver
    }

    /// Adds a call for the caller to answer, unless it was abandoned in the meantime.
    pub(super) fn push(&self, index: usize, call: PendingCall) {
        let mut state = self.state();
        state.known = state.known.max(index.saturating_add(1));
        // Hands the call over under the lock, because a caller that sees the call may suspend the execution.
        if !call.status.hand_over() {
            drop(state);
            return;
        }
        state.calls.insert(index, call);
        let observer = state.observer.clone();
        self.wake_callers(state);
        if let Some(observer) = observer {
            observer.wake();
        }
    }

    /// Removes an abandoned call, if it is pending.
    pub(super) fn withdraw(&self, index: usize) {
        let withdrawn = self.state().calls.remove(&index);
        drop(withdrawn);
    }

    /// Marks the guest as waiting for the first answer to `calls`, until the returned guard is dropped.
    pub(super) fn wait_for(self: &Arc<Self>, calls: impl Iterator<Item = usize>) -> WaitGuard {
        let awaited = Some(calls.collect());
        let mut state = self.state();
        (state.awaited, state.is_wait_cancelled) = (awaited, false);
        state.reported_from = state.is_cancelled.then(|| Instant::now() + SETTLE_TIME);
        self.wake_callers(state);
        WaitGuard(Arc::clone(self))
    }

    /// Records that the execution was cancelled. The caller need not act until the guest waits again.
    pub(crate) fn cancel(&self) {
        let mut state = self.state();
        (state.is_cancelled, state.is_wait_cancelled) = (true, state.awaited.is_some());
    }

    /// Records the end of the execution.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.has_ended = true;
        let observer = state.observer.take();
        self.wake_callers(state);
        if let Some(observer) = observer {
            observer.wake();
        }
    }

    /// Wakes `observer` for each later call and at the end of the execution.
    pub(crate) fn observe(&self, observer: Waker) {
        self.state().observer = Some(observer);
    }

    /// Implements [`PendingToolCalls::new_calls`](crate::PendingToolCalls::new_calls).
    pub(crate) fn new_calls(
        &self,
        seen: &mut BTreeSet<usize>,
        max_count: usize,
        max_bytes: u64,
    ) -> Option<Vec<ToolRequest>> {
        let state = self.state();
        seen.retain(|index| state.calls.contains_key(index));
        let mut new = state.calls.iter().filter(|(index, _)| !seen.contains(index)).peekable();
        new.peek()?;
        let mut bytes = 0_u64;
        let new = new.take(max_count).take_while(|(_, call)| {
            let is_first = bytes == 0;
            bytes = bytes.saturating_add((call.name.len() + call.arguments.len()) as u64);
            is_first || bytes <= max_bytes
        });
        let new: Vec<_> = new.collect();
        seen.extend(new.iter().map(|(index, _)| **index));
        Some(new.into_iter().map(open_call).collect())
    }

    /// Wakes the waiting callers if they must act.
    fn wake_callers(&self, mut state: MutexGuard<'_, PendingState>) {
        if !state.has_ended && !state.needs_caller() {
            return;
        }
        let wakers = mem::take(&mut state.wakers);
        drop(state);
        self.condition.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Returns `true` if a call with this ID can be answered: the execution has made this call or a later call.
    pub(crate) fn can_be_answered(&self, id: u64) -> bool {
        usize::try_from(id).is_ok_and(|index| index < self.state().known)
    }

    /// Passes answers to the execution. Ignores answers to calls that are not pending.
    ///
    /// The guest receives all answers at the same time. Otherwise, its next steps and its fuel would depend on the
    /// number of answers that have arrived when it wakes up.
    pub(crate) fn answer(&self, answers: Vec<ToolAnswer>) {
        // All calls of an execution share one queue.
        let mut completed: Option<(Arc<CompletionQueue>, Vec<FinishedCall>)> = None;
        for ToolAnswer { id, answer } in answers {
            let Ok(index) = usize::try_from(id) else { continue };
            let Some(call) = self.state().calls.remove(&index) else { continue };
            let completions = Arc::clone(&call.completions);
            if let Some(done) = call.complete(index, answer) {
                completed.get_or_insert_with(|| (completions, Vec::new())).1.push(done);
            }
        }
        if let Some((completions, done)) = completed {
            completions.put(done);
        }
    }

    /// Waits until the execution has ended, its guest waits for the caller, or `end` has passed.
    pub(crate) fn wait(&self, end: Option<Instant>) -> Progress {
        let mut state = self.state();
        loop {
            if state.has_ended {
                return Progress::Ended;
            }
            let mut until = end;
            if let Some(calls) = state.open_calls() {
                let Some(from) = state.reported_from.filter(|from| *from > Instant::now()) else {
                    return Progress::Waits(calls);
                };
                until = Some(end.map_or(from, |end| end.min(from)));
            }
            state = match until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => self.condition.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) if left.is_zero() => return state.progress(),
                Some(left) => self.condition.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }

    /// Returns the calls once the guest waits for the caller. Until then, returns `Pending` and registers the waker of
    /// `context`, which is woken when the guest starts to wait. Returns `Pending` after the end of the execution.
    pub(crate) fn poll_calls(&self, context: &Context<'_>) -> Poll<Vec<ToolRequest>> {
        let mut state = self.state();
        if let Some(calls) = state.open_calls() {
            return Poll::Ready(calls);
        }
        if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            state.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}

impl PendingState {
    /// Returns `true` if the guest waits for calls and all of them are pending. Otherwise, an answer may be in transit,
    /// arguments might not have been validated yet, or the wait was cancelled.
    fn needs_caller(&self) -> bool {
        if self.is_wait_cancelled {
            return false;
        }
        let awaited = self.awaited.as_ref().filter(|awaited| !awaited.is_empty());
        awaited.is_some_and(|awaited| awaited.iter().all(|index| self.calls.contains_key(index)))
    }

    /// Returns the calls that the guest waits for, if all of them are pending.
    fn open_calls(&self) -> Option<Vec<ToolRequest>> {
        // Checks first, to avoid needless copies of the calls.
        if !self.needs_caller() {
            return None;
        }
        let awaited = self.awaited.as_ref()?;
        Some(self.calls.iter().filter(|(index, _)| awaited.contains(index)).map(open_call).collect())
    }

    /// Returns the progress when the caller's time limit has expired. Includes all pending calls, even if the guest
    /// does not wait for them now, because the guest may be polling for their answers.
    fn progress(&self) -> Progress {
        if self.calls.is_empty() {
            return Progress::Runs;
        }
        Progress::Waits(self.calls.iter().map(open_call).collect())
    }
}

fn open_call((index, call): (&usize, &PendingCall)) -> ToolRequest {
    let PendingCall { name, arguments, approve, .. } = call;
    ToolRequest { id: *index as u64, name: name.clone(), arguments: arguments.clone(), approve: *approve }
}

impl PendingCall {
    /// Returns the completed call, unless the execution no longer waits for it.
    fn complete(self, index: usize, answer: Result<String, ToolError>) -> Option<FinishedCall> {
        let ended = self.completions.elapsed();
        drop(self.held);
        let answer = answer.map_err(CallFailure::from).and_then(|text| within(text, self.max_bytes));
        if !self.status.answer() {
            return None;
        }
        let (answer, held) = hold_answer(&self.completions.account, answer);
        Some(FinishedCall { index, answer, held, ended })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        task::Wake,
    };

    use super::*;
    use crate::{
        CancelToken,
        exec::platform::Stopwatch,
        tools::{Tool, ToolMemory, Toolbox},
    };

    /// A counter of a task's wake-ups.
    #[derive(Default)]
    struct WakeCounter(AtomicUsize);

    impl Wake for WakeCounter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn call() -> PendingCall {
        let toolbox = Toolbox::new(&[Tool::new("ask", "").stepped()]).unwrap();
        let entry = Arc::clone(toolbox.tools().find("ask").unwrap());
        let account = Arc::new(ToolMemory::default());
        account.set_room(1_000);
        PendingCall {
            name: "ask".to_owned(),
            arguments: "{}".to_owned(),
            held: account.hold(2).unwrap(),
            max_bytes: 100,
            approve: false,
            status: Arc::new(CallStatus::new(&entry, toolbox.abandoned(), None, 2)),
            completions: CompletionQueue::new(CancelToken::new(), account, Stopwatch(Instant::now())),
        }
    }

    #[test]
    fn task_is_woken_only_when_the_guest_waits_for_the_caller() {
        let (pending, wakes) = (Arc::new(PendingCalls::default()), Arc::new(WakeCounter::default()));
        let waker = Waker::from(Arc::clone(&wakes));
        let context = Context::from_waker(&waker);
        let woken = || wakes.0.load(Ordering::SeqCst);
        assert!(pending.poll_calls(&context).is_pending());
        assert!(pending.poll_calls(&context).is_pending());
        pending.push(0, call());
        assert_eq!(woken(), 0, "the guest does not wait");
        let waits = pending.wait_for([0, 1].into_iter());
        assert_eq!(woken(), 0, "one of the calls is not pending yet");
        pending.push(1, call());
        assert_eq!(woken(), 1, "only once, although the task was polled twice");
        let Poll::Ready(calls) = pending.poll_calls(&context) else { panic!("the guest waits") };
        assert_eq!(calls.iter().map(|call| call.id).collect::<Vec<_>>(), [0, 1]);
        pending.answer(vec![ToolAnswer { id: 1, answer: Ok("1".to_owned()) }]);
        assert!(pending.poll_calls(&context).is_pending(), "an answer is in transit");
        drop(waits);
        let _waits = pending.wait_for([0].into_iter());
        assert_eq!(woken(), 2);
        assert!(pending.poll_calls(&context).is_ready());
    }

    #[test]
    fn observer_sees_each_call_once_and_the_end() {
        let (pending, wakes) = (Arc::new(PendingCalls::default()), Arc::new(WakeCounter::default()));
        let mut seen = BTreeSet::new();
        let mut new = |max_count| {
            let calls = pending.new_calls(&mut seen, max_count, u64::MAX)?;
            Some(calls.iter().map(|call| call.id).collect::<Vec<_>>())
        };
        let woken = || wakes.0.load(Ordering::SeqCst);
        pending.observe(Waker::from(Arc::clone(&wakes)));
        assert_eq!(new(9), None);
        pending.push(3, call());
        pending.push(1, call());
        assert_eq!(woken(), 2, "although the guest does not wait");
        assert_eq!(new(0), Some(vec![]), "there is a call");
        assert_eq!(new(1), Some(vec![1]));
        assert_eq!(new(9), Some(vec![3]));
        assert_eq!(new(9), None);
        pending.withdraw(1);
        pending.push(7, call());
        assert_eq!(new(9), Some(vec![7]));
        pending.push(8, call());
        pending.push(9, call());
        // The name and the arguments of each call have five bytes.
        for (max_bytes, id) in [(9, 8), (0, 9)] {
            let calls = pending.new_calls(&mut seen, 9, max_bytes).unwrap();
            assert_eq!(calls.iter().map(|call| call.id).collect::<Vec<_>>(), [id]);
        }
        pending.end();
        assert_eq!(woken(), 6);
    }

    #[test]
    fn cancelled_wait_does_not_need_the_caller() {
        let pending = Arc::new(PendingCalls::default());
        let context = Context::from_waker(Waker::noop());
        pending.push(0, call());
        let waits = pending.wait_for([0].into_iter());
        assert!(pending.poll_calls(&context).is_ready());
        pending.cancel();
        assert!(pending.poll_calls(&context).is_pending());
        drop(waits);
        let _waits = pending.wait_for([0].into_iter());
        let begun = Instant::now();
        assert!(matches!(pending.wait(None), Progress::Waits(_)));
        assert!(begun.elapsed() > SETTLE_TIME / 2);
    }
}
