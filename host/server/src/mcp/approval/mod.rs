//! Approval of tool calls: `run_code` asks the client's user before a script calls certain tools. These are the tools
//! that the policy marks ([`ToolPolicy::approve`](glovebox::ToolPolicy::approve)), and
//! [`TenantConfig::approved_tools`](crate::TenantConfig::approved_tools).
//!
//! To the engine, these are stepped tools: the caller answers their calls. When a script waits for such calls, the
//! server suspends the execution as bytes and asks the client's user. Afterwards, the server resumes the execution,
//! which repeats its earlier steps until it waits for the same calls. The server runs the handlers of the approved
//! calls, and passes their results to the script.
//!
//! * [`decision`]: the questions and answers. [`request_state`]: the state that the client returns.
//! * In a session, the bytes contain the state before the execution. They are resumed only if the session has not
//!   changed since the suspension. If an execution in a session cannot be suspended, for example because it is too
//!   large, it waits in memory instead, where its limits apply.

mod decision;
mod request_state;

use std::time::{Duration, Instant};

use glovebox::{
    CancelToken, JsonText, RelayedCall, SuspendRefusal, Suspended, Tool, ToolAnswer, ToolError, ToolErrorKind,
    ToolRequest,
};
use rmcp::{
    RoleServer,
    model::{CallToolResponse, CallToolResult, InputRequiredResult, InputResponses},
    service::RequestContext,
};
use tokio::{runtime::Handle, task::JoinSet};

use super::{LastLine, McpServer, answer::AnswerBuilder, arguments as given, http::Account};
use crate::{
    ChangeResult, Door, FinishedExecution, Resumption, Service, ServiceError, StepOutcome, Tenant, Work,
    byte_budget::{BudgetExhausted, ChargedBytes, Room},
    tenant::CancelOnDrop,
};
use decision::{ANSWER_TIME, Approver, Decision, Decisions, MAX_QUESTIONS, decisions, questions, request_decisions};
use request_state::{
    ArgumentsDigest, CallDigest, MAX_SUSPENDED_BYTES, Nonce, OpenedState, SuspendedRun, WaitingRun, call_digest,
    call_nonce,
};

pub(super) use request_state::{RequestStates, with_digest};

/// The interval between attempts to suspend or to continue an execution. Suspending fails while a handler of another
/// tool is running.
const RETRY: Duration = Duration::from_millis(20);

/// Maximum time to retry delivering a decision or result to an execution while the server is busy.
const ANSWERED_TIME: Duration = Duration::from_secs(60);

/// The number of copies of a suspended execution in memory while a result is built from it.
const COPIES: usize = 2;

/// The error message for an execution whose session has changed since the suspension.
const SESSION_CHANGED: &str = "another request has changed the session or continued the script; check whether its calls \
                               have run: `run_code` without `requestState` runs the script from the start";

/// Maximum time for the handler of an approved call, whatever the policy allows.
const MAX_HANDLER_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// A call to `run_code` whose script can call tools that need approval.
pub(super) struct ApprovedRun<'a> {
    pub(super) server: &'a McpServer,
    /// The server's tenant, for this request.
    pub(super) tenant: &'a Tenant,
    pub(super) given: given::RunCode,
    pub(super) arguments: ArgumentsDigest,
    pub(super) context: &'a RequestContext<RoleServer>,
    pub(super) last: LastLine,
}

type ApprovalStep = StepOutcome<CallToolResult>;

/// The result of an attempt to suspend an execution as bytes.
enum SuspendAttempt {
    /// The bytes, and the memory reserved for them.
    Suspended(SuspendedRun, ChargedBytes),
    /// The execution can never be suspended, but can wait in memory.
    InMemory,
    /// The execution continues with these answers, which refuse its calls. Without answers, another attempt can
    /// succeed: the script has continued or ended, or another tool's handler is running.
    Continues(Vec<ToolAnswer>),
}

/// An execution that waits in memory. Cancelled on drop, unless [`keep`](Self::keep) was called.
struct CancelWaiting {
    tenant: Tenant,
    execution: Option<String>,
}

impl CancelWaiting {
    fn keep(mut self) {
        self.execution = None;
    }
}

impl Drop for CancelWaiting {
    fn drop(&mut self) {
        let Some(execution) = self.execution.take() else { return };
        // There is no runtime if the process is about to end.
        let Ok(runtime) = Handle::try_current() else { return };
        let tenant = self.tenant.clone();
        runtime.spawn(async move {
            let _ = tenant.cancel_then(&execution, |_: FinishedExecution| Ok(())).await;
        });
    }
}

