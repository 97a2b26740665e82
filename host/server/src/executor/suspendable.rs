//! A stepwise execution in this process that can be turned into bytes.

use std::sync::{Arc, Mutex, PoisonError};

use glovebox::{Execution, Request, Sandbox, SessionKey, Started, Step, Stream, SuspendError, ToolAnswer};
use glovebox_sessions::ActiveSession;
use tokio_util::sync::CancellationToken;

use super::{Advanced, BoxFuture, Finished, SteppedExecution};
use crate::{OnOutput, Service, ServiceError};

/// A stepwise execution in this process that can be turned into bytes. It has its own thread until the script has
/// ended, and each step waits on a blocking thread.
pub(super) struct SuspendableExecution {
    /// `None` once the result was returned.
    started: Mutex<Option<Arc<Started>>>,
    /// `None` outside a session, and once the result was returned.
    session: Mutex<Option<SessionInUse>>,
    key: Option<SessionKey>,
    ended: CancellationToken,
}

/// The interpreter for a suspendable execution.
pub(super) enum Interpreter<'a> {
    New(&'a Sandbox),
    Session(SessionInUse),
}

/// A stored session during a suspendable execution.
pub(super) struct SessionInUse {
    pub(super) active: ActiveSession,
    /// `true` if the session is in the state before a suspended execution, which is not saved yet.
    pub(super) is_restored: bool,
    /// Returns the session's current generation. Must be called on a thread that is allowed to block.
    pub(super) generation: Box<dyn Fn() -> Option<String> + Send>,
}

impl SessionInUse {
    /// Saves the session after an execution. Must be called on a thread that is allowed to block.
    fn finish(self, execution: Execution) -> Result<Finished, ServiceError> {
        let execution = self.active.save_after(Ok(execution))?;
        Ok(Finished::here(execution, (self.generation)()))
    }
}

impl SuspendableExecution {
    /// Starts a suspendable request. `key` seals the bytes of the suspended execution. Must be called on a thread that
    /// is allowed to block.
    pub(super) fn start(
        interpreter: Interpreter<'_>,
        request: Request<'_>,
        mut on_output: Option<OnOutput>,
        key: Option<SessionKey>,
    ) -> Result<Self, ServiceError> {
        let ended = CancellationToken::new();
        // The execution drops its listener at its end.
        let guard = ended.clone().drop_guard();
        let request = request.on_output(move |stream: Stream, bytes: &[u8]| {
            let _ = &guard;
            if let Some(on_output) = &mut on_output {
                on_output(stream, bytes);
            }
        });
        let (started, session) = match interpreter {
            Interpreter::New(sandbox) => (sandbox.start(request)?, None),
            Interpreter::Session(session) => match session.active.start(request) {
                Ok(started) => (started, Some(session)),
                Err(error) => {
                    // The restored state is already in use, so the session needs a new generation. Ignores errors,
                    // because the result is an error already.
                    if session.is_restored {
                        let _ = session.active.save();
                    }
                    return Err(error.into());
                }
            },
        };
        Ok(Self { started: Mutex::new(Some(Arc::new(started))), session: Mutex::new(session), key, ended })
    }

    fn started(&self) -> Result<Arc<Started>, ServiceError> {
        let started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        started.clone().ok_or(ServiceError::Panicked)
    }

    /// Returns the session when the execution has ended.
    fn take_session(&self) -> Option<SessionInUse> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns the result of an execution. Saves its session first.
    async fn finished(&self, execution: Arc<Execution>) -> Result<Finished, ServiceError> {
        // Drop the handle first: it shares the execution, which would otherwise be copied.
        drop(self.started.lock().unwrap_or_else(PoisonError::into_inner).take());
        let execution = Arc::unwrap_or_clone(execution);
        match self.take_session() {
            Some(session) => Service::blocking(move || session.finish(execution)).await?,
            None => Ok(Finished::here(execution, None)),
        }
    }

    /// Saves the session of an execution that failed: the script can have run, for example if its files could not be
    /// written to a host directory. Ignores errors, because the result is an error already.
    async fn save_session(&self) {
        if let Some(session) = self.take_session() {
            let _ = Service::blocking(move || session.active.save()).await;
        }
    }
}

impl Drop for SuspendableExecution {
    fn drop(&mut self) {
        // A step that is still waiting holds the handle, so dropping it here does not cancel the execution.
        if let Some(started) = self.started.get_mut().unwrap_or_else(PoisonError::into_inner) {
            started.cancel();
        }
    }
}

impl SteppedExecution for SuspendableExecution {
    fn advance(&self, answers: Vec<ToolAnswer>) -> BoxFuture<'_, Result<Advanced, ServiceError>> {
        Box::pin(async move {
            let started = self.started()?;
            let step = Service::blocking(move || started.advance(answers, None)).await?;
            match step.map_err(ServiceError::from) {
                Ok(Step::NeedsTools(calls)) => Ok(Advanced::NeedsTools { calls, reply_room: None }),
                Ok(Step::Done(execution)) => Ok(Advanced::Done(Box::new(self.finished(execution).await))),
                // Only a wait with a time limit ends while the script runs.
                Ok(Step::Running) => Err(ServiceError::Panicked),
                Err(error) if error.is_answer_error() => Err(error),
                Err(error) => {
                    self.save_session().await;
                    Ok(Advanced::Done(Box::new(Err(error))))
                }
            }
        })
    }

    fn suspend(&self) -> BoxFuture<'_, Result<Vec<u8>, ServiceError>> {
        Box::pin(async move {
            let (started, key) = (self.started()?, self.key.clone());
            let suspend = move || started.suspend().map(|suspended| suspended.to_bytes(key.as_ref()));
            Service::blocking(suspend).await?.map_err(|error| not_suspendable(&error))
        })
    }

    fn ended(&self) -> CancellationToken {
        self.ended.clone()
    }
}

/// Describes the reason for a client, which does not use the functions that the engine's messages name.
fn not_suspendable(error: &SuspendError) -> ServiceError {
    ServiceError::NotSuspendable(match error {
        SuspendError::Running => "the script does not wait for answers; call `continue` first".to_owned(),
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
