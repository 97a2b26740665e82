//! An attempt at an execution, and the journal steps that the attempt records.
//!
//! A step runs the script up to and including its next tool call, or to its end. A node that takes over an execution
//! receives the recorded steps. It replays the script with the recorded answers, without repeating the calls, and runs
//! the next step. If the last step was recorded, the node runs nothing. The record distinguishes a call from the end of
//! the script. The sequence of steps therefore always matches the journal, wherever an execution was interrupted or
//! cancelled.

use std::{
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use glovebox::{
    AdvanceError, CancelToken, ExecuteError, Execution, JsonText, Outcome, Request, Resource, Session, Started,
    Step as Progress, Timestamp, Tool, ToolAnswer, ToolError, ToolErrorKind, ToolRequest,
};
use glovebox_requests::callbacks::{CallbackRequest, CallbackTarget};
use glovebox_sessions::StoreError;
use restate_sdk::errors::{HandlerError, TerminalError};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::OwnedSemaphorePermit;

use super::{
    machine::{Machine, blocking, is_transient},
    object::SessionState,
};
use crate::{ExecuteRequest, Executed, client::status};

/// Maximum size of an answer in bytes: half of the engine's limit on messages. The engine does not deliver messages
/// beyond its limit.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// An attempt at an execution, on one node.
pub(super) struct Attempt {
    machine: Arc<Machine>,
    state: SessionState,
    request: Arc<ExecuteRequest>,
    cancel: CancelToken,
    /// The engine's invocation ID.
    invocation: String,
    running: Option<Running>,
}

/// The tools' names and callbacks.
type Targets = Vec<(String, CallbackTarget)>;

/// The tools of a request and their callbacks.
type Offered = (Vec<Tool>, Targets);

/// A running script.
struct Running {
    session: Session,
    started: Arc<Started>,
    targets: Targets,
    /// The calls that the script waits for, in order.
    waits_for: Vec<ToolRequest>,
    _place: OwnedSemaphorePermit,
}

impl Attempt {
    /// Creates an attempt on a session in this state. `cancel` stops the script.
    pub(super) fn new(
        machine: Arc<Machine>,
        state: SessionState,
        request: Arc<ExecuteRequest>,
        cancel: CancelToken,
        invocation: String,
    ) -> Self {
        Self { machine, state, request, cancel, invocation, running: None }
    }

    /// Runs the step after the recorded steps. `recorded` are the calls recorded since the last step that this attempt
    /// ran.
    pub(super) async fn step(&mut self, recorded: Vec<Called>) -> Result<JournalStep, StepError> {
        let mut recorded = recorded.into_iter();
        let mut running = match self.running.take() {
            Some(running) => running,
            None => self.begin().await?,
        };
        let mut answers = Vec::new();
        loop {
            if let Some(call) = running.waits_for.first() {
                match recorded.next() {
                    Some(called) if called.call == call.id && called.tool == call.name => answers.push(called.answer()),
                    Some(_) => return Err(not_repeated()),
                    None => {
                        let called = self.ask(&running, call).await;
                        self.running = Some(running);
                        return Ok(JournalStep::Tool(called));
                    }
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

    /// Starts the script.
    async fn begin(&self) -> Result<Running, StepError> {
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
        let session = self.machine.session(&self.state).await?;
        let (begun, asked, cancel) = (session.clone(), Arc::clone(request), self.cancel.clone());
        let started = blocking(move || {
            let mut request = Request::new(&asked.source).kind(asked.kind).stdin(&asked.stdin).tools(tools);
            if let Some(name) = &asked.name {
                request = request.name(name);
            }
            if let Some(context) = context {
                request = request.context_text(context);
            }
            if let Some(ms) = asked.deadline_ms {
                request = request.cancel_after(Duration::from_millis(ms));
            }
            begun.start(request.cancel(&cancel)).map_err(|error| refused(&error))
        });
        let started = Arc::new(started.await?);
        Ok(Running { session, started, targets, waits_for: Vec::new(), _place: place })
    }

    /// Returns the tools that the request offers, with their callbacks.
    fn tools(&self) -> Result<Offered, StepError> {
        let (mut tools, mut targets) = Offered::default();
        for offer in &self.request.tools {
            let callbacks = self.machine.callbacks.as_ref().ok_or_else(|| {
                StepError::invalid("the nodes of this fleet do not allow callbacks; allow the service with --callback")
            })?;
            let target = callbacks.target(&offer.name, &offer.callback);
            targets.push((offer.name.clone(), target.map_err(|refused| StepError::invalid(refused.to_string()))?));
            let tool = Tool::new(&offer.name, &offer.description).stepped().untrusted_schema();
            tools.push(match &offer.schema {
                Some(schema) => tool.schema(schema.clone()),
                None => tool,
            });
        }
        Ok((tools, targets))
    }

    /// Calls the service that answers a tool.
    async fn ask(&self, running: &Running, call: &ToolRequest) -> Called {
        let session = &self.state.session.name;
        // The generation is unique among stored executions, and the invocation among all executions.
        let key = format!("{session}/{}-{}/{}", self.state.next_execution(), self.invocation, call.id);
        let limits = &self.machine.policy().limits;
        let timeout = Duration::from_millis(limits.tool_timeout_ms);
        let target = running.targets.iter().find(|(name, _)| *name == call.name);
        let answer = match (target, &self.machine.callbacks) {
            (Some((_, target)), Some(callbacks)) => {
                let asked = CallbackRequest {
                    key: &key,
                    tool: &call.name,
                    arguments: &call.arguments,
                    call: call.id,
                    session: Some(session.id().as_str()),
                    deadline: Instant::now() + timeout,
                    cancel: running.started.cancel_token(),
                    memory: None,
                };
                callbacks.ask(target, asked).await
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
        Called { call: call.id, tool: call.name.clone(), answer: answer.map_err(|error| ToolFailure::from(&error)) }
    }

    /// Returns `true` if the execution was cancelled or timed out. A replay can be stopped earlier than the first run.
    fn was_stopped(&self, execution: &Execution) -> bool {
        let is_late = matches!(execution.outcome, Outcome::Exhausted { resource: Resource::Time, .. });
        is_late || self.cancel.is_cancelled() || execution.outcome == Outcome::Cancelled
    }

    /// Stores the session as the script left it, or rolls it back if the script was stopped midway. `is_short` is
    /// `true` if the script ended before it used all recorded answers.
    async fn end(&self, running: Running, execution: &Execution, is_short: bool) -> Result<JournalStep, StepError> {
        let at = Timestamp::now();
        // A script stopped midway may leave a session that cannot continue, or that has not seen all answers. Roll it
        // back.
        let is_rolled_back = is_short || running.session.ended().is_some();
        let state = match is_rolled_back {
            true => self.state.unchanged(at),
            false => self.machine.save(&self.state, running.session, at).await?,
        };
        let execution = serde_json::to_string(execution).map_err(|error| StepError::failed(&error))?;
        if execution.len() > MAX_ANSWER_BYTES {
            return Err(StepError::invalid(format!(
                "the answer is {} bytes; the maximum is {MAX_ANSWER_BYTES}; the execution was rolled back; produce less output",
                execution.len()
            )));
        }
        let execution = RawValue::from_string(execution).map_err(|error| StepError::failed(&error))?;
        let executed = Executed {
            created_at: state.session.created_at,
            generation: state.session.generation,
            is_rolled_back,
            execution,
        };
        Ok(JournalStep::Done(Box::new(Done { state, executed })))
    }
}

/// Delivers answers and waits until the script needs more answers or ends.
async fn advance(started: &Arc<Started>, answers: Vec<ToolAnswer>) -> Result<Progress, StepError> {
    let started = Arc::clone(started);
    blocking(move || {
        started.advance(answers, None).map_err(|error| match error {
            AdvanceError::Execute(error) => refused(&error),
            // The engine retries the step, as after every panic of a node.
            error @ AdvanceError::Panicked => StepError::Later(error.to_string()),
            error => StepError::failed(&error),
        })
    })
    .await
}

/// Converts a sandbox error. The error is transient if this node is short of resources. Otherwise the request causes
/// the error, which is the same on every node.
fn refused(error: &ExecuteError) -> StepError {
    match is_transient(error) {
        true => StepError::Later(glovebox::with_causes(error)),
        false => StepError::invalid(glovebox::with_causes(error)),
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
    Tool(Called),
    /// The script ended.
    Done(Box<Done>),
}

/// A tool call and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Called {
    /// The call's ID within the execution.
    pub(super) call: u64,
    pub(super) tool: String,
    pub(super) answer: Result<String, ToolFailure>,
}

/// The error that a failed tool raises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ToolFailure {
    /// The name of the error's class.
    class: String,
    message: String,
}

/// The end of an execution.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Done {
    /// The state of the session after the execution.
    pub(super) state: SessionState,
    /// The answer to the caller.
    pub(super) executed: Executed,
}

impl From<&ToolError> for ToolFailure {
    fn from(error: &ToolError) -> Self {
        Self { class: error.kind().name().to_owned(), message: error.message().to_owned() }
    }
}

impl From<&ToolFailure> for ToolError {
    fn from(failure: &ToolFailure) -> Self {
        let kind = ToolErrorKind::ALL.into_iter().find(|kind| kind.name() == failure.class);
        Self::of(kind.unwrap_or(ToolErrorKind::Failed), &failure.message)
    }
}

impl Called {
    /// Returns the answer for the script.
    pub(super) fn answer(&self) -> ToolAnswer {
        ToolAnswer { id: self.call, answer: self.answer.clone().map_err(|failure| ToolError::from(&failure)) }
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

impl From<StoreError> for StepError {
    fn from(error: StoreError) -> Self {
        Self::Later(glovebox::with_causes(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_tool_failure_round_trips() {
        for kind in ToolErrorKind::ALL {
            let error = ToolError::of(kind, "too much");
            let called = Called { call: 3, tool: "t".into(), answer: Err(ToolFailure::from(&error)) };
            let text = serde_json::to_string(&JournalStep::Tool(called)).unwrap();
            let JournalStep::Tool(read) = serde_json::from_str(&text).unwrap() else { panic!("{text}") };
            assert_eq!(read.answer().answer, Err(error));
        }
    }
}
