//! A stepwise execution in a fleet's session.

use std::{
    mem,
    time::{Duration, Instant},
};

use glovebox::{AdvanceError, CancelToken, OnCancel, ToolAnswer, ToolRequest, with_causes};
use glovebox_core::check_json;
use glovebox_fleet::{
    ExecuteReply, ExecuteRequest, ExpectedGeneration, FleetError, Resumption, ToolOffer, WaitingExecution,
};
use glovebox_sessions::SessionId;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    BoxFuture, ExecutorStep, NOT_STARTED_SUSPENDABLE, SteppedExecution,
    fleet::{Fleet, read},
};
use crate::{Service, ServiceError, byte_budget::Room};

/// The size of a call or an answer in memory in addition to its text, in bytes.
const CALL_BYTES: usize = 256;
/// The time after which a step is no longer retried. The engine forgets results after an hour, and would then run the
/// step again.
const MAX_REPEAT_TIME: Duration = Duration::from_secs(55 * 60);
/// The timeout for retrying a step of an execution that has since been cancelled.
const LAST_ATTEMPT: Duration = Duration::from_secs(10);

/// A stepwise execution in a fleet's session. Whenever the execution waits for the client, the fleet suspends it. Until
/// the next step, it exists only as bytes in the memory of this process. Each step resumes the execution on a node,
/// unless the session has changed since.
///
/// If the engine does not respond to a step, a node may still run it. The request is stored, and the next call to
/// `advance` sends it again with the same idempotency key: the engine returns the recorded result, or runs the step if
/// it was not run.
pub(super) struct FleetExecution {
    start: FleetStart,
    tools: Vec<ToolOffer>,
    deadline: Option<Instant>,
    /// Locked during a step.
    progress: tokio::sync::Mutex<FleetProgress>,
    /// Cancelled when the execution has ended, or when it must not continue after its current wait.
    ended: CancellationToken,
    _on_cancel: OnCancel,
    _on_deadline: Option<DropGuard>,
}

/// The state of an execution in a fleet.
enum FleetProgress {
    /// The result of the current step is unknown.
    Sent(Box<FleetStep>),
    Waiting(Box<WaitingInFleet>),
    /// The result was returned, or a request failed.
    Ended,
}

/// A request to the fleet that has no result yet.
struct FleetStep {
    request: ExecuteRequest,
    /// The idempotency key.
    key: String,
    created: Instant,
    /// `true` if the client knows the execution's ID and can retry the step.
    is_repeatable: bool,
    /// The value of [`WaitingInFleet::call_count`] before the step.
    call_count: u64,
    /// The memory reserved for the request.
    rooms: Vec<Room>,
}

impl FleetStep {
    /// Returns the size of the script, its input and the suspended execution in the request, in bytes.
    fn bytes(&self) -> usize {
        let ExecuteRequest { source, stdin, context, resumption, .. } = &self.request;
        let context = context.as_ref().map_or(0, |context| context.get().len());
        let suspended = resumption.as_ref().map_or(0, |resumption| resumption.suspended.len());
        source.len() + stdin.len() + context + suspended
    }
}

/// An execution that waits for the client.
struct WaitingInFleet {
    /// The execution so far, with the outcome `cancelled`, and the session's generation.
    executed: ExecuteReply,
    waiting: WaitingExecution,
    /// Every call that the client has seen, including answered calls, has a smaller ID.
    call_count: u64,
    /// The memory reserved for the execution, the calls and the bytes.
    room: Option<Room>,
}

/// The parts of a [`FleetExecution`] that its first request does not contain.
pub(super) struct FleetStart {
    pub(super) fleet: Fleet,
    pub(super) service: Service,
    /// The tenant that the memory of the bytes is charged to.
    pub(super) tenant: String,
    pub(super) id: SessionId,
    pub(super) cancel: CancelToken,
    pub(super) is_suspendable: bool,
}

