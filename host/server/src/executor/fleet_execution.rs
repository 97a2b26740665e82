//! A stepwise execution in a fleet's session.

use std::{
    mem,
    time::{Duration, Instant},
};

use glovebox::{AdvanceError, CancelToken, OnCancel, ToolAnswer};
use glovebox_core::check_json;
use glovebox_fleet::{AnsweredCall, ExecuteRequest, Executed, Expected, FleetResumption, ToolOffer, WaitingExecution};
use glovebox_sessions::SessionId;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    Advanced, BoxFuture, NOT_STARTED_SUSPENDABLE, SteppedExecution,
    fleet::{Fleet, read},
};
use crate::{Service, ServiceError, byte_budget::Room};

/// The size of an answer in memory in addition to its text, in bytes.
const CALL_BYTES: usize = 256;

/// A stepwise execution in a fleet's session. The fleet suspends it whenever it waits for the client. Until the next
/// step, only its bytes exist, in the memory of this process. Each step resumes it on a node, unless the session has
/// changed since.
pub(super) struct FleetExecution {
    fleet: Fleet,
    service: Service,
    /// The tenant that the memory of the bytes is charged to.
    tenant: String,
    id: SessionId,
    cancel: CancelToken,
    tools: Vec<ToolOffer>,
    is_suspendable: bool,
    deadline: Option<Instant>,
    /// Locked during a step.
    progress: tokio::sync::Mutex<FleetProgress>,
    /// Cancelled when the execution has ended, or when it must not continue after its current wait.
    ended: CancellationToken,
    _on_cancel: OnCancel,
    _on_deadline: Option<DropGuard>,
}

/// The steps of an execution in a fleet so far.
enum FleetProgress {
    /// The first request, which was not sent yet, and its idempotency key.
    New(Box<ExecuteRequest>, Option<String>),
    Waiting(Box<WaitingInFleet>),
    /// The result was returned, or a request failed.
    Ended,
}

/// An execution that waits for the client.
struct WaitingInFleet {
    /// The execution as if it had been cancelled, and the generation of the session.
    executed: Executed,
    waiting: WaitingExecution,
    /// The memory reserved for the execution, the calls and the bytes.
    _room: Option<Room>,
}

/// The parts of a [`FleetExecution`] that its first request does not contain.
pub(super) struct FleetStart {
    pub(super) fleet: Fleet,
    pub(super) service: Service,
    pub(super) tenant: String,
    pub(super) id: SessionId,
    pub(super) cancel: CancelToken,
    pub(super) is_suspendable: bool,
    pub(super) cancel_after: Option<Duration>,
}

impl FleetExecution {
    /// Creates an execution. The first step sends `request`. Must be called within a Tokio runtime.
    pub(super) fn new(start: FleetStart, request: ExecuteRequest, key: Option<String>) -> Self {
        let FleetStart { fleet, service, tenant, id, cancel, is_suspendable, cancel_after } = start;
        let ended = CancellationToken::new();
        let cancelled = ended.clone();
        let hook = cancel.on_cancel(move || cancelled.cancel());
        let deadline = cancel_after.and_then(|after| Instant::now().checked_add(after));
        Self {
            fleet,
            service,
            tenant,
            id,
            cancel,
            tools: request.tools.clone(),
            is_suspendable,
            deadline,
            progress: tokio::sync::Mutex::new(FleetProgress::New(Box::new(request), key)),
            _on_cancel: hook,
            _on_deadline: deadline.map(|deadline| end_at(deadline, ended.clone())),
            ended,
        }
    }

    /// Returns the request that resumes the execution with these answers.
    fn resumption(
        &self,
        WaitingInFleet { executed, waiting, .. }: WaitingInFleet,
        answers: Vec<ToolAnswer>,
    ) -> ExecuteRequest {
        let Executed { created_at, generation, .. } = executed;
        let answers = answers.into_iter().map(AnsweredCall::from).collect();
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        ExecuteRequest {
            tools: self.tools.clone(),
            resumption: Some(FleetResumption { suspended: waiting.suspended, answers }),
            deadline_ms: left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
            // The bytes contain the state of the session. Another server may have changed the session since.
            expected: Some(Expected { created_at, generation }),
            id: Some(SessionId::random().to_string()),
            ..ExecuteRequest::default()
        }
    }

    /// Reserves memory for a suspended execution. Fails if the budget is exhausted.
    fn reserve(&self, executed: &Executed, waiting: &WaitingExecution) -> Result<Option<Room>, ServiceError> {
        let calls = waiting.calls.iter().map(|call| call.name.len() + call.arguments.len() + CALL_BYTES);
        let bytes = calls.sum::<usize>() + waiting.suspended.len() + executed.execution.get().len();
        let reserved = self.service.reply_budget().map(|budget| budget.reserve(Some(&self.tenant), bytes));
        reserved.transpose().map_err(|_| ServiceError::NoRoom)
    }

