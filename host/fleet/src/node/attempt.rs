//! An attempt at an execution, and the journal steps that the attempt records.
//!
//! A step runs the script up to and including its next tool call, or to its end. A node that takes over an execution
//! receives the recorded steps. It replays the script with the recorded answers, without repeating the calls, and runs
//! the next step. If the last step was recorded, the node runs nothing. The record distinguishes a call from the end of
//! the script. The sequence of steps therefore always matches the journal, wherever an execution was interrupted or
//! cancelled.
//!
//! If the script waits only for answers from its caller, the execution is suspended. The last step then records the
//! suspended execution as bytes. The caller resumes it with another execution, on any node.

use std::{
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use glovebox::{
    AdvanceError, CancelToken, ExecuteError, Execution, JsonText, Outcome, Request, Resource, Session, Started,
    Step as Progress, Suspended, Timestamp, Tool, ToolAnswer, ToolError, ToolErrorKind, ToolRequest,
};
use glovebox_object_stores::BlobError;
use glovebox_requests::callbacks::{CallbackRequest, CallbackTarget};
use restate_sdk::errors::{HandlerError, TerminalError};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::OwnedSemaphorePermit;

use super::{
    machine::{Machine, blocking, is_transient},
    object::SessionState,
    suspending::{self, SuspendAttempt, SuspendedExecution},
};
use crate::{ExecuteReply, ExecuteRequest, WaitingExecution, client::status};

/// Maximum size of a reply in bytes: half of the engine's limit on the size of messages. The engine does not deliver
/// messages beyond this limit.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// An attempt at an execution, on one node.
pub(super) struct Attempt {
    machine: Arc<Machine>,
    state: SessionState,
    request: Arc<ExecuteRequest>,
    cancel: CancelToken,
    /// The engine's invocation ID.
    invocation: String,
    running: Option<RunningScript>,
}

/// The names of the tools that have a callback, and their callbacks.
type Targets = Vec<(String, CallbackTarget)>;

/// The tools of a request and their callbacks.
type OfferedTools = (Vec<Tool>, Targets);

struct RunningScript {
    session: Session,
    started: Arc<Started>,
    targets: Targets,
    /// The calls that the script waits for, in order.
    waits_for: Vec<ToolRequest>,
    /// The caller's answers, which a resumed script receives first.
    answers: Vec<ToolAnswer>,
    _place: OwnedSemaphorePermit,
}

impl RunningScript {
    /// Returns the service that answers the calls of a tool, or `None` if the caller answers them.
    fn target(&self, tool: &str) -> Option<&CallbackTarget> {
        self.targets.iter().find(|(name, _)| name == tool).map(|(_, target)| target)
    }

    /// Returns `true` if the script waits for this call.
    fn waits_for(&self, called: &AnsweredCall) -> bool {
        self.waits_for.iter().any(|call| (call.id, &call.name) == (called.call, &called.tool))
    }
}

impl Attempt {
    /// Creates an attempt on a session with the state `state`. `cancel` stops the script.
    pub(super) fn new(
        machine: Arc<Machine>,
        state: SessionState,
        request: Arc<ExecuteRequest>,
        cancel: CancelToken,
        invocation: String,
    ) -> Self {
        Self { machine, state, request, cancel, invocation, running: None }
    }

    /// Runs the next step. `recorded` contains the calls that were recorded since this attempt last ran a step.
    pub(super) async fn step(&mut self, recorded: Vec<AnsweredCall>) -> Result<JournalStep, StepError> {
        let mut recorded = recorded.into_iter();
        let mut running = match self.running.take() {
            Some(running) => running,
            None => self.begin().await?,
        };
        let mut answers = std::mem::take(&mut running.answers);
        loop {
            if !running.waits_for.is_empty() {
                match recorded.next() {
                    Some(called) if running.waits_for(&called) => answers.push(called.answer()),
                    Some(_) => return Err(not_repeated()),
                    None => match self.answer_or_suspend(&running).await? {
                        Some(step @ JournalStep::Tool(_)) => {
                            self.running = Some(running);
                            return Ok(step);
                        }
                        Some(step) => return Ok(step),
                        None => {}
                    },
                }
            }
            match advance(&running.started, std::mem::take(&mut answers)).await? {
                Progress::NeedsTools(calls) => running.waits_for = calls,
                Progress::Running => running.waits_for.clear(),
                Progress::Done(execution) => {
                    let is_short = recorded.len() > 0;
                    if is_short && !self.was_stopped(&execution) {
                        return Err(not_repeated());
                    }
                    return self.end(running, &execution, is_short).await;
                }
            }
        }
    }

    /// Starts or resumes the script.
    async fn begin(&self) -> Result<RunningScript, StepError> {
        let request = &self.request;
        if request.tools.len() > ExecuteRequest::MAX_TOOLS {
            return Err(StepError::invalid(format!(
                "the request has {} tools; at most {} are supported",
                request.tools.len(),
                ExecuteRequest::MAX_TOOLS
            )));
        }
        let (tools, targets) = self.tools()?;
        let context = request.context.clone().map(|context| JsonText::new(Box::<str>::from(context)));
        let context = context.transpose().map_err(|error| StepError::invalid(format!("`context`: {error}")))?;
        let later = |reason: &str| StepError::Later(reason.to_owned());
        let place = tokio::time::timeout(self.machine.queue, Arc::clone(&self.machine.places).acquire_owned()).await;
        let place = place.map_err(|_| later("the node is busy"))?.map_err(|_| later("the node is shutting down"))?;
        let suspended = self.suspended().await?;
        let session = match &suspended {
            Some(suspended) => self.machine.restored(&self.state, suspended.clone()).await?,
            None => self.machine.session(&self.state).await?,
        };
        let (begun, input, cancel) = (session.clone(), Arc::clone(request), self.cancel.clone());
        let opened_ms = self.state.session.created_at.unix_ms();
        let started = blocking(move || {
            let mut request = match &suspended {
                Some(suspended) => suspended.request(),
                None => {
                    let is_suspendable = input.tools.iter().any(|tool| tool.callback.is_none());
                    let request = Request::new(&input.source).kind(input.kind).stdin(&input.stdin);
                    // Pass the opening time as the generation. `Machine::restored` sets the session's clock to this
                    // time.
                    request.suspendable(is_suspendable).session_generation(opened_ms)
                }
            };
            // A suspended execution already contains its name and its context.
            if let (None, Some(name)) = (&suspended, &input.name) {
                request = request.name(name);
            }
            if let (None, Some(context)) = (&suspended, context) {
                request = request.context_text(context);
            }
            if let Some(ms) = input.deadline_ms {
                request = request.cancel_after(Duration::from_millis(ms));
            }
            begun.start(request.tools(tools).cancel(&cancel)).map_err(|error| step_error(&error))
        });
        let started = Arc::new(started.await?);
        let mut running =
            RunningScript { session, started, targets, waits_for: Vec::new(), answers: Vec::new(), _place: place };
        if let Some(resumption) = &request.resumption {
            // The script repeats its earlier steps until it waits for its unanswered calls. If it was cancelled after
            // its suspension, the next `advance` returns the result.
            if let Progress::NeedsTools(calls) = advance(&running.started, Vec::new()).await? {
                match resumption.answers.is_empty() {
                    true => running.waits_for = calls,
                    false => running.answers.clone_from(&resumption.answers),
                }
            }
        }
        Ok(running)
    }

    /// Reads the suspended execution that the request resumes.
    async fn suspended(&self) -> Result<Option<Suspended>, StepError> {
        if self.request.resumption.is_none() {
            return Ok(None);
        }
        let (request, key) = (Arc::clone(&self.request), self.machine.suspended_key(&self.state.session.name));
        blocking(move || {
            let bytes = request.resumption.as_ref().map(|resumption| &*resumption.suspended);
            bytes.map(|bytes| suspending::read(bytes, key.as_ref())).transpose()
        })
        .await
    }

    /// Returns the tools that the request offers, and their callbacks.
    fn tools(&self) -> Result<OfferedTools, StepError> {
        let (mut tools, mut targets) = OfferedTools::default();
        for offer in &self.request.tools {
            if let Some(callback) = &offer.callback {
                let callbacks = self.machine.callbacks.as_ref().ok_or_else(|| {
                    StepError::invalid(
                        "the nodes of this fleet do not allow callbacks; allow the service with --callback",
                    )
                })?;
                let target = callbacks.target(&offer.name, callback);
                targets.push((offer.name.clone(), target.map_err(|refused| StepError::invalid(refused.to_string()))?));
            }
            let tool = Tool::new(&offer.name, &offer.description).stepped().untrusted_schema();
            tools.push(match &offer.schema {
                Some(schema) => tool.schema(schema.clone()),
                None => tool,
            });
        }
        Ok((tools, targets))
    }

    /// Answers a call that the script waits for, or suspends the execution if only its caller can answer. Returns
    /// `None` if the script continues without an answer.
    async fn answer_or_suspend(&self, running: &RunningScript) -> Result<Option<JournalStep>, StepError> {
        let answerable = running.waits_for.iter().find(|call| running.target(&call.name).is_some());
        if let Some(call) = answerable {
            return Ok(Some(JournalStep::Tool(self.ask(running, call).await)));
        }
        let key = self.machine.suspended_key(&self.state.session.name);
        match suspending::suspend(&running.started, key, self.machine.suspension_time).await? {
            SuspendAttempt::Suspended(suspended) => self.suspended_step(running, suspended).map(Some),
            SuspendAttempt::Never(reason) => {
                let refused = running.waits_for.first().map(|call| AnsweredCall {
                    call: call.id,
                    tool: call.name.clone(),
                    answer: Err(ToolError::of(ToolErrorKind::Limit, reason)),
                });
                Ok(refused.map(JournalStep::Tool))
            }
            SuspendAttempt::Continues => Ok(None),
            SuspendAttempt::Slow(reason) => Ok(Some(JournalStep::SlowSuspension(reason))),
        }
    }

    /// Returns the last step of an execution that was suspended. The session keeps its state.
    fn suspended_step(&self, running: &RunningScript, suspended: SuspendedExecution) -> Result<JournalStep, StepError> {
        let SuspendedExecution { mut calls, bytes, execution } = suspended;
        calls.retain(|call| running.target(&call.name).is_none());
        let waiting = WaitingExecution { calls, suspended: bytes };
        final_step(self.state.next_generation(Timestamp::now()), true, &execution, Some(waiting))
    }

    /// Sends a tool call to its service, and returns the call with the answer.
    async fn ask(&self, running: &RunningScript, call: &ToolRequest) -> AnsweredCall {
        let session = &self.state.session.name;
        // Include the invocation, because the generation is unique only among stored executions.
        let key = format!("{session}/{}-{}/{}", self.state.next_execution(), self.invocation, call.id);
        let limits = &self.machine.policy().limits;
        let timeout = Duration::from_millis(limits.tool_timeout_ms);
        let answer = match (running.target(&call.name), &self.machine.callbacks) {
            (Some(target), Some(callbacks)) => {
                let request = CallbackRequest {
                    key: &key,
                    tool: &call.name,
                    arguments: &call.arguments,
                    call: call.id,
                    session: Some(session.id().as_str()),
                    deadline: Instant::now() + timeout,
                    cancel: running.started.cancel_token(),
                    memory: None,
                };
                callbacks.ask(target, request).await
            }
            _ => Err(ToolError::new("no service answers calls to this tool")),
        };
        let answer = answer.and_then(|answer| match answer.len() as u64 > limits.tool_bytes {
            true => Err(ToolError::of(
                ToolErrorKind::Limit,
                format!(
                    "the answer from `{}` is {} bytes; the maximum `limits.tool_bytes` is {}; return less or raise the limit",
                    call.name,
                    answer.len(),
                    limits.tool_bytes
                ),
            )),
            false => Ok(answer),
        });
        AnsweredCall { call: call.id, tool: call.name.clone(), answer }
    }

    /// Returns `true` if the execution was cancelled or timed out. A replay can be stopped at an earlier call than the
    /// first run.
    fn was_stopped(&self, execution: &Execution) -> bool {
        let is_late = matches!(execution.outcome, Outcome::Exhausted { resource: Resource::Time, .. });
        is_late || self.cancel.is_cancelled() || execution.outcome == Outcome::Cancelled
    }

    /// Stores the session as the script left it, or rolls it back if the script was stopped midway. `is_short` is
    /// `true` if the script ended before it used all recorded answers.
    async fn end(
        &self,
        running: RunningScript,
        execution: &Execution,
        is_short: bool,
    ) -> Result<JournalStep, StepError> {
        let at = Timestamp::now();
        // A script stopped midway may leave a session that cannot continue, or that has not received all answers. Roll
        // the session back.
        let is_stopped = is_short || running.started.has_only_repeated();
        let is_rolled_back = is_stopped || running.session.ended().is_some();
        let state = match is_rolled_back {
            true => self.state.next_generation(at),
            false => self.machine.save(&self.state, running.session, at).await?,
        };
        final_step(state, is_rolled_back, execution, None)
    }
}

/// Returns the last step of an execution, after which the session has the state `state`. Fails if the reply is too
/// long.
fn final_step(
    state: SessionState,
    is_rolled_back: bool,
    execution: &Execution,
    waiting: Option<WaitingExecution>,
) -> Result<JournalStep, StepError> {
    let execution = serde_json::to_string(execution).map_err(|error| StepError::failed(&error))?;
    let bytes = execution.len() + waiting.as_ref().map_or(0, waiting_len);
    if bytes > MAX_ANSWER_BYTES {
        let remedy = match &waiting {
            Some(_) => "store less in the session, or call the tool with less data",
            None => "produce less output",
        };
        return Err(StepError::invalid(format!(
            "the response is {bytes} bytes; the maximum is {MAX_ANSWER_BYTES}; the execution was rolled back; {remedy}"
        )));
    }
    let execution = RawValue::from_string(execution).map_err(|error| StepError::failed(&error))?;
    let (created_at, generation) = (state.session.created_at, state.session.generation);
    let executed = ExecuteReply { created_at, generation, is_rolled_back, execution, waiting };
    Ok(JournalStep::Done(Box::new(ExecutionEnd { state, executed })))
}

/// Returns an upper bound on the length of a suspended execution in a reply, in bytes.
fn waiting_len(waiting: &WaitingExecution) -> usize {
    // Quotes and backslashes in the arguments are escaped. The constant covers the rest of a call's JSON.
    let calls = waiting.calls.iter().map(|call| call.name.len() + 2 * call.arguments.len() + 64);
    calls.sum::<usize>() + waiting.suspended.len().div_ceil(3) * 4
}

/// Delivers answers and waits until the script needs more answers or ends.
async fn advance(started: &Arc<Started>, answers: Vec<ToolAnswer>) -> Result<Progress, StepError> {
    let started = Arc::clone(started);
    blocking(move || {
        started.advance(answers, None).map_err(|error| match error {
            AdvanceError::Execute(error) => step_error(&error),
            // The engine retries the step, as after any other panic of a node.
            error @ AdvanceError::Panicked => StepError::Later(error.to_string()),
            error @ (AdvanceError::UnknownCall { .. } | AdvanceError::NotJson { .. }) => {
                StepError::invalid(error.to_string())
            }
            error => StepError::failed(&error),
        })
    })
    .await
}

/// Converts a sandbox error. The error is transient if this node is short of resources. Otherwise the request causes
/// the error, and every node would return it.
fn step_error(error: &ExecuteError) -> StepError {
    let message = glovebox::with_causes(error);
    match error {
        _ if is_transient(error) => StepError::Later(message),
        ExecuteError::Diverged { .. } => StepError::Never(status::DIVERGED, message),
        ExecuteError::OtherImage { .. } => StepError::Never(status::NOT_RESUMABLE, message),
        _ => StepError::invalid(message),
    }
}

fn not_repeated() -> StepError {
    let message = "the restarted execution diverged from its first run; nothing was stored; report this as a bug";
    StepError::failed(&std::io::Error::other(message))
}

pub(super) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The signal that cancels an execution.
pub(super) const CANCEL: &str = "cancel";

/// A recorded step of an execution.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum JournalStep {
    /// The script called a tool.
    Tool(AnsweredCall),
    /// The script ended, or was suspended because it waits for its caller.
    Done(Box<ExecutionEnd>),
    /// The node was too slow to suspend the script, and cancelled it. Contains the reason.
    SlowSuspension(String),
}

