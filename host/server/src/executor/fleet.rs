//! The executor for sessions in a fleet, whose nodes store and run them.

use std::{convert::Infallible, sync::Arc, time::Duration};

use glovebox::{CancelToken, CheckpointId, Execution, JsonText, Rollback, Timestamp, Tool};
use glovebox_fleet::{
    ExecuteReply, ExecuteRequest, ExpectedGeneration, FleetClient, FleetError, FleetName, FleetSession, OpenRequest,
    ToolOffer,
};
use glovebox_requests::cancelled;
use glovebox_sessions::{SessionId, SessionsError};
use serde_json::value::RawValue;
use tracing::{Instrument as _, info_span};

use super::{
    BoxFuture, Completion, Executor, FinishedJob, Job, NOT_STEPPED, SessionAnswer, SessionCall, SessionOperation,
    SessionReply, SteppedExecution, ValidationResult,
    fleet_execution::{FleetExecution, FleetStart},
};
use crate::{
    ChangeResult, FreshScript, NO_CALLBACKS, SPANS, Script, Service, ServiceError, SessionPage, SessionSummary,
    SessionTarget, Work, tenant::generation, tools::Callbacks,
};

/// The executor that sends work on a tenant's sessions to a fleet, and other work to another executor.
pub(crate) struct FleetExecutor {
    pub(crate) fleet: Fleet,
    pub(crate) service: Service,
    pub(crate) callbacks: Option<Callbacks>,
    /// The tenant's name.
    pub(crate) tenant: String,
    pub(crate) others: Arc<dyn Executor>,
}

impl Executor for FleetExecutor {
    fn check_operation(&self, operation: &SessionOperation) -> Result<(), ServiceError> {
        let unsupported = match operation {
            SessionOperation::Fork { .. } => NotInFleet::Fork,
            SessionOperation::Import { .. } => NotInFleet::Import,
            SessionOperation::Export { .. } => NotInFleet::Export,
            SessionOperation::Hibernate { .. } => NotInFleet::Hibernate,
            SessionOperation::GetVariable { .. }
            | SessionOperation::SetVariable { .. }
            | SessionOperation::Variables { .. } => NotInFleet::Variables,
            SessionOperation::Files { .. } | SessionOperation::ChangeFiles { .. } => NotInFleet::Files,
            SessionOperation::Checkpoint { .. }
            | SessionOperation::Checkpoints { .. }
            | SessionOperation::Undo { to: Some(_), .. } => NotInFleet::Checkpoints,
            SessionOperation::Open { policy, .. } if !policy.is_empty() => NotInFleet::Policy,
            SessionOperation::Open { .. }
            | SessionOperation::List { .. }
            | SessionOperation::Describe { .. }
            | SessionOperation::Undo { to: None, .. }
            | SessionOperation::Close { .. }
            | SessionOperation::Remove { .. } => return Ok(()),
        };
        Err(ServiceError::NotInFleet(unsupported))
    }

    fn check_work(&self, work: &Work, is_stepped: bool) -> Result<(), ServiceError> {
        let Work::InSession(target, script) = work else { return self.others.check_work(work, is_stepped) };
        self.check(target, script, is_stepped)
    }

    fn has_remote_sessions(&self) -> bool {
        true
    }

    fn run(self: Arc<Self>, job: Job, done: Completion) {
        let (target, script) = match job.work {
            Work::InSession(target, script) => (target, *script),
            Work::Fresh(_) => return Arc::clone(&self.others).run(job, done),
        };
        let Job { cancel, span, .. } = job;
        // A separate task, because `run` must return immediately.
        let work = async move {
            let ran = self.run_in_session(&target, script, &cancel).await;
            // Parse on a blocking thread, because the JSON may be long.
            let read = move || done(ran.and_then(|executed| read(executed, &target.id)));
            let _ = Service::blocking(read).await;
        };
        tokio::spawn(work.instrument(span));
    }

