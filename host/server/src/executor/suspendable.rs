//! A stepwise execution in this process that can be turned into bytes.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use glovebox::{AdvanceError, Request, Sandbox, SessionKey, Started, Step, Stream, SuspendError, ToolAnswer};
use tokio_util::sync::CancellationToken;

use super::{Advanced, Finished, SteppedExecution};
use crate::{OnOutput, Service, ServiceError};

/// A stepwise execution in this process that can be turned into bytes. It has its own thread until the script has
/// ended, and each step waits on a blocking thread.
pub(super) struct SuspendableExecution {
    /// `None` once the result was returned.
    started: Mutex<Option<Arc<Started>>>,
    key: Option<SessionKey>,
    ended: CancellationToken,
}

impl SuspendableExecution {
    /// Starts a suspendable request. `key` seals the bytes of the suspended execution.
    pub(super) fn start(
        sandbox: &Sandbox,
        request: Request<'_>,
        mut on_output: Option<OnOutput>,
        key: Option<SessionKey>,
    ) -> Result<Self, ServiceError> {
        let ended = CancellationToken::new();
        // The execution drops its listener at its end.
        let guard = ended.clone().drop_guard();
        let started = sandbox.start(request.on_output(move |stream: Stream, bytes: &[u8]| {
            let _ = &guard;
            if let Some(on_output) = &mut on_output {
                on_output(stream, bytes);
            }
        }))?;
        Ok(Self { started: Mutex::new(Some(Arc::new(started))), key, ended })
    }

    fn started(&self) -> Result<Arc<Started>, ServiceError> {
        let started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        started.clone().ok_or(ServiceError::Panicked)
    }

    /// Returns the result of a step.
    fn advanced(&self, step: Result<Step, AdvanceError>) -> Result<Advanced, ServiceError> {
        match step.map_err(ServiceError::from) {
            Ok(Step::NeedsTools(calls)) => Ok(Advanced::NeedsTools { calls, reply_room: None }),
            Ok(Step::Done(execution)) => {
                // Drop the handle first: it shares the execution, which would otherwise be copied.
                drop(self.started.lock().unwrap_or_else(PoisonError::into_inner).take());
                Ok(Advanced::Done(Box::new(Ok(Finished::here(Arc::unwrap_or_clone(execution), None)))))
            }
            // Only a wait with a time limit ends while the script runs.
            Ok(Step::Running) => Err(ServiceError::Panicked),
            Err(error) if error.is_answer_error() => Err(error),
            Err(error) => Ok(Advanced::Done(Box::new(Err(error)))),
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

#[async_trait]
impl SteppedExecution for SuspendableExecution {
    async fn advance(&self, answers: Vec<ToolAnswer>) -> Result<Advanced, ServiceError> {
        let started = self.started()?;
        let step = Service::blocking(move || started.advance(answers, None)).await?;
        self.advanced(step)
    }

    async fn suspend(&self) -> Result<Vec<u8>, ServiceError> {
        let (started, key) = (self.started()?, self.key.clone());
        let suspend = move || started.suspend().map(|suspended| suspended.to_bytes(key.as_ref()));
        Service::blocking(suspend).await?.map_err(|error| not_suspendable(&error))
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
    fn refusals_name_what_a_client_can_do() {
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