/// A tool call and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AnsweredCall {
    /// The call's ID within the execution.
    pub(super) call: u64,
    pub(super) tool: String,
    pub(super) answer: Result<String, ToolError>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ExecutionEnd {
    /// The state of the session after the execution.
    pub(super) state: SessionState,
    /// The reply to the caller.
    pub(super) executed: ExecuteReply,
}

impl AnsweredCall {
    pub(super) fn answer(&self) -> ToolAnswer {
        ToolAnswer { id: self.call, answer: self.answer.clone() }
    }
}

/// The reason why a step of an execution failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum StepError {
    /// A transient error. The engine retries the step, here or on another node.
    #[error("{0}")]
    Later(String),
    /// A permanent error, which the caller receives.
    #[error("{1}")]
    Never(u16, String),
}

impl StepError {
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::Never(status::INVALID, message.into())
    }

    /// Converts the error to the engine's error type.
    pub(super) fn into_handler_error(self) -> HandlerError {
        match self {
            // The engine logs the message.
            Self::Later(message) => std::io::Error::other(message).into(),
            Self::Never(code, message) => TerminalError::new_with_code(code, message).into(),
        }
    }

    /// Returns the error for a sandbox failure that would be the same on every node.
    pub(super) fn failed(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Never(status::FAILED, glovebox::with_causes(error))
    }
}

