//! Stepwise executions: the client answers the script's tool calls.

use std::{sync::Arc, time::Duration};

use glovebox::{ToolAnswer, ToolRequest};
use glovebox_sessions::SessionId;
use tracing::Span;

use super::{
    Tenant, Watch, Work,
    executing::{CancelOnDrop, unless_cancelled},
    suspended::{Ended, Output, Stepping, SuspensionState, Undelivered},
};
use crate::{
    Door, Service, ServiceError,
    byte_budget::Room,
    executor::{Advanced, Finished, Job},
    service::ExecutionPermit,
};

/// Maximum time to wait for the end of a cancelled execution.
const END_TIME: Duration = Duration::from_secs(5);

/// The state of an execution after a step.
#[derive(Debug)]
pub enum Stepped<T> {
    /// The execution has finished.
    Done(T),
    /// The execution is suspended until its tool calls are answered.
    NeedsTools(NeedsTools),
}

/// A suspended execution and its unanswered tool calls.
#[derive(Debug)]
pub struct NeedsTools {
    /// ID of the execution, for [`Tenant::go_on_then`].
    pub execution: String,
    /// The tool calls to answer.
    pub calls: Vec<ToolRequest>,
    /// The timeout for the answers, after which the execution is cancelled.
    pub expires_after: Duration,
    /// The memory reserved for the calls if a worker sent them. Must be held until memory is reserved for the response.
    pub(crate) reply_room: Option<Room>,
}

