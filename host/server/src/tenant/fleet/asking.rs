//! Operations on fleet sessions other than execution.

use glovebox::{CheckpointId, JsonText, Language};
use glovebox_fleet::{FleetClient, OpenRequest};
use glovebox_sessions::{PageRequest, SessionId, SessionsError};
use serde_json::value::RawValue;
use tracing::{Instrument as _, info_span};

use super::{Fleet, NotInFleet, about, expected};
use crate::{Changed, SPANS, ServiceError, SessionPage, SessionSummary, Target, Tenant, audit::Act};

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
    pub(in super::super) fn check_stored(&self, what: NotInFleet) -> Result<(), ServiceError> {
        match self.0.fleet {
            Some(_) => Err(ServiceError::NotInFleet(what)),
            None => Ok(()),
        }
    }

    pub(in super::super) async fn open_in_fleet(
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
            (None, None) => self.0.service.runtimes().next().map(|info| info.language),
            (language, _) => language,
        };
        let open =
            OpenRequest { language, runtime: runtime.map(str::to_owned), context: context.map(json).transpose()? };
        let (tenant, fleet) = (self.clone(), fleet.clone());
        let open = async move {
            let _making = tenant.making().await;
            let opened = fleet.open(&id, open, tenant.0.max_sessions).await;
            tenant.told(&id, Act::new("open"), opened)
        };
        self.ask_fleet(None, "open", open).await
    }

    pub(in super::super) async fn list_in_fleet(&self, fleet: &Fleet) -> Result<SessionPage, ServiceError> {
        let fleet = fleet.clone();
        self.ask_fleet(None, "list", async move { fleet.list_all().await }).await
    }

    pub(in super::super) async fn list_page_in_fleet(
        &self,
        fleet: &Fleet,
        page: PageRequest,
    ) -> Result<SessionPage, ServiceError> {
        let fleet = fleet.clone();
        let list = async move { fleet.list(page.begins_after(), page.limit()).await };
        self.ask_fleet(None, "list", list).await
    }

    pub(in super::super) async fn session_in_fleet(
        &self,
        fleet: &Fleet,
        id: &SessionId,
    ) -> Result<SessionSummary, ServiceError> {
        let (fleet, id) = (fleet.clone(), id.clone());
        let info = async move { Ok(fleet.client.info(&fleet.name(&id)).await.map_err(about(&id))?.into()) };
        self.ask_fleet(None, "info", info).await
    }

    /// Undoes the last execution. Refuses a named checkpoint: a fleet stores only the state before the last execution.
    pub(in super::super) async fn undo_in_fleet(
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
            let session = tenant.told(&target.id, Act::new("undo"), undone)?;
            let value = CheckpointId(session.generation);
            Ok(Changed { value, generation: Some(SessionSummary::from(session).generation) })
        };
        self.ask_fleet(Some(&id), "undo", undo).await
    }

    pub(in super::super) async fn close_in_fleet(&self, fleet: &Fleet, target: Target) -> Result<(), ServiceError> {
        let (tenant, fleet, id) = (self.clone(), fleet.clone(), target.id.clone());
        let close = async move {
            let closed = fleet.close(&target).await.and_then(|was_there| match was_there {
                true => Ok(()),
                false => Err(SessionsError::NotFound { id: target.id.clone() }.into()),
            });
            tenant.told(&target.id, Act::new("close"), closed)
        };
        self.ask_fleet(Some(&id), "close", close).await
    }

    pub(in super::super) async fn remove_in_fleet(&self, fleet: &Fleet, id: &SessionId) -> Result<bool, ServiceError> {
        let (tenant, fleet, target) = (self.clone(), fleet.clone(), Target::from(id));
        let remove = async move {
            let removed = fleet.close(&target).await;
            tenant.told(&target.id, Act::new("remove"), removed)
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