impl FleetExecution {
    /// Creates an execution. The first step sends `request`. Must be called within a Tokio runtime.
    pub(super) fn new(
        start: FleetStart,
        request: ExecuteRequest,
        key: Option<String>,
        cancel_after: Option<Duration>,
    ) -> Self {
        let ended = CancellationToken::new();
        let cancelled = ended.clone();
        let hook = start.cancel.on_cancel(move || cancelled.cancel());
        let deadline = cancel_after.and_then(|after| Instant::now().checked_add(after));
        let key = key.unwrap_or_else(|| start.fleet.step_key(request.id.as_deref().unwrap_or_default()));
        let tools = request.tools.clone();
        let (created, rooms) = (Instant::now(), Vec::new());
        let step = FleetStep { request, key, created, is_repeatable: false, call_count: 0, rooms };
        Self {
            start,
            tools,
            deadline,
            progress: tokio::sync::Mutex::new(FleetProgress::Sent(Box::new(step))),
            _on_cancel: hook,
            _on_deadline: deadline.map(|deadline| end_at(deadline, ended.clone())),
            ended,
        }
    }

    /// Returns the step that resumes the execution with these answers, and moves the execution's bytes into it. Fails
    /// without a change if the budget has no room for the answers.
    fn next_step(&self, waits: &mut WaitingInFleet, answers: Vec<ToolAnswer>) -> Result<FleetStep, ServiceError> {
        let reserved = self.reserve(answers.iter().map(answer_bytes).sum())?;
        let (created_at, generation) = (waits.executed.created_at, waits.executed.generation);
        let suspended = mem::take(&mut waits.waiting.suspended);
        let id = SessionId::random().to_string();
        let key = self.start.fleet.step_key(&id);
        let request = ExecuteRequest {
            tools: self.tools.clone(),
            resumption: Some(Resumption { suspended, answers }),
            // The bytes contain the session's state, so require that the session has not changed since the suspension.
            expected: Some(ExpectedGeneration { created_at, generation }),
            id: Some(id),
            ..ExecuteRequest::default()
        };
        let rooms = waits.room.take().into_iter().chain(reserved).collect();
        let (created, call_count) = (Instant::now(), waits.call_count);
        Ok(FleetStep { request, key, created, is_repeatable: true, call_count, rooms })
    }

    /// Sends a step's request. The engine runs requests with the same key only once.
    async fn send(&self, step: &FleetStep) -> Result<ExecuteReply, ServiceError> {
        let (mut request, has_ended) = (step.request.clone(), self.ended.is_cancelled());
        if step.is_repeatable {
            let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            // After a cancellation, a deadline of zero prevents nodes from starting the step. If a node has already run
            // the step, the engine returns its result.
            let left = if has_ended { Some(Duration::ZERO) } else { left };
            request.deadline_ms = left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        }
        let sent = self.start.fleet.execute(&self.start.id, request, Some(&step.key), &self.start.cancel);
        match has_ended && step.is_repeatable {
            true => tokio::time::timeout(LAST_ATTEMPT, sent).await.unwrap_or(Err(ServiceError::StepLost)),
            false => sent.await,
        }
    }

    /// Sends a step and stores its result in `progress`, unless the execution has finished. Returns `None` if the
    /// execution waits for the client.
    async fn run_step(
        &self,
        progress: &mut FleetProgress,
        mut step: Box<FleetStep>,
        answers: &mut Vec<ToolAnswer>,
    ) -> Result<Option<ExecutorStep>, ServiceError> {
        if step.created.elapsed() > MAX_REPEAT_TIME {
            return Err(ServiceError::StepLost);
        }
        let mut executed = match self.send(&step).await {
            Ok(executed) => executed,
            Err(error) if step.is_repeatable && !self.ended.is_cancelled() && is_unanswered(&error) => {
                tracing::error!(target: "glovebox", error = with_causes(&error), "the fleet did not respond to a step");
                *progress = FleetProgress::Sent(step);
                return Err(ServiceError::StepUnanswered);
            }
            Err(error) => return Err(error),
        };
        let waiting = executed.waiting.take().filter(|_| !self.ended.is_cancelled());
        let Some(waiting) = waiting else { return self.finished_step(executed).await.map(Some) };
        let counts = waiting.calls.iter().map(|call| call.id.saturating_add(1));
        let call_count = counts.fold(step.call_count, u64::max);
        if let Ok(room) = self.reserve(waiting_bytes(&executed, &waiting)) {
            *progress = FleetProgress::Waiting(Box::new(WaitingInFleet { executed, waiting, call_count, room }));
            return Ok(None);
        }
        // Drop the bytes. The next step sends the request again, and the engine returns the same bytes.
        if !step.is_repeatable && !self.start.is_suspendable {
            // The caller keeps the memory of the first request reserved only if the execution is suspendable.
            let reserved = self.reserve(step.bytes())?;
            step.rooms.extend(reserved);
        }
        step.is_repeatable = true;
        *progress = FleetProgress::Sent(step);
        let calls = waiting.calls;
        match open_answers(&calls, call_count, mem::take(answers)).await?.is_empty() {
            true => Ok(Some(ExecutorStep::NeedsTools { calls, reply_room: None })),
            false => Err(ServiceError::StepUnanswered),
        }
    }