impl Tenant {
    /// Starts a script whose tool calls the client answers ([`Tool::stepped`](glovebox::Tool::stepped)). Returns when
    /// the script has finished or needs answers. Maps the result of a finished script with `then`, which runs on a
    /// blocking thread.
    ///
    /// # Errors
    /// Fails if the script cannot be run or `then` fails. An exception raised by the script is part of the result.
    pub async fn start_then<T: Send + 'static>(
        &self,
        door: Door,
        mut work: Work,
        return_files: Vec<String>,
        watch: Watch,
        then: impl FnOnce(Ended) -> Result<T, Undelivered> + Send + 'static,
    ) -> Result<Stepped<T>, ServiceError> {
        let admitted = async {
            if let Some(refusal) = self.inner.executor.refusal_of(&work, true) {
                return Err(refusal);
            }
            work.script().offer(self.callbacks())?;
            self.check_rate()?;
            self.admit_stepped(work.session()).await
        };
        let admitted = unless_cancelled(watch.cancel.as_ref(), admitted);
        let (suspended, held) = admitted.await.inspect_err(|error| self.refused(door, error))?;
        let (tenant, cancel) = (self.clone(), self.inner.service.token());
        let guard = CancelOnDrop(cancel.clone());
        let cancelled = cancel.clone();
        let _hook = watch.cancel.as_ref().map(|cancel| cancel.on_cancel(move || cancelled.cancel()));
        let id = watch.execution.unwrap_or_else(|| SessionId::random().to_string());
        let span = Span::current();
        let stepped = Service::blocking(move || {
            let output = Output::default();
            output.set(watch.on_output);
            let asked = tenant.audited_request(door, &mut work);
            let job = Job { work, cancel: cancel.clone(), on_output: Some(output.listener()), span: span.clone() };
            let started = match tenant.inner.executor.start(job) {
                Ok(started) => started,
                Err(error) => {
                    tenant.note(&span, asked, Err(&error));
                    return Err(error);
                }
            };
            let (own, turn, place) = held.into_parts();
            let stepping = Stepping {
                started,
                output,
                cancel,
                asked,
                return_files,
                suspended: Arc::new(suspended),
                _own: own,
                _turn: turn,
            };
            tenant.step(id, stepping, Vec::new(), place, then)
        })
        .await??;
        guard.disarm_if(matches!(stepped, Stepped::NeedsTools(_)));
        Ok(stepped)
    }

    /// Answers tool calls of a suspended execution and resumes it. Returns when it has finished or needs further
    /// answers.
    ///
    /// # Errors
    /// Fails if the service is shutting down or does not admit the execution, or if another request is resuming it.
    /// Also fails if the execution does not exist, if an answer is invalid, or if `then` fails.
    ///
    /// The call can be repeated if admission failed or an answer is invalid, because the execution stays suspended. It
    /// can also be repeated if `then` failed with [`Undelivered::NoRoom`].
    pub async fn go_on_then<T: Send + 'static>(
        &self,
        execution: &str,
        answers: Vec<ToolAnswer>,
        watch: Watch,
        then: impl FnOnce(Ended) -> Result<T, Undelivered> + Send + 'static,
    ) -> Result<Stepped<T>, ServiceError> {
        if self.inner.service.is_draining() {
            return Err(ServiceError::Draining);
        }
        let back = self.inner.suspended.take(execution).await?;
        // If admission fails or the future is dropped, `back` suspends the execution again.
        let place = self.inner.service.admit(self.name()).await?;
        let tenant = self.clone();
        let (id, stepping) = match back.keep() {
            Some((id, SuspensionState::Waiting(stepping))) => (id, *stepping),
            Some((id, SuspensionState::Ended(unread))) => {
                let (executions, named) = (self.inner.suspended.clone(), id.clone());
                let read = move || {
                    let _place = place;
                    executions.read(&named, *unread, then)
                };
                let read = Service::blocking(read).await.inspect_err(|_| self.inner.suspended.forget(&id));
                return read?.map(Stepped::Done);
            }
            Some((_, SuspensionState::Busy | SuspensionState::Fetching)) | None => return Err(ServiceError::Panicked),
        };
        let guard = CancelOnDrop(stepping.cancel.clone());
        let cancelled = stepping.cancel.clone();
        let _hook = watch.cancel.as_ref().map(|cancel| cancel.on_cancel(move || cancelled.cancel()));
        let stepped = Service::blocking(move || {
            stepping.output.set(watch.on_output);
            tenant.step(id, stepping, answers, place, then)
        })
        .await?;
        let goes_on = match &stepped {
            Ok(Stepped::Done(_)) => false,
            Ok(Stepped::NeedsTools(_)) => true,
            Err(error) => error.is_about_an_answer(),
        };
        guard.disarm_if(goes_on);
        stepped
    }

    /// Cancels an execution. If it is suspended, waits for its end and maps its result with `then`, on a blocking
    /// thread. If it has already ended, maps its unread result. Returns `None` if another request is waiting for the
    /// execution and receives its result.
    ///
    /// # Errors
    /// Fails if the execution does not exist, or if `then` fails. If `then` failed with [`Undelivered::NoRoom`], the
    /// call can be repeated within a minute.
    pub async fn cancel_then<T: Send + 'static>(
        &self,
        execution: &str,
        then: impl FnOnce(Ended) -> Result<T, Undelivered> + Send + 'static,
    ) -> Result<Option<T>, ServiceError> {
        // First, so that a running execution is not suspended after the check below.
        let is_running = self.inner.running.cancel(execution);
        let state = match self.inner.suspended.cancel(execution).await {
            Err(ServiceError::NoExecution { .. }) if is_running => return Ok(None),
            state => state?,
        };
        let (tenant, id) = (self.clone(), execution.to_owned());
        let end = move || -> Result<Option<T>, ServiceError> {
            Ok(match state {
                SuspensionState::Waiting(stepping) => Some(then(tenant.end(*stepping)?)?),
                SuspensionState::Ended(unread) => Some(tenant.inner.suspended.read(&id, *unread, then)?),
                SuspensionState::Busy | SuspensionState::Fetching => None,
            })
        };
        Service::blocking(end).await.inspect_err(|_| self.inner.suspended.forget(execution))?
    }

    /// Advances the execution until it has finished or needs answers. Must be called on a blocking thread.
    fn step<T>(
        &self,
        id: String,
        stepping: Stepping,
        answers: Vec<ToolAnswer>,
        place: ExecutionPermit,
        then: impl FnOnce(Ended) -> Result<T, Undelivered>,
    ) -> Result<Stepped<T>, ServiceError> {
        let result = stepping.started.advance(answers, None);
        stepping.output.set(None);
        // A suspended execution does not keep its permit to run.
        drop(place);
        match result {
            Ok(Advanced::Done(finished)) => {
                self.inner.suspended.forget(&id);
                Ok(Stepped::Done(then(self.finish(stepping, *finished)?)?))
            }
            Ok(Advanced::NeedsTools { calls, reply_room }) => match self.suspend(id.clone(), stepping, true) {
                Ok(expires_after) => {
                    Ok(Stepped::NeedsTools(NeedsTools { execution: id, calls, expires_after, reply_room }))
                }
                // The script is about to end, so its calls need no answers.
                Err(cancelled) => Ok(Stepped::Done(then(self.end(*cancelled)?)?)),
            },
            // `advance` returns this only with a timeout.
            Ok(Advanced::Running) => Err(ServiceError::Panicked),
            Err(error) if error.is_about_an_answer() => match self.suspend(id, stepping, false) {
                Ok(_) => Err(error),
                Err(cancelled) => Ok(Stepped::Done(then(self.end(*cancelled)?)?)),
            },
            Err(error) => {
                self.inner.suspended.forget(&id);
                Ok(Stepped::Done(then(self.finish(stepping, Err(error))?)?))
            }
        }
    }
}

impl Tenant {
    /// Cancels an execution and waits for its end. Must be called on a blocking thread.
    pub(super) fn end(&self, stepping: Stepping) -> Result<Ended, ServiceError> {
        stepping.cancel.cancel();
        self.result(stepping, END_TIME)
    }

    /// Waits up to `wait` for an execution that has ended or is about to end, and returns its result.
    pub(super) fn result(&self, stepping: Stepping, wait: Duration) -> Result<Ended, ServiceError> {
        let end = std::time::Instant::now() + wait;
        loop {
            let left = end.saturating_duration_since(std::time::Instant::now());
            match stepping.started.advance(Vec::new(), Some(left)) {
                Ok(Advanced::Done(finished)) => return self.finish(stepping, *finished),
                Err(error) => return self.finish(stepping, Err(error)),
                Ok(_) if left.is_zero() => return Err(ServiceError::Panicked),
                // While calls are unanswered, `advance` returns immediately.
                Ok(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// Records the end of an execution in metrics, the audit log and the current span.
    fn finish(&self, stepping: Stepping, result: Result<Finished, ServiceError>) -> Result<Ended, ServiceError> {
        let Stepping { asked, return_files, .. } = stepping;
        self.note(&Span::current(), asked, result.as_ref().map(|finished| &finished.execution));
        Ok(Ended { finished: result?, return_files, charged: None })
    }
}
