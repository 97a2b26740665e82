//! Suspension of executions as bytes, while they wait for answers to tool calls.

use glovebox::Suspended;
use glovebox_sessions::SessionId;
use tracing::{Instrument as _, Span};

use super::{ChangeResult, SessionTarget, Tenant, stepping::StepwiseExecution, suspended::SuspensionState};
use crate::{
    Service, ServiceError,
    executor::{ExecutorStep, SessionOperation},
};

/// Maximum size of the journal in the bytes of a suspended execution. The engine limits its contents to 1 MiB, and
/// encoding adds at most half of that.
const MAX_JOURNAL_BYTES: usize = 2 << 20;
/// Maximum number of bytes by which a session's state before the execution can exceed its stored state, without the
/// value of `context`. Setting `context` changes a few pages of memory.
const MAX_STATE_GROWTH_BYTES: usize = 256 << 10;
/// Maximum size of the value of `context` in a session's state, per byte of its JSON. The interpreters' objects for
/// short numbers and lists are up to six times as long as the JSON, even when they are compressed.
const MAX_CONTEXT_GROWTH: usize = 8;

impl StepwiseExecution {
    /// Returns an upper bound on the size of the suspended execution in bytes.
    fn max_bytes(&self) -> usize {
        self.script_bytes + self.calls_bytes + MAX_JOURNAL_BYTES
    }
}

