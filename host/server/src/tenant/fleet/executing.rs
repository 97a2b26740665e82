//! Runs scripts in fleet sessions.

use std::{convert::Infallible, time::Duration};

use glovebox::{CancelToken, CheckpointId, Execution, Rollback};
use glovebox_fleet::{ExecuteRequest, Executed, FleetError, FleetName, ToolOffer};
use glovebox_requests::cancelled;
use glovebox_sessions::SessionId;
use tracing::{Instrument as _, Span, info_span};

use super::{
    super::{
        executing::{CancelOnDrop, execution_span, record},
        script::NO_CALLBACKS,
    },
    Fleet, NotInFleet, about,
    asking::json,
    expected, generation,
};
use crate::{
    Door, SPANS, Script, Service, ServiceError, Target, Tenant, Watch,
    executed::{Executed as Counted, Failed},
};

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
    pub(in super::super) async fn execute_in_fleet<T: Send + 'static>(
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
        let token = self.0.service.token();
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