    /// Reserves memory. Fails if the budget is exhausted.
    fn reserve(&self, bytes: usize) -> Result<Option<Room>, ServiceError> {
        let reserved = self.start.service.reply_budget().map(|budget| budget.reserve(Some(&self.start.tenant), bytes));
        reserved.transpose().map_err(|_| ServiceError::NoRoom)
    }

    /// Returns the result of an execution. Parses it on a blocking thread, because it may be long.
    async fn finished_step(&self, executed: ExecuteReply) -> Result<ExecutorStep, ServiceError> {
        self.ended.cancel();
        let id = self.start.id.clone();
        let finished = Service::blocking(move || read(executed, &id)).await?;
        Ok(ExecutorStep::Done(Box::new(finished)))
    }
}

/// Cancels `ended` at `deadline`, unless the returned guard is dropped first.
fn end_at(deadline: Instant, ended: CancellationToken) -> DropGuard {
    let dropped = CancellationToken::new();
    let guard = dropped.clone().drop_guard();
    tokio::spawn(async move {
        tokio::select! {
            () = tokio::time::sleep_until(deadline.into()) => ended.cancel(),
            () = dropped.cancelled() => {}
        }
    });
    guard
}

/// Returns the memory that a waiting execution occupies, in bytes.
fn waiting_bytes(executed: &ExecuteReply, waiting: &WaitingExecution) -> usize {
    let calls = waiting.calls.iter().map(|call| call.name.len() + call.arguments.len() + CALL_BYTES);
    calls.sum::<usize>() + waiting.suspended.len() + executed.execution.get().len()
}

fn answer_bytes(answer: &ToolAnswer) -> usize {
    answer.answer.as_ref().map_or_else(|error| error.message().len(), String::len) + CALL_BYTES
}

/// Returns `true` if a request may have run although it failed, or can run later.
fn is_unanswered(error: &ServiceError) -> bool {
    let ServiceError::Fleet(error) = error else { return false };
    matches!(error, FleetError::Unreachable { .. } | FleetError::Answer(_) | FleetError::NoNode)
}

/// Runs [`check_answers`] on a blocking thread, because the answers may be long.
async fn open_answers(
    calls: &[ToolRequest],
    call_count: u64,
    answers: Vec<ToolAnswer>,
) -> Result<Vec<ToolAnswer>, ServiceError> {
    if answers.is_empty() {
        return Ok(answers);
    }
    let open: Vec<u64> = calls.iter().map(|call| call.id).collect();
    Ok(Service::blocking(move || check_answers(&open, call_count, answers)).await??)
}

/// Checks answers to the calls with the IDs `open`. Drops answers to other calls with IDs below `call_count`, which are
/// already answered.
fn check_answers(open: &[u64], call_count: u64, mut answers: Vec<ToolAnswer>) -> Result<Vec<ToolAnswer>, AdvanceError> {
    for ToolAnswer { id, answer } in &answers {
        if *id >= call_count {
            return Err(AdvanceError::UnknownCall { id: *id });
        }
        if let Ok(text) = answer {
            check_json(text).map_err(|reason| AdvanceError::NotJson { id: *id, reason })?;
        }
    }
    answers.retain(|answer| open.contains(&answer.id));
    Ok(answers)
}