    fn validate(&self, fresh: FreshScript) -> BoxFuture<'_, Result<ValidationResult, ServiceError>> {
        self.others.validate(fresh)
    }

    fn session(&self, call: SessionCall) -> BoxFuture<'_, Result<SessionReply, ServiceError>> {
        Box::pin(async move {
            let (fleet, service) = (self.fleet.clone(), self.service.clone());
            let span = info_span!(target: SPANS, "fleet", operation = operation_name(&call.operation));
            let work = async move { fleet.perform(&service, call.operation).await.map(SessionReply::from) };
            tokio::spawn(work.instrument(span)).await.map_err(|_| ServiceError::Panicked)?
        })
    }

    fn start(&self, job: Job) -> BoxFuture<'_, Result<Box<dyn SteppedExecution>, ServiceError>> {
        Box::pin(async move {
            let (target, mut script) = match job.work {
                Work::InSession(target, script) => (target, *script),
                Work::Fresh(_) => return self.others.start(job).await,
            };
            self.check(&target, &script, true)?;
            let key = self.fleet.key(&mut script);
            let (is_suspendable, cancel_after) = (script.is_suspendable(), script.cancel_after);
            let start = FleetStart {
                fleet: self.fleet.clone(),
                service: self.service.clone(),
                tenant: self.tenant.clone(),
                id: target.id.clone(),
                cancel: job.cancel,
                is_suspendable,
            };
            let request = request(&target, script, key.as_deref())?;
            Ok(Box::new(FleetExecution::new(start, request, key, cancel_after)) as Box<dyn SteppedExecution>)
        })
    }
}

/// Returns an operation's name for traces.
fn operation_name(operation: &SessionOperation) -> &'static str {
    match operation {
        SessionOperation::Open { .. } => "open",
        SessionOperation::List { .. } => "list",
        SessionOperation::Describe { .. } => "info",
        SessionOperation::Undo { .. } => "undo",
        _ => "close",
    }
}

impl FleetExecutor {
    /// Runs a script in a session. The output arrives only after the script has finished.
    async fn run_in_session(
        &self,
        target: &SessionTarget,
        mut script: Script,
        cancel: &CancelToken,
    ) -> Result<ExecuteReply, ServiceError> {
        self.check(target, &script, false)?;
        let key = self.fleet.key(&mut script);
        let request = request(target, script, key.as_deref())?;
        self.fleet.execute(&target.id, request, key.as_deref(), cancel).await
    }

    /// Rejects scripts that a fleet does not support. Callback URLs must match this tenant's patterns; the nodes
    /// additionally check their own patterns.
    fn check(&self, target: &SessionTarget, script: &Script, is_stepped: bool) -> Result<(), ServiceError> {
        expected_generation(target)?;
        if script.wants_files {
            return Err(ServiceError::NotInFleet(NotInFleet::Files));
        }
        if !is_stepped && script.is_suspendable() {
            return Err(ServiceError::Unsupported(NOT_STEPPED));
        }
        if script.tools.iter().any(|tool| !is_stepped || !tool.definition().is_stepped()) {
            return Err(ServiceError::NotInFleet(NotInFleet::Handlers));
        }
        for callback in &script.callbacks {
            let callbacks = self.callbacks.as_ref().ok_or_else(|| ServiceError::Invalid(NO_CALLBACKS.to_owned()))?;
            let checked = callbacks.target(&callback.name, &callback.url);
            checked.map_err(|refused| ServiceError::Invalid(refused.to_string()))?;
        }
        Ok(())
    }
}

/// Builds the request to the fleet.
fn request(target: &SessionTarget, script: Script, key: Option<&str>) -> Result<ExecuteRequest, ServiceError> {
    let called = script.callbacks.into_iter().map(|callback| {
        let (name, description) = (callback.name, callback.description);
        ToolOffer { name, description, schema: callback.schema, callback: Some(callback.url) }
    });
    let tools = called.chain(script.tools.iter().map(answered_tool));
    Ok(ExecuteRequest {
        source: script.source,
        name: script.name,
        kind: script.kind,
        stdin: script.stdin,
        context: script.context.map(json).transpose()?,
        deadline_ms: script.cancel_after.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        tools: tools.collect(),
        resumption: script.resumption,
        open: None,
        expected: expected_generation(target)?,
        // A retry with the same key waits for the first request's execution. Derive the ID from the key, so that the
        // retry can cancel that execution.
        id: Some(key.map_or_else(|| SessionId::random().to_string(), |key| format!("key {key}"))),
    })
}

