//! Operations on fleet sessions, and scripts in them.

use std::{convert::Infallible, time::Duration};

use glovebox::{CancelToken, CheckpointId, Execution, JsonText, Language, Rollback};
use glovebox_fleet::{ExecuteRequest, Executed, FleetClient, FleetError, FleetName, OpenRequest, ToolOffer};
use glovebox_requests::cancelled;
use glovebox_sessions::{PageRequest, SessionId, SessionsError};
use serde_json::value::RawValue;
use tracing::{Instrument as _, Span, info_span};

use super::{Fleet, NotInFleet, about, expected, generation};
use crate::{
    Changed, Door, SPANS, Script, Service, ServiceError, SessionPage, SessionSummary, Target, Tenant, Watch,
    audit::{Act, Executed as Counted, Failed},
    tenant::{
        executing::{CancelOnDrop, execution_span, record},
        work::NO_CALLBACKS,
    },
};

impl Fleet {
    /// Opens a session unless `most` are open.
    async fn open(&self, id: &SessionId, open: OpenRequest, most: usize) -> Result<SessionSummary, ServiceError> {
        let count = self.client.count(Some(&self.scope)).await?;
        if usize::try_from(count).unwrap_or(usize::MAX) >= most {
            return Err(ServiceError::TooMany { what: "sessions", most });
        }
        Ok(self.client.open(&self.name(id), open).await.map_err(about(id))?.into())
    }

    /// A page of the tenant's sessions.
    async fn list(&self, after: Option<&SessionId>, limit: usize) -> Result<SessionPage, ServiceError> {
        let after = after.map(|id| self.name(id));
        let page = self.client.list(Some(&self.scope), after.as_ref(), limit).await?;
        let next = page.next.map(|name| name.id().clone());
        let sessions = page.sessions.into_iter().map(SessionSummary::from).collect();
        Ok(SessionPage { sessions, next, ..SessionPage::default() })
    }

    /// Returns all pages.
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
    async fn close(&self, target: &Target) -> Result<bool, ServiceError> {
        let expected = expected(target)?;
        self.client.close(&self.name(&target.id), expected).await.map_err(about(&target.id))
    }
}

impl Tenant {
    /// Refuses an operation that is only for stored sessions, if the tenant's sessions are in a fleet.
    pub(in crate::tenant) fn check_stored(&self, what: NotInFleet) -> Result<(), ServiceError> {
        match self.inner.fleet {
            Some(_) => Err(ServiceError::NotInFleet(what)),
            None => Ok(()),
        }
    }

    pub(in crate::tenant) async fn open_in_fleet(
        &self,
        fleet: &Fleet,
        id: Option<SessionId>,
        language: Option<Language>,
        runtime: Option<&str>,
        context: Option<JsonText>,
    ) -> Result<SessionSummary, ServiceError> {
        let id = id.unwrap_or_else(SessionId::random);
        let language = match (language, runtime) {
            // The default without a fleet: the first served runtime.
            (None, None) => self.inner.service.runtimes().next().map(|info| info.language),
            (language, _) => language,
        };
        let open =
            OpenRequest { language, runtime: runtime.map(str::to_owned), context: context.map(json).transpose()? };
        let (tenant, fleet) = (self.clone(), fleet.clone());
        let open = async move {
            let _making = tenant.making().await;
            let opened = fleet.open(&id, open, tenant.inner.max_sessions).await;
            tenant.record_act(&id, Act::new("open"), opened)
        };
        self.ask_fleet(None, "open", open).await
    }

    pub(in crate::tenant) async fn list_in_fleet(&self, fleet: &Fleet) -> Result<SessionPage, ServiceError> {
        let fleet = fleet.clone();
        self.ask_fleet(None, "list", async move { fleet.list_all().await }).await
    }

    pub(in crate::tenant) async fn list_page_in_fleet(
        &self,
        fleet: &Fleet,
        page: PageRequest,
    ) -> Result<SessionPage, ServiceError> {
        let fleet = fleet.clone();
        let list = async move { fleet.list(page.begins_after(), page.limit()).await };
        self.ask_fleet(None, "list", list).await
    }