fn has_ended() -> ServiceError {
    ServiceError::NotSuspendable("it has ended; read its result with `continue`".to_owned())
}

impl SteppedExecution for FleetExecution {
    fn advance(&self, mut answers: Vec<ToolAnswer>) -> BoxFuture<'_, Result<ExecutorStep, ServiceError>> {
        Box::pin(async move {
            let mut progress = self.progress.lock().await;
            loop {
                match mem::replace(&mut *progress, FleetProgress::Ended) {
                    FleetProgress::Sent(step) => {
                        if let Some(advanced) = self.run_step(&mut progress, step, &mut answers).await? {
                            return Ok(advanced);
                        }
                    }
                    FleetProgress::Waiting(waits) if self.ended.is_cancelled() => {
                        return self.finished_step(waits.executed).await;
                    }
                    FleetProgress::Waiting(mut waits) => {
                        let (calls, count) = (&waits.waiting.calls, waits.call_count);
                        let open = open_answers(calls, count, mem::take(&mut answers)).await;
                        let next = match open {
                            Ok(open) if open.is_empty() => Ok(None),
                            Ok(open) => {
                                self.next_step(&mut waits, open).map(Some).map_err(|_| ServiceError::StepUnanswered)
                            }
                            Err(error) => Err(error),
                        };
                        if let Ok(Some(step)) = next {
                            *progress = FleetProgress::Sent(Box::new(step));
                            continue;
                        }
                        let calls = waits.waiting.calls.clone();
                        *progress = FleetProgress::Waiting(waits);
                        return next.map(|_| ExecutorStep::NeedsTools { calls, reply_room: None });
                    }
                    FleetProgress::Ended => return Err(ServiceError::StepFailed),
                }
            }
        })
    }

    fn suspend(&self, _: usize) -> BoxFuture<'_, Result<Vec<u8>, ServiceError>> {
        Box::pin(async move {
            if !self.start.is_suspendable {
                return Err(ServiceError::NotSuspendable(NOT_STARTED_SUSPENDABLE.into()));
            }
            match &mut *self.progress.lock().await {
                FleetProgress::Waiting(waiting) if !self.ended.is_cancelled() => {
                    self.ended.cancel();
                    Ok(mem::take(&mut waiting.waiting.suspended))
                }
                FleetProgress::Sent(_) if !self.ended.is_cancelled() => Err(ServiceError::NotSuspendable(
                    "its last step has no result yet; call `continue` first".to_owned(),
                )),
                _ => Err(has_ended()),
            }
        })
    }

    fn end_token(&self) -> CancellationToken {
        self.ended.clone()
    }
}

#[cfg(test)]
mod tests {
    use glovebox::ToolError;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_answers_to_waiting_calls_are_sent() {
        let answer = |id: u64| ToolAnswer::value(id, &json!(id));
        // Call 4 was answered before calls 1 and 3.
        let check = |answers: Vec<ToolAnswer>| check_answers(&[1, 3], 5, answers);
        assert_eq!(check(vec![answer(0), answer(3), answer(2), answer(4)]).unwrap(), [answer(3)]);
        let failed = ToolAnswer::error(1, ToolError::new("not JSON"));
        assert_eq!(check(vec![failed.clone()]).unwrap(), [failed]);
        let unknown = check(vec![answer(1), answer(5)]).unwrap_err();
        assert!(matches!(unknown, AdvanceError::UnknownCall { id: 5 }), "{unknown}");
        let not_json = ToolAnswer { id: 3, answer: Ok("{".to_owned()) };
        let wrong = check(vec![answer(1), not_json]).unwrap_err();
        assert!(matches!(wrong, AdvanceError::NotJson { id: 3, .. }), "{wrong}");
        assert!(ServiceError::from(wrong).is_answer_error(), "the execution continues to wait");
    }
}
