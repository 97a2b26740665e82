//! One attempt at an execution.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use glovebox::{
    AdvanceError, CancelToken, ExecuteError, Execution, JsonText, Outcome, Request, Resource, Session, Started,
    Step as Progress, Timestamp, Tool, ToolAnswer, ToolError, ToolErrorKind, ToolRequest,
};
use glovebox_requests::callbacks::{Asked, Target};
use serde_json::value::RawValue;
use tokio::sync::OwnedSemaphorePermit;

use super::{
    error::StepError,
    machine::{Machine, blocking, is_of_the_moment},
    state::State,
    steps::{Called, Done, Failure, Step},
};
use crate::{ExecuteRequest, Executed};

/// The longest answer. The engine takes twice that as a message; where an answer was longer, it could never be given.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// How long an execution waits for its turn on a busy node before the engine asks again, perhaps another.
const QUEUE: Duration = Duration::from_secs(20);

/// One attempt at an execution, on one node.
pub(super) struct Attempt {
    machine: Arc<Machine>,
    state: State,
    request: Arc<ExecuteRequest>,
    cancel: CancelToken,
    /// The engine's name for the execution.
    invocation: String,
    running: Option<Running>,
}

/// Where tools are answered, by their names.
type Targets = Vec<(String, Target)>;

/// The tools of a request, as scripts have them, and where they are answered.
type Offered = (Vec<Tool>, Targets);

/// The script.
struct Running {
    session: Session,
    started: Arc<Started>,
    /// Where its tools are answered, by their names.
    targets: Targets,
    /// The calls that it waits for, in their order.
    waits_for: Vec<ToolRequest>,
    _place: OwnedSemaphorePermit,
}

impl Attempt {
    /// An attempt that begins with a session in this state. `cancel` ends the script.
    pub(super) fn new(
        machine: Arc<Machine>,
        state: State,
        request: Arc<ExecuteRequest>,
        cancel: CancelToken,
        invocation: String,
    ) -> Self {
        Self { machine, state, request, cancel, invocation, running: None }
    }

