//! Stepwise executions: the client answers the script's tool calls.

use std::{sync::Arc, time::Duration};

use glovebox::{CancelToken, Execution, Stream, ToolAnswer, ToolOutcome, ToolRecord, ToolRequest};
use glovebox_sessions::SessionId;
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit};
use tracing::{Instrument as _, Span};

use super::{
    OnOutput, Tenant, Watch, Work,
    answering::{REPEAT_AFTER, answer_repeatedly},
    execute::{AuditedRequest, CancelOnDrop},
    stored_executions::Claim,
    suspended::SuspensionState,
};
use crate::{
    Door, Service, ServiceError,
    byte_budget::{ChargedBytes, Room},
    executor::{ExecutorStep, FinishedJob, Job, SteppedExecution},
    service::ExecutionPermit,
};

/// Maximum length of the texts in a result that is mapped on an async thread, in bytes. Mapping a longer result would
/// delay other requests.
const MAX_SHORT_BYTES: usize = 16 << 10;

/// The state of an execution after a step.
#[derive(Debug)]
pub enum StepOutcome<T> {
    /// The execution has finished.
    Done(T),
    /// The execution is suspended until its tool calls are answered.
    NeedsTools(NeedsTools),
}

/// A suspended execution and its unanswered tool calls.
#[derive(Debug)]
pub struct NeedsTools {
    /// ID of the execution, for [`Tenant::resume_then`].
    pub execution: String,
    /// The tool calls to answer.
    pub calls: Vec<ToolRequest>,
    /// The timeout for the answers, after which the execution is cancelled.
    pub expires_after: Duration,
    /// The memory reserved for the calls if a worker sent them. Must be held until memory is reserved for the response.
    pub(crate) reply_room: Option<Room>,
}

/// A finished execution.
#[derive(Debug)]
pub struct FinishedExecution {
    pub(crate) finished: FinishedJob,
    /// Patterns of the workspace files to return, as given when the execution was started.
    pub return_files: Vec<String>,
    /// The memory charged for a result that was unread.
    pub(crate) charged: Option<ChargedBytes>,
}

impl FinishedExecution {
    /// Returns the outcome, output and usage of the execution.
    pub fn execution(&self) -> &Execution {
        &self.finished.execution
    }
}

/// The error of a callback that maps the result of an execution.
#[derive(Debug)]
pub enum DeliveryError {
    /// The callback failed.
    Failed(ServiceError),
    /// There is no memory for the response with an unread result. The client can request the result again.
    NoRoom(Box<FinishedExecution>),
}

impl From<ServiceError> for DeliveryError {
    fn from(error: ServiceError) -> Self {
        Self::Failed(error)
    }
}

impl From<DeliveryError> for ServiceError {
    fn from(error: DeliveryError) -> Self {
        match error {
            DeliveryError::Failed(error) => error,
            DeliveryError::NoRoom(_) => Self::NoRoom,
        }
    }
}

/// The output callback. Each step replaces it.
#[derive(Clone, Default)]
pub(super) struct Output(Arc<tokio::sync::Mutex<Option<OnOutput>>>);

impl Output {
    /// Replaces the callback, after any call in progress has returned. A script that polls for its tools can print
    /// while a step ends, so a call that waits for a slow client can be in progress.
    pub(super) async fn set(&self, on_output: Option<OnOutput>) {
        *self.0.lock().await = on_output;
    }

    /// Returns a callback that forwards output to the current one. Must be called on a blocking thread.
    pub(super) fn listener(&self) -> OnOutput {
        let output = self.clone();
        Box::new(move |stream: Stream, bytes: &[u8]| {
            if let Some(on_output) = &mut *output.0.blocking_lock() {
                on_output(stream, bytes);
            }
        })
    }
}

