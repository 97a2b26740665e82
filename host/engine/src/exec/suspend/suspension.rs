//! Suspends a started execution, and coordinates the suspension between the execution's thread and its caller.

use std::{
    io::Write,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use glovebox_core::{
    journal::{Recording, SuspendRefusal, SuspendedCalls, UnansweredCall},
    session::{Checkpoint, Reservation},
};

use super::{SuspendError, Suspended};
use crate::{HibernateError, Sandbox, Started, exec::request::RequestParts, internal::ByteCount, tools::Progress};

/// Maximum duration of [`Started::suspend`]. A script that waits for its caller is suspended immediately. A script that
/// polls for answers is suspended at its next poll.
const SUSPEND_WAIT: Duration = Duration::from_secs(5);

/// Returns an upper bound of the size of an unanswered call in a suspended execution's bytes.
pub(crate) fn call_bytes(name: &str, arguments: &str) -> usize {
    size_of::<UnansweredCall>() + name.len() + arguments.len()
}

/// The suspension of a running execution: the caller's request, and the result. The execution's thread and the caller
/// share it.
#[derive(Debug, Default)]
pub(crate) struct Suspension {
    state: Mutex<SuspensionState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SuspensionState {
    is_wanted: bool,
    /// The maximum size of the unanswered calls of the requested suspension.
    max_calls_bytes: usize,
    result: Option<Result<Recording, SuspendError>>,
    /// The session's state before the execution. Taken when the state is serialized, or when the execution ends without
    /// a suspension.
    before: Option<StateBefore>,
    /// `true` while the execution's thread prepares the result.
    is_in_progress: bool,
    is_suspended: bool,
    /// `true` once a resumed execution has repeated its earlier steps.
    has_continued: bool,
    has_ended: bool,
    /// The first difference from the recording that the execution repeats.
    difference: Option<String>,
}

/// The state of a session before an execution. Counts towards `limits.session_total_bytes` until it is dropped.
#[derive(Debug)]
pub struct StateBefore {
    pub(crate) state: Checkpoint,
    /// The memory reserved for the state, released on drop.
    pub(crate) reservation: Option<Reservation>,
}

impl Suspension {
    fn state(&self) -> MutexGuard<'_, SuspensionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::exec) fn is_wanted(&self) -> bool {
        self.state().is_wanted
    }

    /// Begins the requested suspension, on the execution's thread. Returns `false` if the caller has withdrawn its
    /// request, or if the unanswered calls exceed `max_calls_bytes`.
    pub(in crate::exec) fn begin(&self, calls: Option<&SuspendedCalls>) -> bool {
        let mut state = self.state();
        let is_wanted = std::mem::replace(&mut state.is_wanted, false);
        let calls = calls.into_iter().flat_map(|calls| &calls.unanswered);
        let calls_bytes: usize = calls.map(|call| call_bytes(&call.name, &call.arguments)).sum();
        if is_wanted && calls_bytes > state.max_calls_bytes {
            // The caller does not know the latest calls yet.
            state.result = Some(Err(SuspendError::Running));
            self.changed.notify_all();
            return false;
        }
        state.is_in_progress = is_wanted;
        is_wanted
    }

    /// Stores the result. Called on the execution's thread.
    pub(in crate::exec) fn finish(&self, result: Result<Recording, SuspendRefusal>) {
        let mut state = self.state();
        state.is_in_progress = false;
        state.is_suspended = result.is_ok();
        state.result = Some(result.map_err(SuspendError::from));
        self.changed.notify_all();
    }

    /// Returns `true` if the execution ends because it was suspended. The resumed execution then commits the files.
    pub(in crate::exec) fn is_suspended(&self) -> bool {
        self.state().is_suspended
    }

    pub(crate) fn set_before(&self, before: StateBefore) {
        self.state().before = Some(before);
    }

    /// Returns a copy of the state of the session before the execution. The copy shares the memory pages.
    pub(in crate::exec) fn state_before(&self) -> Option<Checkpoint> {
        self.state().before.as_ref().map(|before| before.state.clone())
    }

    /// Takes the state of the session before the execution. Returns `None` outside sessions.
    pub(in crate::exec) fn take_before(&self) -> Option<StateBefore> {
        self.state().before.take()
    }

    pub(in crate::exec) fn set_continued(&self) {
        self.state().has_continued = true;
    }

    /// Returns `true` once a resumed execution has repeated its earlier steps and continues.
    pub(in crate::exec) fn has_continued(&self) -> bool {
        self.state().has_continued
    }

    pub(in crate::exec) fn differ(&self, difference: &str) {
        self.state().difference.get_or_insert_with(|| difference.to_owned());
    }

    pub(in crate::exec) fn difference(&self) -> Option<String> {
        self.state().difference.clone()
    }

    /// Drops the state of the session before the execution, unless the execution was suspended. Called when the
    /// execution has ended.
    pub(in crate::exec) fn release_before(&self) {
        let mut state = self.state();
        let unneeded = if state.is_suspended { None } else { state.before.take() };
        drop(state);
        drop(unneeded);
    }

    pub(in crate::exec) fn end(&self) {
        self.state().has_ended = true;
        self.changed.notify_all();
    }

    pub(in crate::exec) fn wait_for_end(&self) {
        let mut state = self.state();
        while !state.has_ended {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Requests a suspension and waits for its result. Fails if the unanswered calls exceed `max_calls_bytes`, counted
    /// with [`call_bytes`]. `wake` makes the execution's thread check the request.
    pub(in crate::exec) fn request(
        &self,
        max_calls_bytes: usize,
        wake: impl FnOnce(),
    ) -> Result<Recording, SuspendError> {
        let end = Instant::now() + SUSPEND_WAIT;
        let mut state = self.state();
        if state.is_suspended || state.has_ended {
            return Err(SuspendError::Ended);
        }
        state.is_wanted = true;
        state.max_calls_bytes = max_calls_bytes;
        state.result = None;
        drop(state);
        wake();
        let mut state = self.state();
        loop {
            if let Some(result) = state.result.take() {
                return result;
            }
            let left = end.saturating_duration_since(Instant::now());
            if state.has_ended || (left.is_zero() && !state.is_in_progress) {
                state.is_wanted = false;
                return Err(if state.has_ended { SuspendError::Ended } else { SuspendError::Running });
            }
            // After the deadline, waits only for a suspension that is in progress, which ends within moments.
            let left = left.max(Duration::from_millis(1));
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The parts of an execution that a suspension needs.
pub(in crate::exec) struct SuspensionParts {
    pub(in crate::exec) suspension: Arc<Suspension>,
    pub(in crate::exec) sandbox: Sandbox,
    pub(in crate::exec) request: Arc<RequestParts<'static>>,
    /// The suspended execution that this execution resumes.
    pub(in crate::exec) replay: Option<Arc<Suspended>>,
}

impl Started {
    /// Suspends the execution: stops it and returns it as a value that can be stored. Call this when
    /// [`advance`](Self::advance) has returned [`Step::NeedsTools`](crate::Step::NeedsTools). [`Suspended::request`]
    /// resumes the execution.
    ///
    /// Afterwards, `advance` returns an execution with the outcome [`Cancelled`](crate::Outcome::Cancelled), and without
    /// changes to files.
    ///
    /// # Errors
    /// Fails if the request was not [`suspendable`](crate::Request::suspendable), if the script does not wait for
    /// answers, or if a tool's handler is running. Also fails if a limit or a cancellation has interrupted the script,
    /// or if the journal is too large. The execution then continues, except after [`SuspendError::Session`].
    pub fn suspend(&self) -> Result<Suspended, SuspendError> {
        self.suspend_within(usize::MAX)
    }

    /// Like [`suspend`](Self::suspend), but limits the unanswered calls to `max_calls_bytes` in total
    /// ([`ToolRequest::suspended_bytes`](crate::ToolRequest::suspended_bytes)). A script that polls for its answers can
    /// make further calls after [`advance`](Self::advance) has returned.
    ///
    /// # Errors
    /// Fails like [`suspend`](Self::suspend), and with [`SuspendError::Running`] if the calls exceed the limit.
    pub fn suspend_within(&self, max_calls_bytes: usize) -> Result<Suspended, SuspendError> {
        self.suspend_with(max_calls_bytes, |sandbox, before| before.encode(sandbox))
    }

    /// Like [`suspend_within`](Self::suspend_within). After the execution has ended, `encode` returns the serialized
    /// state of the session before the execution. `encode` is not called outside sessions, or for a resumed execution.
    #[doc(hidden)]
    pub fn suspend_with(
        &self,
        max_calls_bytes: usize,
        encode: impl FnOnce(&Sandbox, StateBefore) -> Result<Vec<u8>, HibernateError>,
    ) -> Result<Suspended, SuspendError> {
        let SuspensionParts { suspension, sandbox, request, replay } =
            self.suspendable.as_ref().ok_or(SuspendError::NotSuspendable)?;
        match self.pending().0.wait(Some(Instant::now())) {
            Progress::Waits(_) => {}
            Progress::Runs => return Err(SuspendError::Running),
            Progress::Ended => return Err(SuspendError::Ended),
        }
        let recording = suspension.request(max_calls_bytes, || self.cancel_token().wake())?;
        // After this wait, `advance` no longer returns the calls, and the execution's session can be used again.
        suspension.wait_for_end();
        let replayed = replay.as_ref().and_then(|suspended| suspended.session());
        let before = match (suspension.take_before(), replayed) {
            (Some(before), _) => Some(encode(sandbox, before).map_err(Arc::new).map_err(SuspendError::Session)?),
            (None, replayed) => replayed.map(<[u8]>::to_vec),
        };
        let mut request = Arc::clone(request);
        if before.is_some() {
            // The session's saved state already contains `context`.
            Arc::make_mut(&mut request).context = None;
        }
        Ok(Suspended::new(sandbox, request, before, recording))
    }

    /// Returns `true` if the execution was resumed, and has ended before it had repeated its earlier steps. The script
    /// has then differed from the suspended one, or a limit or a cancellation has stopped it. It has committed no files,
    /// and can be resumed again.
    #[doc(hidden)]
    #[must_use]
    pub fn has_only_repeated(&self) -> bool {
        let Some(SuspensionParts { suspension, replay, .. }) = &self.suspendable else { return false };
        replay.is_some() && self.has_ended() && !suspension.has_continued()
    }

    /// Returns the size in bytes of the serialized state of the session before the execution, which a suspended
    /// execution contains. Serializes the state. Returns `None` outside sessions, for a resumed execution, and if the
    /// execution has not begun or has ended.
    ///
    /// # Errors
    /// Fails if the state cannot be serialized. The execution continues.
    pub fn state_before_bytes(&self) -> Result<Option<u64>, HibernateError> {
        let mut count = ByteCount::default();
        Ok(self.write_state_before(&mut count)?.then_some(count.0 as u64))
    }

    /// Writes the serialized state of the session before the execution. Returns `false` and writes nothing outside
    /// sessions, for a resumed execution, and if the execution has not begun or has ended.
    ///
    /// # Errors
    /// Fails if the state cannot be serialized or written. The execution continues.
    #[doc(hidden)]
    pub fn write_state_before(&self, into: &mut dyn Write) -> Result<bool, HibernateError> {
        let Some(SuspensionParts { suspension, sandbox, .. }) = &self.suspendable else { return Ok(false) };
        let Some(state) = suspension.state_before() else { return Ok(false) };
        sandbox.hibernate_checkpoint(state, into)?;
        Ok(true)
    }
}

impl StateBefore {
    /// Serializes the state, and releases its memory.
    ///
    /// # Errors
    /// Fails if the state cannot be serialized.
    pub fn encode(self, sandbox: &Sandbox) -> Result<Vec<u8>, HibernateError> {
        let Self { state, reservation } = self;
        let mut bytes = Vec::new();
        sandbox.hibernate_checkpoint(state, &mut bytes)?;
        drop(reservation);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that calls above the caller's limit prevent a suspension. The caller has reserved no memory for a larger
    /// result.
    #[test]
    fn larger_calls_prevent_the_suspension() {
        let call = |arguments: &str| UnansweredCall { index: 0, name: "pay".into(), arguments: arguments.into() };
        for (unanswered, begins) in [
            (vec![], true),
            (vec![call("[]")], true),
            (vec![call("[0]")], false),
            (vec![call("[]"), call("[]")], false),
        ] {
            let suspension = Suspension::default();
            let calls = SuspendedCalls { unanswered, ..SuspendedCalls::default() };
            let result = suspension.request(call_bytes("pay", "[]"), || {
                assert_eq!(suspension.begin(Some(&calls)), begins, "{calls:?}");
                if begins {
                    suspension.finish(Err(SuspendRefusal::Interrupted));
                }
            });
            let is_refused = matches!(result, Err(SuspendError::Refused(SuspendRefusal::Interrupted)));
            assert_eq!(is_refused, begins, "{calls:?}");
            assert!(begins || matches!(result, Err(SuspendError::Running)), "{calls:?}");
            assert!(!suspension.is_wanted());
        }
    }
}