    pub(in crate::tenant) async fn session_in_fleet(
        &self,
        fleet: &Fleet,
        id: &SessionId,
    ) -> Result<SessionSummary, ServiceError> {
        let (fleet, id) = (fleet.clone(), id.clone());
        let info = async move { Ok(fleet.client.info(&fleet.name(&id)).await.map_err(about(&id))?.into()) };
        self.ask_fleet(None, "info", info).await
    }

    /// Undoes the last execution. Refuses a named checkpoint: a fleet stores only the state before the last execution.
    pub(in crate::tenant) async fn undo_in_fleet(
        &self,
        fleet: &Fleet,
        target: Target,
        to: Option<CheckpointId>,
    ) -> Result<Changed<CheckpointId>, ServiceError> {
        if to.is_some() {
            return Err(ServiceError::NotInFleet(NotInFleet::Checkpoints));
        }
        let (tenant, fleet, id) = (self.clone(), fleet.clone(), target.id.clone());
        let undo = async move {
            let undone = match expected(&target) {
                Ok(expected) => fleet.client.undo(&fleet.name(&target.id), expected).await.map_err(about(&target.id)),
                Err(error) => Err(error),
            };
            let session = tenant.record_act(&target.id, Act::new("undo"), undone)?;
            let value = CheckpointId(session.generation);
            Ok(Changed { value, generation: Some(SessionSummary::from(session).generation) })
        };
        self.ask_fleet(Some(&id), "undo", undo).await
    }

    pub(in crate::tenant) async fn close_in_fleet(&self, fleet: &Fleet, target: Target) -> Result<(), ServiceError> {
        let (tenant, fleet, id) = (self.clone(), fleet.clone(), target.id.clone());
        let close = async move {
            let closed = fleet.close(&target).await.and_then(|was_there| match was_there {
                true => Ok(()),
                false => Err(SessionsError::NotFound { id: target.id.clone() }.into()),
            });
            tenant.record_act(&target.id, Act::new("close"), closed)
        };
        self.ask_fleet(Some(&id), "close", close).await
    }

    pub(in crate::tenant) async fn remove_in_fleet(&self, fleet: &Fleet, id: &SessionId) -> Result<bool, ServiceError> {
        let (tenant, fleet, target) = (self.clone(), fleet.clone(), Target::from(id));
        let remove = async move {
            let removed = fleet.close(&target).await;
            tenant.record_act(&target.id, Act::new("remove"), removed)
        };
        self.ask_fleet(Some(id), "close", remove).await
    }

    /// Sends an operation to the fleet once the tenant, and the session if one is named, admit it. A started operation
    /// is completed and recorded even if the caller is gone.
    async fn ask_fleet<T: Send + 'static>(
        &self,
        id: Option<&SessionId>,
        operation: &'static str,
        ask: impl Future<Output = Result<T, ServiceError>> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let held = self.admit_to_fleet(id).await?;
        let asked = async move {
            let _held = held;
            ask.await
        };
        let span = info_span!(target: SPANS, "fleet", operation);
        tokio::spawn(asked.instrument(span)).await.map_err(|_| ServiceError::Panicked)?
    }
}

/// Converts JSON for the fleet.
pub(super) fn json(text: JsonText) -> Result<Box<RawValue>, ServiceError> {
    RawValue::from_string(text.into()).map_err(|error| ServiceError::Invalid(format!("`context`: {error}")))
}

/// Initial and maximum delay before a cancellation is sent again. An execution that still waits for its turn ignores
/// the earlier ones.
const STOP_AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

impl Fleet {
    /// Executes a script until it ends. Cancels it when the token is cancelled.
    async fn execute(
        &self,
        id: &SessionId,
        request: ExecuteRequest,
        key: Option<&str>,
        cancel: &CancelToken,
    ) -> Result<Executed, ServiceError> {
        let (name, execution) = (self.name(id), request.id.clone());
        tokio::select! {
            executed = self.client.execute(&name, request, key) => executed.map_err(about(id)),
            never = self.stop(&name, execution.as_deref(), cancel) => match never {},
        }
    }

    /// Cancels an execution once the token is cancelled. Never returns: `execute` returns with the execution's answer.
    async fn stop(&self, name: &FleetName, execution: Option<&str>, cancel: &CancelToken) -> Infallible {
        cancelled(cancel).await;
        let (mut again, most) = STOP_AGAIN;
        loop {
            if let Err(error) = self.client.cancel(name, execution).await {
                tracing::debug!(target: "glovebox", session = %name, %error, "cannot cancel an execution");
            }
            tokio::time::sleep(again).await;
            again = (again * 2).min(most);
        }
    }
}