impl ApprovedRun<'_> {
    /// Runs the script, or resumes it from the client's state, until it ends or the client must decide about calls.
    pub(super) async fn run(
        &self,
        state: Option<String>,
        responses: InputResponses,
    ) -> Result<CallToolResponse, ServiceError> {
        let mut state = match state {
            Some(state) => Some(self.open(state).await?),
            None => None,
        };
        let is_in_memory = matches!(state, Some(OpenedState { run: WaitingRun::InMemory(_), .. }));
        let (mut decisions, mut question_digests, mut step) = match &mut state {
            Some(opened) => (
                decisions(responses)?,
                std::mem::take(&mut opened.question_digests),
                self.resume_run(&mut opened.run).await?,
            ),
            None => (Decisions::new(), Vec::new(), self.start(None).await?),
        };
        let approver = Approver::of(self.context);
        loop {
            let needs = match step {
                StepOutcome::Done(result) => return Ok(result.into()),
                StepOutcome::NeedsTools(needs) => needs,
            };
            let waiting = CancelWaiting { tenant: self.tenant.clone(), execution: Some(needs.execution.clone()) };
            let (decided, open) =
                split(needs.calls, std::mem::take(&mut decisions), &std::mem::take(&mut question_digests), &approver);
            if !decided.is_empty() {
                let nonces = match is_in_memory {
                    true => nonces_in_memory(&needs.execution, &decided, &approver),
                    false => nonce(&decided, &mut state).into_iter().collect(),
                };
                if let Err(error) = self.server.0.states.use_once(&nonces) {
                    if is_in_memory {
                        // The execution continues in the request that answers the calls.
                        waiting.keep();
                    }
                    return Err(error);
                }
                let answers = self.answers(decided, &needs.execution, needs.expires_after).await;
                step = self.advance_answered(&needs.execution, answers).await?;
                waiting.keep();
                continue;
            }
            let (run, held) = match self.suspend(&needs.execution, &open).await? {
                SuspendAttempt::Suspended(run, held) => (WaitingRun::Suspended(run), held),
                SuspendAttempt::InMemory => (WaitingRun::InMemory(needs.execution.clone()), ChargedBytes::default()),
                SuspendAttempt::Continues(answers) => {
                    step = self.advance(&needs.execution, answers).await?;
                    waiting.keep();
                    continue;
                }
            };
            if let Approver::Answers(peer) = &approver {
                question_digests = digests(&open);
                step = match run {
                    WaitingRun::Suspended(run) => {
                        decisions = request_decisions(peer, &open, ANSWER_TIME).await?;
                        self.start_answered(run).await?
                    }
                    WaitingRun::InMemory(execution) => {
                        // Stop waiting before the execution times out, so that the script gets `ToolDenied`.
                        decisions = request_decisions(peer, &open, needs.expires_after.mul_f64(0.9)).await?;
                        self.advance(&execution, Vec::new()).await?
                    }
                };
                waiting.keep();
                continue;
            }
            if let WaitingRun::Suspended(SuspendedRun { generation: Some(generation), .. }) = &run
                && let Some(session) = &self.given.session
            {
                self.tenant.release_session(given::session_id(session)?, generation.clone()).await;
            }
            let state = self.close(run, digests(&open)).await?;
            let questions = questions(&open)?;
            waiting.keep();
            self.tenant.keep([Room::ChargedBytes(held)]);
            return Ok(InputRequiredResult::new(Some(questions), Some(state)).into());
        }
    }

    /// Verifies a state that the client returned. Decoding and hashing 6 MiB takes about 20 ms, so this runs on a
    /// blocking thread.
    async fn open(&self, state: String) -> Result<OpenedState, ServiceError> {
        let (server, arguments) = (self.server.clone(), self.arguments);
        Service::blocking(move || server.0.states.open(&state, &arguments)).await?
    }

    /// Returns the state for the client. Runs on a blocking thread, like [`open`](Self::open).
    async fn close(&self, run: WaitingRun, question_digests: Vec<CallDigest>) -> Result<String, ServiceError> {
        let (server, arguments) = (self.server.clone(), self.arguments);
        Service::blocking(move || server.0.states.close(&run, &question_digests, &arguments)).await?
    }

    fn is_in_session(&self) -> bool {
        self.given.session.is_some()
    }

    /// Returns `true` if executions are suspended as bytes. Executions of sessions in memory wait in memory.
    fn is_suspendable(&self) -> bool {
        !self.is_in_session() || self.tenant.open_sessions().is_none()
    }

    /// Starts the script, or resumes it. In a session, resuming fails if the session has changed since the suspension.
    async fn start(&self, suspended: Option<SuspendedRun>) -> Result<ApprovalStep, ServiceError> {
        let mut given = self.given.clone();
        if suspended.is_some() && self.is_in_session() {
            // The state before the execution contains the files. Writing them again would change the session.
            given.files = Vec::new();
        }
        let mut work = self.server.work(given).await?;
        let script = work.script();
        // The sandbox already has the tools that the policy marks, except on the nodes of a fleet.
        let offered: &[Tool] = match self.tenant.is_in_fleet() && self.is_in_session() {
            true => &[],
            false => self.tenant.tools(),
        };
        let is_missing = |tool: &&Tool| offered.iter().all(|other| other.name() != tool.name());
        let missing = self.tenant.approved_tools().iter().filter(is_missing);
        script.tools = missing.map(|tool| tool.clone().stepped()).collect();
        script.suspendable = self.is_suspendable();
        if let Some(SuspendedRun { bytes, generation }) = suspended {
            // The bytes contain the source, which would count twice when the execution is suspended again.
            script.source = String::new();
            script.resumption = Some(Resumption { suspended: bytes, answers: Vec::new() });
            // Changes the session's generation, so that no server can resume the same bytes again and repeat the
            // approved calls.
            script.saves_restored = true;
            if let Work::InSession(target, _) = &mut work {
                target.expected = generation;
            }
        }
        let answering = AnswerBuilder::new(self.server, &self.given)?;
        let then = move |ended: FinishedExecution| Ok(answering.answer(ended.execution()));
        let started = self.tenant.start_then(Door::Mcp, work, Vec::new(), self.last.watch(), then).await;
        // Compare the code, which also identifies an error from a worker or a fleet.
        started.map_err(|error| match error.code() {
            "generation" => ServiceError::Invalid(SESSION_CHANGED.to_owned()),
            _ => error,
        })
    }

    /// Resumes a suspended execution after a person has decided. Retries while the server is busy, so that the decision
    /// is not lost. Resuming calls no tool, so it can be retried.
    async fn start_answered(&self, suspended: SuspendedRun) -> Result<ApprovalStep, ServiceError> {
        let end = Instant::now() + ANSWERED_TIME;
        loop {
            let error = match self.start(Some(suspended.clone())).await {
                Err(error) => error,
                started => return started,
            };
            let wait = error.retry_after().filter(|_| !matches!(error, ServiceError::Draining));
            match wait {
                Some(wait) if Instant::now() + wait < end => tokio::time::sleep(wait).await,
                _ => return Err(error),
            }
        }
    }

    /// Resumes a waiting run. Reserves memory for its decoded execution, until the response to this request is charged.
    async fn resume_run(&self, run: &mut WaitingRun) -> Result<ApprovalStep, ServiceError> {
        match run {
            WaitingRun::Suspended(suspended) => {
                let bytes = &suspended.bytes;
                let memory_bytes = Suspended::peek(bytes).map_or(bytes.len(), |peek| peek.memory_bytes);
                let held = Account::reserve(self.context, memory_bytes);
                self.tenant.keep([Room::ChargedBytes(held.map_err(|BudgetExhausted| ServiceError::NoRoomToSuspend)?)]);
                self.start(Some(std::mem::take(suspended))).await
            }
            WaitingRun::InMemory(execution) => self.advance(execution, Vec::new()).await,
        }
    }

    /// Passes answers to an execution in memory.
    async fn advance(&self, execution: &str, answers: Vec<ToolAnswer>) -> Result<ApprovalStep, ServiceError> {
        let answering = AnswerBuilder::new(self.server, &self.given)?;
        let then = move |ended: FinishedExecution| Ok(answering.answer(ended.execution()));
        self.tenant.resume_then(execution, answers, self.last.watch(), then).await
    }

    /// Like [`advance`](Self::advance), but retries while other requests occupy the server or the execution, or a fleet
    /// does not answer. The calls have been made, so the script must receive their results.
    async fn advance_answered(&self, execution: &str, answers: Vec<ToolAnswer>) -> Result<ApprovalStep, ServiceError> {
        let end = Instant::now() + ANSWERED_TIME;
        loop {
            self.tenant.restart_timeout(execution);
            let advanced = self.advance(execution, answers.clone()).await;
            let is_busy = matches!(
                advanced,
                Err(ServiceError::QueueFull { .. }
                    | ServiceError::NoTurn { .. }
                    | ServiceError::ExecutionBusy { .. }
                    | ServiceError::StepUnanswered)
            );
            if !is_busy || Instant::now() >= end {
                return advanced;
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Tries to suspend an execution as bytes.
    async fn suspend(&self, execution: &str, calls: &[ToolRequest]) -> Result<SuspendAttempt, ServiceError> {
        if !self.is_suspendable() {
            return Ok(SuspendAttempt::InMemory);
        }
        let mut is_too_large = false;
        let reserve = |bytes: usize| {
            if bytes > MAX_SUSPENDED_BYTES {
                is_too_large = true;
                return Err(ServiceError::NotSuspendable(String::new()));
            }
            Account::reserve(self.context, bytes * COPIES).map_err(|BudgetExhausted| ServiceError::NoRoomToAsk)
        };
        let error = match self.tenant.suspend_to_bytes(execution, reserve).await {
            Ok((ChangeResult { generation: None, .. }, _)) if self.is_in_session() => {
                return Err(ServiceError::NotSuspendable(
                    "its session could not be saved; run the script again".to_owned(),
                ));
            }
            Ok((ChangeResult { value: bytes, generation }, mut held)) => {
                held.shrink(bytes.len() * COPIES);
                return Ok(SuspendAttempt::Suspended(SuspendedRun { bytes, generation }, held));
            }
            Err(error) => error,
        };
        let full = SuspendRefusal::JournalFull.to_string();
        let reason = match is_too_large {
            true => "the script and the data it received are too large to suspend for an approval; pass less data",
            false if error.code() != "not-suspendable" => return Err(error),
            false if error.to_string().contains(&full) => &full,
            false => {
                tokio::time::sleep(RETRY).await;
                return Ok(SuspendAttempt::Continues(Vec::new()));
            }
        };
        if self.is_in_session() {
            return Ok(SuspendAttempt::InMemory);
        }
        let refused = |call: &ToolRequest| ToolAnswer::error(call.id, ToolError::of(ToolErrorKind::Limit, reason));
        Ok(SuspendAttempt::Continues(calls.iter().map(refused).collect()))
    }

    /// Calls the handlers of approved calls concurrently, and returns the answers to all calls. Meanwhile, the
    /// execution does not time out, although a handler may take longer than `expires_after`.
    async fn answers(
        &self,
        decided: Vec<(ToolRequest, Decision)>,
        execution: &str,
        expires_after: Duration,
    ) -> Vec<ToolAnswer> {
        let mut answers = Vec::new();
        let mut handlers = JoinSet::new();
        let limits = &self.tenant.policy().limits;
        let time = Duration::from_millis(limits.tool_timeout_ms).min(MAX_HANDLER_TIME);
        for (call, decision) in decided {
            let tool = self.tenant.approved_tools().iter().find(|tool| tool.name() == call.name).cloned();
            match (decision, tool) {
                (Decision::Approved, Some(tool)) => {
                    let (session, memory_bytes) = (self.given.session.clone(), limits.memory_bytes);
                    handlers.spawn(handle(tool, call, session, memory_bytes, time));
                }
                (Decision::Approved, None) => {
                    let error = ToolError::of(ToolErrorKind::Unknown, "the server does not offer this tool");
                    answers.push(ToolAnswer::error(call.id, error));
                }
                (Decision::Denied(reason), _) => {
                    answers.push(ToolAnswer::error(call.id, ToolError::of(ToolErrorKind::Denied, reason)));
                }
            }
        }
        // `interval` panics if its period is zero.
        let mut ticks = tokio::time::interval((expires_after / 4).max(RETRY));
        loop {
            tokio::select! {
                answer = handlers.join_next() => match answer {
                    Some(answer) => answers.extend(answer),
                    None => return answers,
                },
                _ = ticks.tick() => self.tenant.restart_timeout(execution),
            }
        }
    }
}

/// Separates the calls with a decision from the calls about which the client must be asked. `question_digests`
/// identifies the calls that the last questions showed, with their arguments. Decisions about other calls are ignored,
/// because a faulty worker can report other calls for a resumed execution.
fn split(
    calls: Vec<ToolRequest>,
    mut decisions: Decisions,
    question_digests: &[CallDigest],
    approver: &Approver,
) -> (Vec<(ToolRequest, Decision)>, Vec<ToolRequest>) {
    let (mut decided, mut open) = (Vec::new(), Vec::new());
    for call in calls {
        // A call that the client cannot approve is denied, even if the client sends an approval.
        if let Some(decision) = approver.decide(&call) {
            decided.push((call, decision));
            continue;
        }
        match decisions.remove(&call.id) {
            Some(decision) if question_digests.contains(&call_digest(&call)) => decided.push((call, decision)),
            _ => open.push(call),
        }
    }
    (decided, open)
}

/// Takes the `state` of a suspended execution if approved calls are about to be made, and returns its nonce for
/// [`RequestStates::use_once`].
fn nonce(decided: &[(ToolRequest, Decision)], state: &mut Option<OpenedState>) -> Option<Nonce> {
    let is_approved = decided.iter().any(|(_, decision)| *decision == Decision::Approved);
    let used = if is_approved { state.take() } else { None };
    used.map(|opened| opened.nonce)
}

/// Returns the nonces of an execution in memory, for [`RequestStates::use_once`]. Several states can contain the same
/// call, so each call has a nonce. A denial without a question has no effects, so it needs no nonce.
fn nonces_in_memory(execution: &str, decided: &[(ToolRequest, Decision)], approver: &Approver) -> Vec<Nonce> {
    let decided = decided.iter().filter(|(call, _)| approver.decide(call).is_none());
    decided.map(|(call, _)| call_nonce(execution, call.id)).collect()
}

/// Returns the digests of the calls that the next questions show.
fn digests(open: &[ToolRequest]) -> Vec<CallDigest> {
    open.iter().take(MAX_QUESTIONS).map(call_digest).collect()
}

/// Calls the handler of a tool. Cancels the call at its timeout, or if the future is dropped.
async fn handle(
    tool: Tool,
    call: ToolRequest,
    session_id: Option<String>,
    memory_bytes: u64,
    time: Duration,
) -> ToolAnswer {
    let cancel = CancelOnDrop(CancelToken::new());
    let relayed = RelayedCall {
        index: usize::try_from(call.id).unwrap_or(usize::MAX),
        session_id,
        cancel: cancel.0.clone(),
        deadline: Instant::now() + time,
        memory_bytes,
        budget: None,
    };
    let arguments = call.arguments;
    let handled = tokio::time::timeout(time, Service::blocking(move || tool.answer(relayed, arguments)));
    let answer = match handled.await {
        Ok(Ok(Ok(text))) => match JsonText::new(text) {
            Ok(text) => Ok(String::from(text)),
            Err(error) => Err(ToolError::new(format!("the tool's result is invalid: {error}"))),
        },
        Ok(Ok(Err(error))) => Err(error),
        Ok(Err(_)) => Err(ToolError::new("the tool panicked")),
        Err(_) => Err(ToolError::of(
            ToolErrorKind::Timeout,
            format!("the tool did not answer within {} ms (`limits.tool_timeout_ms`)", time.as_millis()),
        )),
    };
    ToolAnswer { id: call.id, answer }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(id: u64, arguments: &str) -> ToolRequest {
        serde_json::from_value(json!({ "id": id, "name": "pay", "arguments": arguments })).unwrap()
    }

    #[test]
    fn decisions_apply_only_to_calls_as_they_were_shown() {
        let shown: Vec<ToolRequest> = (0..20).map(|id| call(id, "{}")).collect();
        let decisions = || (0..20).map(|id| (id, Decision::Approved)).collect::<Decisions>();
        let ids = |calls: Vec<ToolRequest>| {
            let (decided, open) = split(calls, decisions(), &digests(&shown), &Approver::Retries);
            let decided: Vec<u64> = decided.iter().map(|(call, _)| call.id).collect();
            (decided, open.iter().map(|call| call.id).collect::<Vec<u64>>())
        };
        let (first, others): (Vec<u64>, Vec<u64>) = (0..20).partition(|id| *id < MAX_QUESTIONS as u64);
        assert_eq!(ids(shown.clone()), (first, others));
        assert_eq!(ids(vec![call(0, r#"{"euros":1}"#), call(1, "{}"), call(30, "{}")]), (vec![1], vec![0, 30]));
        assert!(split(shown.clone(), decisions(), &[], &Approver::Retries).0.is_empty(), "no call was shown");
    }
}