impl From<TerminalError> for StepError {
    fn from(error: TerminalError) -> Self {
        Self::Never(error.code(), error.message().to_owned())
    }
}

impl From<BlobError> for StepError {
    fn from(error: BlobError) -> Self {
        Self::Later(glovebox::with_causes(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_of_a_suspended_execution_is_bounded() {
        let arguments = r#"{"text":"\"\\"}"#.repeat(100);
        for (calls, bytes) in [(0, 0), (1, 1), (3, 1_000), (64, 1_001)] {
            let call = serde_json::json!({ "id": u64::MAX, "name": "pay", "arguments": arguments });
            let calls = (0..calls).map(|_| serde_json::from_value(call.clone()).unwrap()).collect();
            let waiting = WaitingExecution { calls, suspended: vec![255; bytes] };
            let (length, bound) = (serde_json::to_string(&waiting).unwrap().len(), waiting_len(&waiting) + 64);
            assert!(length <= bound && bound < 2 * length + 1_000, "{length} bytes, at most {bound}");
        }
    }

    #[test]
    fn recorded_tool_failure_round_trips() {
        for kind in ToolErrorKind::ALL {
            let error = ToolError::of(kind, "too much");
            let called = AnsweredCall { call: 3, tool: "t".into(), answer: Err(error.clone()) };
            let text = serde_json::to_string(&JournalStep::Tool(called)).unwrap();
            let JournalStep::Tool(read) = serde_json::from_str(&text).unwrap() else { panic!("{text}") };
            assert_eq!(read.answer().answer, Err(error));
        }
    }
}