/// Converts a tool whose calls the client answers.
fn answered_tool(tool: &Tool) -> ToolOffer {
    let tool = tool.definition();
    let (name, description) = (tool.name().to_owned(), tool.description().to_owned());
    ToolOffer { name, description, schema: Some(tool.schema().clone()), callback: None }
}

/// Converts JSON text to the type that the fleet's client uses.
fn json(text: JsonText) -> Result<Box<RawValue>, ServiceError> {
    RawValue::from_string(text.into()).map_err(|error| ServiceError::Invalid(format!("`context`: {error}")))
}

/// Parses the reply to an execution in a session.
pub(super) fn read(executed: ExecuteReply, id: &SessionId) -> Result<FinishedJob, ServiceError> {
    let wrong = |error: serde_json::Error| FleetError::Answer(format!("malformed execution: {error}"));
    let mut execution: Execution = serde_json::from_str(executed.execution.get()).map_err(wrong)?;
    execution.session_id = Some(id.to_string());
    if executed.is_rolled_back && execution.rolled_back_to.is_none() {
        let checkpoint = CheckpointId(executed.generation);
        execution.rolled_back_to = Some(Rollback { checkpoint, executions_lost: 0 });
    }
    Ok(FinishedJob::local(execution, Some(generation(executed.created_at, executed.generation))))
}

/// The initial and maximum delay between repeated cancellations. A cancellation has no effect on an execution that
/// still waits for its turn, so it must be repeated.
const STOP_AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// A tenant's sessions in a fleet. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    client: FleetClient,
    scope: SessionId,
}

impl Fleet {
    pub(crate) fn new(client: FleetClient, scope: SessionId) -> Self {
        Self { client, scope }
    }

    /// Takes a script's idempotency key, and converts it to the key of a request to the fleet. Each route has separate
    /// keys.
    fn key(&self, script: &mut Script) -> Option<String> {
        let route = if script.resumption.is_some() { "resume" } else { "execute" };
        script.key.take().map(|key| format!("{}/{route}/{key}", self.scope))
    }

    /// Returns the idempotency key of a step that has the ID `id`.
    pub(super) fn step_key(&self, id: &str) -> String {
        format!("{}/step/{id}", self.scope)
    }

    /// Returns a session's name in the fleet.
    fn name(&self, id: &SessionId) -> FleetName {
        FleetName::new(Some(self.scope.clone()), id.clone())
    }

    /// Opens a session unless `max` sessions exist.
    async fn open(&self, id: &SessionId, open: OpenRequest, max: usize) -> Result<SessionSummary, ServiceError> {
        let count = self.client.count(Some(&self.scope)).await?;
        if usize::try_from(count).unwrap_or(usize::MAX) >= max {
            return Err(ServiceError::TooMany { what: "sessions", max, remedy: "close one first" });
        }
        Ok(self.client.open(&self.name(id), open).await.map_err(with_tenant_name(id))?.into())
    }

    /// Returns a page of the tenant's sessions.
    async fn list(&self, after: Option<&SessionId>, limit: usize) -> Result<SessionPage, ServiceError> {
        let after = after.map(|id| self.name(id));
        let page = self.client.list(Some(&self.scope), after.as_ref(), limit).await?;
        let next = page.next.map(|name| name.id().clone());
        let sessions = page.sessions.into_iter().map(SessionSummary::from).collect();
        Ok(SessionPage { sessions, next, ..SessionPage::default() })
    }

    async fn list_all(&self) -> Result<SessionPage, ServiceError> {
        let mut all = SessionPage::default();
        loop {
            let page = self.list(all.next.as_ref(), FleetClient::MAX_PAGE).await?;
            all.sessions.extend(page.sessions);
            all.next = page.next;
            if all.next.is_none() {
                return Ok(all);
            }
        }
    }