    /// Returns the result of an execution. Parses it on a thread that is allowed to block, because it may be long.
    async fn done(&self, executed: Executed) -> Result<Advanced, ServiceError> {
        self.ended.cancel();
        let id = self.id.clone();
        let finished = Service::blocking(move || read(executed, &id)).await?;
        Ok(Advanced::Done(Box::new(finished)))
    }
}

/// Cancels `ended` at a time, unless the returned guard is dropped before.
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

/// Checks answers to the calls of a waiting execution. Drops answers to earlier calls, which were answered already.
fn check_answers(waiting: &WaitingExecution, mut answers: Vec<ToolAnswer>) -> Result<Vec<ToolAnswer>, AdvanceError> {
    let is_open = |id: u64| waiting.calls.iter().any(|call| call.id == id);
    let last = waiting.calls.iter().map(|call| call.id).max();
    for ToolAnswer { id, answer } in &answers {
        if last.is_none_or(|last| *id > last) {
            return Err(AdvanceError::UnknownCall { id: *id });
        }
        if let Ok(text) = answer {
            check_json(text).map_err(|reason| AdvanceError::NotJson { id: *id, reason })?;
        }
    }
    answers.retain(|answer| is_open(answer.id));
    Ok(answers)
}

fn has_ended() -> ServiceError {
    ServiceError::NotSuspendable("it has ended; read its result with `continue`".to_owned())
}

impl SteppedExecution for FleetExecution {
    fn advance(&self, answers: Vec<ToolAnswer>) -> BoxFuture<'_, Result<Advanced, ServiceError>> {
        Box::pin(async move {
            let mut progress = self.progress.lock().await;
            let (request, key) = match mem::replace(&mut *progress, FleetProgress::Ended) {
                FleetProgress::New(request, key) => (*request, key),
                FleetProgress::Waiting(waiting) if self.ended.is_cancelled() => {
                    return self.done(waiting.executed).await;
                }
                FleetProgress::Waiting(waiting) => {
                    let checked = Service::blocking(move || {
                        let checked = check_answers(&waiting.waiting, answers);
                        (waiting, checked)
                    });
                    let (waiting, checked) = checked.await?;
                    match checked {
                        Ok(answers) if !answers.is_empty() => (self.resumption(*waiting, answers), None),
                        other => {
                            let calls = waiting.waiting.calls.clone();
                            *progress = FleetProgress::Waiting(waiting);
                            other?;
                            return Ok(Advanced::NeedsTools { calls, reply_room: None });
                        }
                    }
                }
                FleetProgress::Ended => return Err(ServiceError::Panicked),
            };
            let mut executed = self.fleet.execute(&self.id, request, key.as_deref(), &self.cancel).await?;
            let Some(waiting) = executed.waiting.take() else { return self.done(executed).await };
            let (calls, room) = (waiting.calls.clone(), self.reserve(&executed, &waiting)?);
            *progress = FleetProgress::Waiting(Box::new(WaitingInFleet { executed, waiting, _room: room }));
            Ok(Advanced::NeedsTools { calls, reply_room: None })
        })
    }

    fn suspend(&self) -> BoxFuture<'_, Result<Vec<u8>, ServiceError>> {
        Box::pin(async move {
            if !self.is_suspendable {
                return Err(ServiceError::NotSuspendable(NOT_STARTED_SUSPENDABLE.into()));
            }
            match &mut *self.progress.lock().await {
                FleetProgress::Waiting(waiting) if !self.ended.is_cancelled() => {
                    self.ended.cancel();
                    Ok(mem::take(&mut waiting.waiting.suspended))
                }
                _ => Err(has_ended()),
            }
        })
    }

    fn ended(&self) -> CancellationToken {
        self.ended.clone()
    }
}

#[cfg(test)]
mod tests {
    use glovebox::ToolError;
    use serde_json::json;

    use super::*;

    fn waiting(ids: &[u64]) -> WaitingExecution {
        let calls = ids.iter().map(|id| json!({ "id": id, "name": "ask", "arguments": "{}" }));
        let calls = calls.map(|call| serde_json::from_value(call).unwrap()).collect();
        WaitingExecution { calls, suspended: Vec::new() }
    }

    #[test]
    fn only_answers_to_waiting_calls_are_sent() {
        let answer = |id: u64| ToolAnswer::value(id, &json!(id));
        let waits = waiting(&[1, 3]);
        assert_eq!(check_answers(&waits, vec![answer(0), answer(3), answer(2)]).unwrap(), [answer(3)]);
        let failed = ToolAnswer::error(1, ToolError::new("not JSON"));
        assert_eq!(check_answers(&waits, vec![failed.clone()]).unwrap(), [failed]);
        let unknown = check_answers(&waits, vec![answer(1), answer(4)]).unwrap_err();
        assert!(matches!(unknown, AdvanceError::UnknownCall { id: 4 }), "{unknown}");
        let not_json = ToolAnswer { id: 3, answer: Ok("{".to_owned()) };
        let wrong = check_answers(&waits, vec![answer(1), not_json]).unwrap_err();
        assert!(matches!(wrong, AdvanceError::NotJson { id: 3, .. }), "{wrong}");
        assert!(ServiceError::from(wrong).is_answer_error(), "the execution continues to wait");
    }
}
