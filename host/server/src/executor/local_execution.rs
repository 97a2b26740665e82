//! A stepwise execution in this process.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use glovebox::{
    AdvanceError, Execution, Request, SessionKey, Started, Step, Stream, SuspendError, ToolAnswer, ToolRequest,
};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tracing::Span;

use super::{BoxFuture, ExecutorStep, FinishedJob, NOT_STARTED_SUSPENDABLE, SteppedExecution};
use crate::{OnOutput, Service, ServiceError};

/// Maximum size of the calls that a script makes between a step and its suspension, in bytes. The tenant reserves
/// memory for the calls of the step, and 2 MiB for a journal of at most 1.5 MiB. The later calls fit in the rest.
const MAX_LATE_CALLS_BYTES: usize = 256 << 10;

/// A function that saves the session of an ended execution, unless the second argument is `true`, and converts the
/// outcome. Must be called on a blocking thread.
pub(super) type FinishFn =
    Box<dyn FnOnce(Result<Execution, ServiceError>, bool) -> Result<FinishedJob, ServiceError> + Send>;

/// A function that returns a session to its state before an execution was resumed in it. Must be called on a blocking
/// thread.
pub(super) type UndoFn = Box<dyn FnOnce() + Send>;

/// A stepwise execution in this process. It has its own thread until the script has ended, and each step waits on a
/// blocking thread.
pub(super) struct LocalExecution {
    /// `None` once the result was returned.
    started: Mutex<Option<Arc<Started>>>,
    /// `None` once the result was returned.
    finish: Mutex<Option<FinishFn>>,
    /// The key that seals the bytes of the suspended execution.
    key: Option<SessionKey>,
    /// `true` if the session is only in memory, so that the size of its stored state is unknown.
    is_in_memory: bool,
    /// Undoes the resumption in a session that is only in memory. `None` for other executions, and once the resumed
    /// script has received answers.
    undo: Mutex<Option<UndoFn>>,
    /// `true` once the resumption was refused. The session is then not saved.
    is_refused: AtomicBool,
    /// `true` if the execution was resumed, and has ended before it had repeated its earlier steps.
    has_only_repeated: AtomicBool,
    /// The size of the calls that the last step returned. The caller reserves memory for these calls.
    calls_bytes: AtomicUsize,
    ended: CancellationToken,
}

impl LocalExecution {
    /// Passes a request with an output callback to `start`. Must be called on a blocking thread.
    pub(super) fn start(
        request: Request<'_>,
        mut on_output: Option<OnOutput>,
        key: Option<SessionKey>,
        start: impl FnOnce(Request<'_>) -> Result<(Started, FinishFn), ServiceError>,
    ) -> Result<Self, ServiceError> {
        let ended = CancellationToken::new();
        // The execution drops its output callback, and with it the guard, when it ends.
        let guard = ended.clone().drop_guard();
        let (started, finish) = start(request.on_output(move |stream: Stream, bytes: &[u8]| {
            let _ = &guard;
            if let Some(on_output) = &mut on_output {
                on_output(stream, bytes);
            }
        }))?;
        Ok(Self {
            started: Mutex::new(Some(Arc::new(started))),
            finish: Mutex::new(Some(finish)),
            key,
            is_in_memory: false,
            undo: Mutex::default(),
            is_refused: AtomicBool::default(),
            has_only_repeated: AtomicBool::default(),
            calls_bytes: AtomicUsize::new(0),
            ended,
        })
    }

    /// Marks the execution's session as one that is only in memory. `undo` is called if the execution was resumed, and
    /// the resumption is refused.
    pub(super) fn in_memory(mut self, undo: Option<UndoFn>) -> Self {
        self.is_in_memory = true;
        *self.undo.get_mut() = undo;
        self
    }

    fn started(&self) -> Result<Arc<Started>, ServiceError> {
        self.started.lock().clone().ok_or(ServiceError::Panicked)
    }

    /// Returns the session to its state before the execution was resumed if the resumption is refused. Otherwise, frees
    /// that state.
    async fn end_resumption(&self, is_refused: bool) -> Result<(), ServiceError> {
        let Some(undo) = self.undo.lock().take() else { return Ok(()) };
        let end = move || {
            if is_refused {
                undo();
            }
        };
        Service::blocking(end).await
    }
}

impl Drop for LocalExecution {
    fn drop(&mut self) {
        // A step that is still waiting holds a clone of the handle, so dropping this one would not cancel the
        // execution.
        if let Some(started) = self.started.get_mut() {
            started.cancel();
        }
    }
}

impl SteppedExecution for LocalExecution {
    fn advance(&self, answers: Vec<ToolAnswer>) -> BoxFuture<'_, Result<ExecutorStep, ServiceError>> {
        Box::pin(async move {
            let started = self.started()?;
            // Without answers, a resumed script only repeats its earlier steps, and can still be refused.
            let has_answers = !answers.is_empty();
            let step = Service::blocking(move || {
                let step = started.advance(answers, None);
                (step, started.has_only_repeated())
            });
            let (step, has_only_repeated) = step.await?;
            let executed = match step.map_err(advance_error) {
                Ok(Step::NeedsTools(calls)) => {
                    let calls_bytes: usize = calls.iter().map(ToolRequest::suspended_bytes).sum();
                    self.calls_bytes.store(calls_bytes, Ordering::Relaxed);
                    if has_answers {
                        self.end_resumption(false).await?;
                    }
                    return Ok(ExecutorStep::NeedsTools { calls, reply_room: None });
                }
                // Only a wait with a time limit can return `Running`.
                Ok(Step::Running) => return Err(ServiceError::Panicked),
                Err(error) if error.is_answer_error() => return Err(error),
                Ok(Step::Done(execution)) => Ok(execution),
                Err(error) => Err(error),
            };
            self.has_only_repeated.store(has_only_repeated, Ordering::Relaxed);
            let is_undone = has_only_repeated || self.is_refused.load(Ordering::Relaxed);
            self.end_resumption(is_undone).await?;
            // Drop the handle first: the handle shares the execution, which would otherwise be copied.
            drop(self.started.lock().take());
            let finish = self.finish.lock().take();
            let (finish, span) = (finish.ok_or(ServiceError::Panicked)?, Span::current());
            let finish = move || span.in_scope(|| finish(executed.map(Arc::unwrap_or_clone), is_undone));
            let finished = Service::blocking(finish).await?;
            Ok(ExecutorStep::Done(Box::new(finished)))
        })
    }