    /// Closes a session. Returns `false` if it did not exist.
    async fn close(&self, target: &SessionTarget) -> Result<bool, ServiceError> {
        let expected = expected_generation(target)?;
        self.client.close(&self.name(&target.id), expected).await.map_err(with_tenant_name(&target.id))
    }

    async fn perform(&self, service: &Service, operation: SessionOperation) -> Result<SessionAnswer, ServiceError> {
        Ok(match operation {
            SessionOperation::Open { id, language, runtime, context, max, .. } => {
                let language = match (language, &runtime) {
                    // Use the same default as without a fleet: the first served runtime.
                    (None, None) => service.runtimes().next().map(|info| info.language),
                    (language, _) => language,
                };
                let open = OpenRequest { language, runtime, context: context.map(json).transpose()? };
                SessionAnswer::Session(Box::new(self.open(&id, open, max).await?))
            }
            SessionOperation::List { after, limit: Some(limit) } => {
                SessionAnswer::Page(self.list(after.as_ref(), limit).await?)
            }
            SessionOperation::List { limit: None, .. } => SessionAnswer::Page(self.list_all().await?),
            SessionOperation::Describe { id } => {
                let info = self.client.info(&self.name(&id)).await.map_err(with_tenant_name(&id))?;
                SessionAnswer::Session(Box::new(info.into()))
            }
            SessionOperation::Undo { target, .. } => {
                let undone = self.client.undo(&self.name(&target.id), expected_generation(&target)?).await;
                let session = undone.map_err(with_tenant_name(&target.id))?;
                let value = CheckpointId(session.generation);
                let generation = Some(SessionSummary::from(session).generation);
                SessionAnswer::Checkpoint(ChangeResult { value, generation })
            }
            SessionOperation::Close { target } => match self.close(&target).await? {
                true => SessionAnswer::Done,
                false => return Err(SessionsError::NotFound { id: target.id }.into()),
            },
            SessionOperation::Remove { id } => SessionAnswer::Removed(self.close(&(&id).into()).await?),
            // `check_operation` has already rejected all other operations.
            _ => return Err(ServiceError::Invalid("a fleet does not support this operation".to_owned())),
        })
    }

    /// Runs a script and waits for its end. Cancels the script when `cancel` is cancelled.
    pub(super) async fn execute(
        &self,
        id: &SessionId,
        request: ExecuteRequest,
        key: Option<&str>,
        cancel: &CancelToken,
    ) -> Result<ExecuteReply, ServiceError> {
        let (name, execution) = (self.name(id), request.id.clone());
        let executed = async {
            tokio::select! {
                executed = self.client.execute(&name, request, key) => executed.map_err(with_tenant_name(id)),
                never = self.stop(&name, execution.as_deref(), cancel) => match never {},
            }
        };
        executed.instrument(info_span!(target: SPANS, "fleet", operation = "execute")).await
    }

    /// Cancels an execution when the token is cancelled. Never returns: `execute` drops this future when the reply
    /// arrives.
    async fn stop(&self, name: &FleetName, execution: Option<&str>, cancel: &CancelToken) -> Infallible {
        cancelled(cancel).await;
        let (mut again, max) = STOP_AGAIN;
        loop {
            if let Err(error) = self.client.cancel(name, execution).await {
                tracing::debug!(target: "glovebox", session = %name, %error, "cannot cancel an execution");
            }
            tokio::time::sleep(again).await;
            again = (again * 2).min(max);
        }
    }
}

/// Parses the expected generation. Malformed text fails like a generation that the session does not have.
fn expected_generation(
    SessionTarget { id, expected }: &SessionTarget,
) -> Result<Option<ExpectedGeneration>, ServiceError> {
    let Some(text) = expected else { return Ok(None) };
    let parsed = text.split_once('-').and_then(|(created_ms, number)| {
        let created_at = Timestamp::from_unix_ms(created_ms.parse().ok()?);
        Some(ExpectedGeneration { created_at, generation: number.parse().ok()? })
    });
    parsed.map(Some).ok_or_else(|| FleetError::Changed(id.clone().into()).into())
}