/// A stepwise execution, suspended or running, and the resources that it holds.
pub(super) struct StepwiseExecution {
    pub(super) started: Box<dyn SteppedExecution>,
    pub(super) output: Output,
    pub(super) cancel: CancelToken,
    pub(super) request: AuditedRequest,
    pub(super) return_files: Vec<String>,
    /// The size of the script and its input, which are part of a suspended execution's bytes. For a resumed execution,
    /// the size of the bytes from which it was resumed, which also contain the state of its session.
    pub(super) script_bytes: usize,
    /// The size of the value of `context`, which is part of the state of a session.
    pub(super) context_bytes: usize,
    pub(super) is_resumed: bool,
    /// The size of the unanswered calls, in bytes.
    pub(super) calls_bytes: usize,
    /// The tenant's and the service's permits for a suspended execution.
    pub(super) suspended: Arc<[OwnedSemaphorePermit; 2]>,
    pub(super) _own: OwnedSemaphorePermit,
    pub(super) _turn: Option<OwnedMutexGuard<()>>,
}

impl Tenant {
    /// Starts a script whose tool calls the client answers ([`Tool::stepped`](glovebox::Tool::stepped)). Returns when
    /// the script has finished or needs answers. Maps the result of a finished script with `then`, on a blocking thread
    /// unless the result is short.
    ///
    /// # Errors
    /// Fails if the script cannot be run or `then` fails. An exception raised by the script is part of the result.
    pub async fn start_then<T: Send + 'static>(
        &self,
        door: Door,
        work: Work,
        return_files: Vec<String>,
        watch: Watch,
        then: impl FnOnce(FinishedExecution) -> Result<T, DeliveryError> + Send + 'static,
    ) -> Result<StepOutcome<T>, ServiceError> {
        self.start_claimed(door, work, return_files, watch, None, then).await
    }

    /// Like [`start_then`](Self::start_then), but resumes a stored execution. Claims the execution after the script has
    /// repeated its earlier steps, so that the client can retry a request that fails before the claim. If the claim
    /// fails, the script receives no answer.
    pub(crate) async fn start_claimed<T: Send + 'static>(
        &self,
        door: Door,
        mut work: Work,
        return_files: Vec<String>,
        watch: Watch,
        claim: Option<Claim>,
        then: impl FnOnce(FinishedExecution) -> Result<T, DeliveryError> + Send + 'static,
    ) -> Result<StepOutcome<T>, ServiceError> {
        let (session, is_remote) = (work.session().cloned(), self.is_remote(&work));
        let permits = self.admit_stepped(session.as_ref());
        let (suspended, held) = self.admit_work(door, &mut work, watch.cancel.as_ref(), true, permits).await?;
        let claim = match claim {
            // Starting the script replaces the state of its session. Fail before that if another request has resumed
            // the execution while this request waited.
            Some(claim) => Some(Service::blocking(move || claim.checked(is_remote)).await??),
            None => None,
        };
        let (tenant, cancel) = (self.clone(), self.inner.service.token());
        let guard = CancelOnDrop(cancel.clone());
        let cancelled = cancel.clone();
        let Watch { on_output, cancel: stop, execution } = watch;
        let _hook = stop.as_ref().map(|stop| stop.on_cancel(move || cancelled.cancel()));
        let id = execution.unwrap_or_else(|| SessionId::random().to_string());
        // Runs in a separate task, so that the step completes and is recorded even if the client disconnects.
        let step = async move {
            let output = Output::default();
            output.set(on_output).await;
            let is_resumed = work.resumption().is_some();
            let (script_bytes, context_bytes) = (work.bytes(), work.context_bytes());
            // A fleet's nodes pass the answers in a request to the script. A stored execution must be claimed before
            // that, so the first request contains no answers. A node then only repeats the earlier steps, and suspends
            // the execution again.
            let answers = if is_remote && claim.is_none() { Vec::new() } else { work.take_answers() };
            let can_be_unanswered = is_remote && claim.is_some();
            let (request, work) = tenant.audited_work(door, work).await?;
            let (listener, span) = (Some(output.listener()), Span::current());
            let job = Job { work, cancel: cancel.clone(), on_output: listener, span };
            let started = match tenant.inner.executor.start(job).await {
                Ok(started) => started,
                Err(error) => {
                    tenant.record_result(&Span::current(), request, Err(&error));
                    return Err(error);
                }
            };
            let (own, turn, permit) = held.into_parts();
            let stepping = StepwiseExecution {
                started,
                output,
                cancel,
                request,
                return_files,
                script_bytes,
                context_bytes,
                is_resumed,
                calls_bytes: 0,
                suspended: Arc::new(suspended),
                _own: own,
                _turn: turn,
            };
            let mut advanced = stepping.started.advance(Vec::new()).await;
            // A script that did not continue can be resumed again, so it stays stored.
            if let Some(claim) = claim
                && advanced.is_ok()
                && !stepping.started.has_only_repeated()
                && let Err(error) = Service::blocking(move || claim.take()).await.flatten()
            {
                stepping.output.set(None).await;
                stepping.started.refuse_resumption();
                let _ = match advanced {
                    Ok(ExecutorStep::Done(finished)) => tenant.finish(stepping, *finished),
                    _ => {
                        // A script that is only cancelled can make calls while it handles the exception. Suspend it
                        // first, because only the request with the claim may continue the script. The bytes are not
                        // needed.
                        let _ = stepping.started.suspend(0).await;
                        tenant.end(stepping).await
                    }
                };
                return Err(error);
            }
            // A resumed script repeats its earlier steps until it waits for its unanswered calls again.
            if !answers.is_empty() && matches!(advanced, Ok(ExecutorStep::NeedsTools { .. })) {
                let answered = match can_be_unanswered {
                    true => answer_repeatedly(&*stepping.started, &stepping.cancel, answers, &REPEAT_AFTER).await,
                    false => stepping.started.advance(answers).await,
                };
                advanced = match answered {
                    // The client can resume the execution from the same bytes with other answers.
                    Err(error) if error.is_answer_error() => {
                        stepping.output.set(None).await;
                        stepping.started.refuse_resumption();
                        let _ = tenant.end(stepping).await;
                        return Err(error);
                    }
                    answered => answered,
                };
            }
            tenant.after_step(id, stepping, advanced, permit, then).await
        };
        let stepped = tokio::spawn(step.in_current_span()).await.map_err(|_| ServiceError::Panicked)??;
        guard.disarm_if(matches!(stepped, StepOutcome::NeedsTools(_)));
        Ok(stepped)
    }

    /// Answers tool calls of a suspended execution and resumes it. Returns when it has finished or needs further
    /// answers.
    ///
    /// # Errors
    /// Fails if the service is shutting down or does not admit the execution, or if another request is resuming it.
    /// Also fails if the execution does not exist, if an answer is invalid, or if `then` fails.
    ///
    /// The call can be retried if admission failed or an answer is invalid, because the execution stays suspended. It
    /// can also be retried after [`ServiceError::StepUnanswered`], and if `then` failed with [`DeliveryError::NoRoom`].
    pub async fn resume_then<T: Send + 'static>(
        &self,
        execution: &str,
        answers: Vec<ToolAnswer>,
        watch: Watch,
        then: impl FnOnce(FinishedExecution) -> Result<T, DeliveryError> + Send + 'static,
    ) -> Result<StepOutcome<T>, ServiceError> {
        if self.inner.service.is_draining() {
            return Err(ServiceError::Draining);
        }
        let back = self.inner.suspended.take(execution).await?;
        // If admission fails or the future is dropped, `back` suspends the execution again.
        let in_session = match back.state() {
            Some(SuspensionState::Waiting(stepping)) => stepping.request.session.is_some(),
            _ => false,
        };
        let permit = self.execution_permit(in_session).await?;
        let tenant = self.clone();
        let (id, stepping) = match back.keep() {
            Some((id, SuspensionState::Waiting(stepping))) => (id, *stepping),
            Some((id, SuspensionState::Ended(unread))) => {
                let (executions, named) = (self.inner.suspended.clone(), id.clone());
                let read = move || {
                    let _permit = permit;
                    executions.read(&named, *unread, then)
                };
                let read = Service::blocking(read).await.inspect_err(|_| self.inner.suspended.forget(&id));
                return read?.map(StepOutcome::Done);
            }
            _ => return Err(ServiceError::Panicked),
        };
        let guard = CancelOnDrop(stepping.cancel.clone());
        let cancelled = stepping.cancel.clone();
        let Watch { on_output, cancel: stop, .. } = watch;
        let _hook = stop.as_ref().map(|stop| stop.on_cancel(move || cancelled.cancel()));
        let step = async move {
            stepping.output.set(on_output).await;
            let advanced = stepping.started.advance(answers).await;
            tenant.after_step(id, stepping, advanced, permit, then).await
        };
        let stepped = tokio::spawn(step.in_current_span()).await.map_err(|_| ServiceError::Panicked)?;
        let is_suspended = match &stepped {
            Ok(StepOutcome::Done(_)) => false,
            Ok(StepOutcome::NeedsTools(_)) => true,
            Err(error) => error.is_still_waiting(),
        };
        guard.disarm_if(is_suspended);
        stepped
    }

    /// Cancels an execution. If it is suspended, waits for its end and maps its result with `then`, on a blocking
    /// thread. If it has already ended, maps its unread result. Returns `None` if another request is waiting for the
    /// execution and receives its result.
    ///
    /// # Errors
    /// Fails if the execution does not exist, or if `then` fails. If `then` failed with [`DeliveryError::NoRoom`], the
    /// call can be retried within a minute.
    pub async fn cancel_then<T: Send + 'static>(
        &self,
        execution: &str,
        then: impl FnOnce(FinishedExecution) -> Result<T, DeliveryError> + Send + 'static,
    ) -> Result<Option<T>, ServiceError> {
        // Cancel a running execution first, so that it is not suspended after the check below.
        let is_running = self.inner.running.cancel(execution);
        let state = match self.inner.suspended.cancel(execution).await {
            Err(ServiceError::NoExecution { .. }) if is_running => return Ok(None),
            state => state?,
        };
        let id = execution.to_owned();
        let ended = match state {
            SuspensionState::Waiting(stepping) => {
                let tenant = self.clone();
                // Runs in a separate task, so that the end is recorded even if the client disconnects.
                let end = async move { tenant.end(*stepping).await };
                tokio::spawn(end.in_current_span()).await.map_err(|_| ServiceError::Panicked)??
            }
            SuspensionState::Ended(unread) => {
                let executions = self.inner.suspended.clone();
                let read = Service::blocking(move || executions.read(&id, *unread, then)).await;
                return read.inspect_err(|_| self.inner.suspended.forget(execution))?.map(Some);
            }
            SuspensionState::Busy | SuspensionState::Suspending | SuspensionState::Fetching => return Ok(None),
        };
        Ok(Some(Service::blocking(move || then(ended)).await??))
    }

    /// Suspends an execution after a step, or maps its result. The caller must poll the future to completion.
    async fn after_step<T: Send + 'static>(
        &self,
        id: String,
        mut stepping: StepwiseExecution,
        advanced: Result<ExecutorStep, ServiceError>,
        permit: ExecutionPermit,
        then: impl FnOnce(FinishedExecution) -> Result<T, DeliveryError> + Send + 'static,
    ) -> Result<StepOutcome<T>, ServiceError> {
        stepping.output.set(None).await;
        // A suspended execution does not keep its permit to run.
        drop(permit);
        let ended = match advanced {
            Ok(ExecutorStep::Done(finished)) => {
                self.inner.suspended.forget(&id);
                self.finish(stepping, *finished)?
            }
            Ok(ExecutorStep::NeedsTools { calls, reply_room }) => {
                stepping.calls_bytes = calls.iter().map(|call| call.name.len() + call.arguments.len()).sum();
                match self.suspend(id.clone(), stepping, true) {
                    Ok(expires_after) => {
                        let needs = NeedsTools { execution: id, calls, expires_after, reply_room };
                        return Ok(StepOutcome::NeedsTools(needs));
                    }
                    // The script is about to end, so its calls need no answers.
                    Err(cancelled) => self.end(*cancelled).await?,
                }
            }
            Err(error) if error.is_still_waiting() => match self.suspend(id, stepping, !error.is_answer_error()) {
                Ok(_) => return Err(error),
                Err(cancelled) => self.end(*cancelled).await?,
            },
            Err(error) => {
                self.inner.suspended.forget(&id);
                self.finish(stepping, Err(error))?
            }
        };
        let mapped = if is_short(&ended) { then(ended) } else { Service::blocking(move || then(ended)).await? };
        Ok(StepOutcome::Done(mapped?))
    }
}