impl Tenant {
    /// Turns a suspended execution into bytes and forgets it. [`Script::resumption`](crate::Script::resumption) resumes
    /// it. Calls `reserve` first, with an upper bound on the size of the bytes. Until this method returns, the
    /// execution cannot be resumed or cancelled ([`ServiceError::ExecutionBusy`]). In a session, the bytes contain the
    /// state before the execution, and the session is rolled back as after a cancelled execution. Also returns the
    /// generation of the session after the rollback.
    ///
    /// # Errors
    /// Fails if the execution does not exist, is being resumed by another request, or is not suspendable
    /// ([`Script::suspendable`](crate::Script::suspendable)), or if `reserve` fails. The execution then remains
    /// suspended.
    pub async fn suspend_to_bytes<R: Send + 'static>(
        &self,
        execution: &str,
        reserve: impl FnOnce(usize) -> Result<R, ServiceError>,
    ) -> Result<(ChangeResult<Vec<u8>>, R), ServiceError> {
        self.suspend_reserved(execution, |bytes| std::future::ready(reserve(bytes))).await
    }

    /// Like [`suspend_to_bytes`](Self::suspend_to_bytes), but waits for `reserve`.
    pub(super) async fn suspend_reserved<R: Send + 'static, F: Future<Output = Result<R, ServiceError>>>(
        &self,
        execution: &str,
        reserve: impl FnOnce(usize) -> F,
    ) -> Result<(ChangeResult<Vec<u8>>, R), ServiceError> {
        // If `reserve` fails or the future is dropped, `back` suspends the execution again.
        let back = self.inner.suspended.take_to_suspend(execution).await?;
        let session = match back.state() {
            Some(SuspensionState::Waiting(stepping)) => {
                // Longer bytes cannot be resumed.
                let context_bytes = stepping.context_bytes.saturating_mul(MAX_CONTEXT_GROWTH).min(Suspended::MAX_BYTES);
                stepping.request.session.clone().map(|id| (id, stepping.is_resumed, context_bytes))
            }
            _ => None,
        };
        let state_bytes = match session {
            // The bytes from which the execution was resumed are already counted, and contain the session's state.
            Some((_, true, _)) => MAX_STATE_GROWTH_BYTES,
            Some((id, false, context_bytes)) => {
                let measured = match back.state() {
                    Some(SuspensionState::Waiting(stepping)) => Some(stepping.started.state_before_bytes()),
                    _ => None,
                };
                let measured = match measured {
                    Some(measured) => measured.await?,
                    None => None,
                };
                self.state_bytes(id, measured).await?.saturating_add(context_bytes)
            }
            None => 0,
        };
        let max_bytes = match back.state() {
            Some(SuspensionState::Waiting(stepping)) => stepping.max_bytes().saturating_add(state_bytes),
            _ => return Err(ServiceError::NotSuspendable("it has ended; read its result with `continue`".to_owned())),
        };
        let reserved = reserve(max_bytes).await?;
        let Some((id, SuspensionState::Waiting(stepping))) = back.keep() else { return Err(ServiceError::Panicked) };
        let tenant = self.clone();
        // Runs in a separate task, so that the execution is not lost if the client disconnects.
        let suspend = async move { tenant.to_bytes(id, *stepping, max_bytes).await };
        let suspended = tokio::spawn(suspend.in_current_span()).await;
        let changed = suspended.map_err(|_| {
            self.inner.suspended.forget(execution);
            ServiceError::Panicked
        })??;
        Ok((changed, reserved))
    }

    /// Evicts a session from memory, so that another server with the same store can resume an execution that was
    /// suspended in it. Has no effect if the session is in use or its generation is not `generation`. In that case,
    /// another server can use the session only after a later eviction.
    pub(crate) async fn release_session(&self, id: SessionId, generation: String) {
        let operation = SessionOperation::Hibernate { target: SessionTarget { id, expected: Some(generation) } };
        if self.inner.executor.check_operation(&operation).is_err() {
            return;
        }
        let tenant = self.clone();
        // Runs in a separate task, because the executor must complete the operation even if the client disconnects.
        let release = async move { tenant.inner.executor.session(operation.into()).await };
        let _ = tokio::spawn(release.in_current_span()).await;
    }

    /// Returns the number of bytes to reserve for a session's state before its current execution. `measured` is the
    /// size of that state, if it is known.
    async fn state_bytes(&self, id: SessionId, measured: Option<u64>) -> Result<usize, ServiceError> {
        let bytes = match measured {
            Some(bytes) => bytes,
            // The description contains the size of the state before the execution, because the session is saved after
            // each execution.
            None => self.inner.executor.session(SessionOperation::Describe { id }.into()).await?.session()?.bytes,
        };
        Ok(usize::try_from(bytes).unwrap_or(usize::MAX).saturating_add(MAX_STATE_GROWTH_BYTES))
    }

    /// Turns an execution into at most `max_bytes`, ends it and forgets it. If that fails, suspends it again. The
    /// caller must poll the future to completion.
    async fn to_bytes(
        &self,
        id: String,
        stepping: StepwiseExecution,
        max_bytes: usize,
    ) -> Result<ChangeResult<Vec<u8>>, ServiceError> {
        let bytes = match stepping.started.suspend(max_bytes).await {
            Ok(bytes) => bytes,
            Err(error) => {
                return match self.suspend(id.clone(), stepping, false) {
                    Ok(_) => Err(error),
                    // The service is shutting down, or the execution was cancelled just before. The execution has no
                    // result.
                    Err(cancelled) => {
                        let _ = self.end(*cancelled).await;
                        Err(ServiceError::NoExecution { execution: id })
                    }
                };
            }
        };
        self.inner.suspended.forget(&id);
        stepping.started.end_token().cancelled().await;
        let result = match stepping.started.advance(Vec::new()).await {
            Ok(ExecutorStep::Done(finished)) => *finished,
            // Only a faulty worker reports calls of an execution that has ended.
            Ok(ExecutorStep::NeedsTools { .. }) => Err(ServiceError::WorkerDied),
            Err(error) => Err(error),
        };
        let (tenant, span) = (self.clone(), Span::current());
        let note = move || {
            let StepwiseExecution { request, .. } = stepping;
            // A lost result is not an error, because the bytes can still be resumed.
            let execution = result.as_ref().ok().map(|finished| &finished.execution);
            tenant.record_suspension(&span, request, execution, &bytes);
            ChangeResult { value: bytes, generation: result.ok().and_then(|finished| finished.generation) }
        };
        Service::blocking(note).await
    }
}