/// Replaces the session's fleet name in an error with the tenant's name for the session.
fn with_tenant_name(id: &SessionId) -> impl FnOnce(FleetError) -> ServiceError {
    let id = id.clone();
    move |error| match error {
        FleetError::NotFound(_) => SessionsError::NotFound { id }.into(),
        FleetError::Exists(_) => SessionsError::Exists { id }.into(),
        FleetError::NoUndo(_) => FleetError::NoUndo(id.into()).into(),
        FleetError::Changed(_) => FleetError::Changed(id.into()).into(),
        error => error.into(),
    }
}

impl From<FleetSession> for SessionSummary {
    fn from(session: FleetSession) -> Self {
        Self {
            id: session.name.id().clone(),
            language: session.language,
            runtime: session.runtime,
            version: session.version,
            created_at: session.created_at,
            updated_at: session.updated_at,
            executions: session.executions,
            generation: generation(session.created_at, session.generation),
            files: None,
            bytes: session.bytes,
            live: None,
        }
    }
}

/// An operation that sessions in a fleet do not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotInFleet {
    /// Reading, changing and returning files.
    #[error(
        "a fleet does not support session files: read and write them from scripts in the session; pass input in `stdin` and `context`"
    )]
    Files,
    /// Reading and setting variables.
    #[error(
        "a fleet does not support session variables: print them from a script in the session, or set them from `context`"
    )]
    Variables,
    /// Taking and listing checkpoints, and restoring a specific checkpoint.
    #[error(
        "a fleet does not support checkpoints: `undo` without a `checkpoint` restores the state before the last execution"
    )]
    Checkpoints,
    /// Copying a session to a new ID.
    #[error("a fleet does not support forking sessions: open another session and execute the same scripts in it")]
    Fork,
    /// Exporting a session for another server.
    #[error("a fleet does not support exporting sessions: use a server with its own store (`--store`)")]
    Export,
    /// Importing a session that another server exported.
    #[error("a fleet does not support importing sessions: use a server with its own store (`--store`)")]
    Import,
    /// Evicting a session from memory.
    #[error("a fleet does not support hibernating sessions: each state is already stored before the response is sent")]
    Hibernate,
    /// Opening a session with its own policy.
    #[error("a fleet does not support sessions with a `policy`: remove `policy`; the policy of the nodes applies")]
    Policy,
    /// Tools with a handler in the server's process.
    #[error(
        "a fleet does not support the server's own tools: define each tool in the request, or execute outside a session"
    )]
    Handlers,
    /// Checking the types of a script in a session.
    #[error("a fleet does not support type checks in sessions: remove `check_types`, or execute outside a session")]
    TypeChecks,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(expected: &str) -> SessionTarget {
        SessionTarget { id: SessionId::new("s").unwrap(), expected: Some(expected.to_owned()) }
    }

    #[test]
    fn generation_round_trips_and_malformed_one_is_rejected() {
        let created_at = Timestamp::from_unix_ms(1_700_000_000_000);
        let text = generation(created_at, 7);
        assert_eq!(
            expected_generation(&target(&text)).unwrap(),
            Some(ExpectedGeneration { created_at, generation: 7 })
        );
        for none in ["", "7", "1-", "-7", "1-7-", "x-7", "1-18446744073709551616", "W/\"1-7"] {
            let error = expected_generation(&target(none)).unwrap_err();
            assert_eq!((error.code(), error.status()), ("generation", 412), "{none}");
        }
        assert_eq!(expected_generation(&SessionTarget { expected: None, ..target("") }).unwrap(), None);
    }

    #[test]
    fn fleet_errors_contain_the_clients_session_name() {
        let (id, name): (SessionId, FleetName) = (SessionId::new("notes").unwrap(), "team!notes".parse().unwrap());
        for (error, code, status) in [
            (FleetError::NotFound(name.clone()), "not-found", 404),
            (FleetError::Exists(name.clone()), "exists", 409),
            (FleetError::NoUndo(name.clone()), "no-checkpoint", 409),
            (FleetError::Changed(name), "generation", 412),
        ] {
            let error = with_tenant_name(&id)(error);
            assert_eq!((error.code(), error.status()), (code, status));
            assert!(error.public().to_string().contains("`notes`"), "{}", error.public());
        }
    }
}