impl Tenant {
    /// Runs a script in a fleet session. Its output arrives at the end.
    pub(in crate::tenant) async fn execute_in_fleet<T: Send + 'static>(
        &self,
        fleet: &Fleet,
        door: Door,
        target: Target,
        mut script: Script,
        watch: Watch,
        then: impl FnOnce(Execution, Option<String>) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let (source, id) = (script.source.clone(), target.id.clone());
        let key = script.key.take().map(|key| format!("{}/{key}", fleet.scope));
        let admitted = async {
            let request = self.fleet_request(&target, script, key.as_deref())?;
            self.check_rate()?;
            Ok((request, self.admit_to_fleet(Some(&id)).await?))
        };
        let (request, held) = admitted.await.inspect_err(|error| self.refused(door, error))?;
        let token = self.inner.service.token();
        let _cancel = CancelOnDrop(token.clone());
        let stopped = token.clone();
        let _hook = watch.cancel.as_ref().map(|cancel| cancel.on_cancel(move || stopped.cancel()));
        let (tenant, fleet, span) = (self.clone(), fleet.clone(), execution_span(&Span::current()));
        // Completed and recorded even if the caller is gone.
        let work = async move {
            let _held = held;
            let asking = info_span!(target: SPANS, "fleet", operation = "execute");
            let executed = fleet.execute(&id, request, key.as_deref(), &token).instrument(asking).await;
            let span = Span::current();
            let end = move || {
                let result = executed.and_then(|executed| read(executed, &id));
                let execution = result.as_ref().map(|(execution, _)| execution);
                record(&span, &execution.map(Counted::from).map_err(Failed::from));
                tenant.note(door, Some(&id), &source, execution);
                let (execution, generation) = result?;
                then(execution, Some(generation))
            };
            Service::blocking(end).await?
        };
        tokio::spawn(work.instrument(span)).await.map_err(|_| ServiceError::Panicked)?
    }

    /// Builds the request to the fleet. Callback addresses must be on this tenant's allow list; the nodes have an allow list of their
    /// own.
    fn fleet_request(
        &self,
        target: &Target,
        script: Script,
        key: Option<&str>,
    ) -> Result<ExecuteRequest, ServiceError> {
        if script.wants_files {
            return Err(ServiceError::NotInFleet(NotInFleet::Files));
        }
        if !script.tools.is_empty() {
            return Err(ServiceError::NotInFleet(NotInFleet::Stepping));
        }
        let mut tools = Vec::with_capacity(script.callbacks.len());
        for callback in script.callbacks {
            let callbacks = self.callbacks().ok_or_else(|| ServiceError::Invalid(NO_CALLBACKS.to_owned()))?;
            let refused = callbacks.target(&callback.name, &callback.url).err();
            if let Some(refused) = refused {
                return Err(ServiceError::Invalid(refused.to_string()));
            }
            let (name, description) = (callback.name, callback.description);
            tools.push(ToolOffer { name, description, schema: callback.schema, callback: callback.url });
        }
        Ok(ExecuteRequest {
            source: script.source,
            name: script.name,
            kind: script.kind,
            stdin: script.stdin,
            context: script.context.map(json).transpose()?,
            deadline_ms: script.cancel_after.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            tools,
            open: None,
            expected: expected(target)?,
            // A retry with the same key gets the same execution.
            id: Some(key.map_or_else(|| SessionId::random().to_string(), |key| format!("key {key}"))),
        })
    }
}

/// Parses an execution, and returns it with the session's generation. Call it on a blocking thread, because the JSON
/// may be long.
fn read(executed: Executed, id: &SessionId) -> Result<(Execution, String), ServiceError> {
    let wrong = |error: serde_json::Error| FleetError::Answer(format!("malformed execution: {error}"));
    let mut execution: Execution = serde_json::from_str(executed.execution.get()).map_err(wrong)?;
    execution.session_id = Some(id.to_string());
    if executed.is_rolled_back && execution.rolled_back_to.is_none() {
        let checkpoint = CheckpointId(executed.generation);
        execution.rolled_back_to = Some(Rollback { checkpoint, executions_lost: 0 });
    }
    Ok((execution, generation(executed.created_at, executed.generation)))
}