    fn state_before_bytes(&self) -> BoxFuture<'_, Result<Option<u64>, ServiceError>> {
        Box::pin(async move {
            if !self.is_in_memory {
                return Ok(None);
            }
            let started = self.started()?;
            let measured = Service::blocking(move || started.state_before_bytes()).await?;
            measured.map_err(|error| not_suspendable(&SuspendError::Session(Arc::new(error))))
        })
    }

    fn refuse_resumption(&self) {
        self.is_refused.store(true, Ordering::Relaxed);
    }

    fn has_only_repeated(&self) -> bool {
        self.has_only_repeated.load(Ordering::Relaxed)
    }

    fn suspend(&self, _: usize) -> BoxFuture<'_, Result<Vec<u8>, ServiceError>> {
        Box::pin(async move {
            let (started, key) = (self.started()?, self.key.clone());
            let max_calls_bytes = self.calls_bytes.load(Ordering::Relaxed).saturating_add(MAX_LATE_CALLS_BYTES);
            let suspend =
                move || started.suspend_within(max_calls_bytes).map(|suspended| suspended.to_bytes(key.as_ref()));
            Service::blocking(suspend).await?.map_err(|error| not_suspendable(&error))
        })
    }

    fn end_token(&self) -> CancellationToken {
        self.ended.clone()
    }
}

fn advance_error(error: AdvanceError) -> ServiceError {
    match error {
        AdvanceError::Panicked => ServiceError::Panicked,
        error => error.into(),
    }
}

/// Describes the reason in terms of the API: clients do not use the functions that the engine's messages name.
fn not_suspendable(error: &SuspendError) -> ServiceError {
    ServiceError::NotSuspendable(match error {
        SuspendError::NotSuspendable => NOT_STARTED_SUSPENDABLE.to_owned(),
        SuspendError::Running => "the script is not waiting for answers; call `continue` first".to_owned(),
        SuspendError::Ended => "it has ended; read its result with `continue`".to_owned(),
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use glovebox::SuspendRefusal;

    use super::*;

    #[test]
    fn suspension_errors_name_the_next_step_for_clients() {
        for (error, text) in [
            (SuspendError::NotSuspendable, "set it to `true` in the request"),
            (SuspendError::Running, "call `continue` first"),
            (SuspendError::Ended, "read its result with `continue`"),
            (SuspendRefusal::JournalFull.into(), "let it finish"),
        ] {
            let error = not_suspendable(&error);
            assert_eq!((error.code(), error.status()), ("not-suspendable", 409));
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}