/// Returns `true` if mapping a result takes little time: it contains no long texts, and no files have to be read.
fn is_short(ended: &FinishedExecution) -> bool {
    let Execution { outcome, interrupted, value, stdout, stderr, displays, .. } = ended.execution();
    let Execution { files_created, files_modified, files_deleted, tool_calls, .. } = ended.execution();
    let raised = outcome.raised().into_iter().chain(interrupted);
    let raised = raised.map(|it| it.type_name.len() + it.message.len() + it.traceback.len()).sum::<usize>();
    let value = value.as_ref().map_or(0, |value| value.repr.len() + value.json.as_ref().map_or(0, String::len));
    let paths = [files_created, files_modified, files_deleted].into_iter().flatten().map(String::len);
    let texts = tool_calls.iter().map(record_len).chain(paths).sum::<usize>();
    let len = raised + value + stdout.bytes.len() + stderr.bytes.len() + texts;
    len <= MAX_SHORT_BYTES && displays.is_empty() && ended.return_files.is_empty()
}

fn record_len(record: &ToolRecord) -> usize {
    let answer = match &record.outcome {
        ToolOutcome::Returned(text) | ToolOutcome::Failed { message: text, .. } => text.as_deref(),
        ToolOutcome::Unfinished => None,
    };
    record.arguments.as_deref().into_iter().chain(answer).map(str::len).sum()
}