    /// Makes the step that comes after those that were recorded. It is given what was recorded since the last that it made.
    pub(super) async fn step(&mut self, recorded: Vec<Called>) -> Result<Step, StepError> {
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
                        return Ok(Step::Tool(called));
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
            return Err(StepError::invalid(format!("at most {} tools are taken", ExecuteRequest::MAX_TOOLS)));
        }
        let (tools, targets) = self.tools()?;
        let context = request.context.clone().map(|context| JsonText::new(Box::<str>::from(context)));
        let context = context.transpose().map_err(|error| StepError::invalid(format!("`context`: {error}")))?;
        let later = |reason: &str| StepError::Later(reason.to_owned());
        let place = tokio::time::timeout(QUEUE, Arc::clone(&self.machine.places).acquire_owned()).await;
        let place = place.map_err(|_| later("the node is busy"))?.map_err(|_| later("the node is about to end"))?;
        let session = self.machine.session(&self.state).await?;
        let (begun, asked, cancel) = (session.clone(), Arc::clone(request), self.cancel.clone());
        let started = blocking(move || {
            let mut request = Request::new(&asked.source).kind(asked.kind.into()).stdin(&asked.stdin).tools(tools);
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

    /// The tools that the request offers, as scripts have them, and where they are answered.
    fn tools(&self) -> Result<Offered, StepError> {
        let (mut tools, mut targets) = Offered::default();
        for offer in &self.request.tools {
            let callbacks = self.machine.callbacks.as_ref().ok_or_else(|| {
                StepError::invalid("the nodes of this fleet call no services; name those that they may with --callback")
            })?;
            let target = callbacks.target(&offer.name, &offer.callback);
            targets.push((offer.name.clone(), target.map_err(|refused| StepError::invalid(refused.to_string()))?));
            let tool = Tool::new(&offer.name, &offer.description).stepped().foreign();
            tools.push(match &offer.schema {
                Some(schema) => tool.schema(schema.clone()),
                None => tool,
            });
        }
        Ok((tools, targets))
    }

    /// Has a service answer a call.
    async fn ask(&self, running: &Running, call: &ToolRequest) -> Called {
        let session = &self.state.session.name;
        // The generation is another for each execution that left something, and the invocation for each at all.
        let key = format!("{session}/{}-{}/{}", self.state.next_execution(), self.invocation, call.id);
        let limits = &self.machine.policy().limits;
        let timeout = Duration::from_millis(limits.tool_timeout_ms);
        let target = running.targets.iter().find(|(name, _)| *name == call.name);
        let answer = match (target, &self.machine.callbacks) {
            (Some((_, target)), Some(callbacks)) => {
                let asked = Asked {
                    key: &key,
                    tool: &call.name,
                    arguments: &call.arguments,
                    call: call.id,
                    session: Some(session.id().as_str()),
                    deadline: Instant::now() + timeout,
                    cancel: running.started.cancel_token(),
                };
                callbacks.ask(target, asked).await
            }
            _ => Err(ToolError::new("nobody answers this tool")),
        };
        let answer = answer.and_then(|answer| match answer.len() as u64 > limits.tool_bytes {
            true => Err(ToolError::of(
                ToolErrorKind::Limit,
                format!("the answer of `{}` takes more than {} bytes", call.name, limits.tool_bytes),
            )),
            false => Ok(answer),
        });
        Called { call: call.id, tool: call.name.clone(), answer: answer.map_err(|error| Failure::from(&error)) }
    }

    /// Whether it ended as it did since somebody stopped it, or its time was over. That may come sooner than it did before.
    fn was_stopped(&self, execution: &Execution) -> bool {
        let is_late = matches!(execution.outcome, Outcome::Exhausted { resource: Resource::Time, .. });
        is_late || self.cancel.is_cancelled() || execution.outcome == Outcome::Cancelled
    }

    /// Stores the session as the script left it. `is_short`: it ended before it had got all the answers that were recorded.
    async fn end(&self, running: Running, execution: &Execution, is_short: bool) -> Result<Step, StepError> {
        let at = Timestamp::now();
        // A script that was stopped in the middle of something may leave a session that cannot go on, or has not seen what its tools answered:
        // then it is what it was before.
        let is_rolled_back = is_short || running.session.ended().is_some();
        let state = match is_rolled_back {
            true => self.state.unchanged(at),
            false => self.machine.save(&self.state, running.session, at).await?,
        };
        let execution = serde_json::to_string(execution).map_err(|error| StepError::failed(&error))?;
        if execution.len() > MAX_ANSWER_BYTES {
            return Err(StepError::invalid(format!(
                "the answer takes {} bytes, and at most {MAX_ANSWER_BYTES} are given; what was executed is undone, write less",
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
        Ok(Step::Done(Box::new(Done { state, executed })))
    }
}

/// Gives answers, and waits for what comes then.
async fn advance(started: &Arc<Started>, answers: Vec<ToolAnswer>) -> Result<Progress, StepError> {
    let started = Arc::clone(started);
    blocking(move || {
        started.advance(answers, None).map_err(|error| match error {
            AdvanceError::Execute(error) => refused(&error),
            // As every panic of a node's.
            error @ AdvanceError::Panicked => StepError::Later(error.to_string()),
            error => StepError::failed(&error),
        })
    })
    .await
}

/// What the sandbox refuses is the request's, and comes out the same everywhere, but for what a node has no room for.
fn refused(error: &ExecuteError) -> StepError {
    match is_of_the_moment(error) {
        true => StepError::Later(glovebox::with_causes(error)),
        false => StepError::invalid(glovebox::with_causes(error)),
    }
}

fn not_repeated() -> StepError {
    StepError::failed(&std::io::Error::other(
        "the execution was begun anew and did something else than before; nothing of it was stored",
    ))
}