impl Tenant {
    /// Cancels an execution and waits for its end.
    pub(super) async fn end(&self, stepping: StepwiseExecution) -> Result<FinishedExecution, ServiceError> {
        stepping.cancel.cancel();
        self.result(stepping).await
    }

    /// Waits for the end of an execution and returns its result. A cancelled script can delay its end
    /// (`limits.timeout_reserve_ms`). Until then, the execution keeps its permits and its session, because it still
    /// occupies a thread.
    pub(super) async fn result(&self, stepping: StepwiseExecution) -> Result<FinishedExecution, ServiceError> {
        stepping.started.end_token().cancelled().await;
        match stepping.started.advance(Vec::new()).await {
            Ok(ExecutorStep::Done(finished)) => self.finish(stepping, *finished),
            // Only a faulty worker reports calls of an execution that has ended.
            Ok(ExecutorStep::NeedsTools { .. }) => self.finish(stepping, Err(ServiceError::WorkerDied)),
            Err(error) => self.finish(stepping, Err(error)),
        }
    }

    /// Records the end of an execution in metrics, the audit log and the current span.
    fn finish(
        &self,
        stepping: StepwiseExecution,
        result: Result<FinishedJob, ServiceError>,
    ) -> Result<FinishedExecution, ServiceError> {
        let StepwiseExecution { request, return_files, .. } = stepping;
        self.record_result(&Span::current(), request, result.as_ref().map(|finished| &finished.execution));
        Ok(FinishedExecution { finished: result?, return_files, charged: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The runtime of this test has one thread. If replacing the callback blocked that thread, the callback would never
    /// return.
    #[tokio::test]
    async fn replacing_a_busy_output_callback_does_not_block_the_runtime() {
        let output = Output::default();
        let (begin, mut begun) = tokio::sync::mpsc::unbounded_channel();
        let (release, released) = std::sync::mpsc::channel();
        let waits = move |_: Stream, _: &[u8]| {
            begin.send(()).unwrap();
            released.recv().unwrap();
        };
        output.set(Some(Box::new(waits))).await;
        let mut listener = output.listener();
        let writing = tokio::task::spawn_blocking(move || {
            for _ in 0..2 {
                listener(Stream::Stdout, b"x");
            }
        });
        begun.recv().await.unwrap();
        tokio::join!(output.set(None), async { release.send(()).unwrap() });
        writing.await.unwrap();
        assert!(begun.recv().await.is_none(), "the callback is dropped, and not called again");
    }
}
