//! Operations on a tenant's stored suspended executions.

use std::{sync::Arc, time::Duration};

use glovebox::{Timestamp, ToolRequest};
use glovebox_sessions::{PageRequest, SessionId, StoredVersion};
use serde::Serialize;
use tracing::{Instrument as _, Span};
use utoipa::ToSchema;

use super::{
    ChangeResult, Tenant,
    suspended_store::{
        EntryPage, ReadEntry, StoredExecution, SuspendedId, SuspendedRequest, SuspendedStore, not_found,
    },
};
use crate::{
    Service, ServiceError,
    audit::{AuditAction, AuditSubject},
};

/// The error message for tenants without a store for suspended executions.
const NO_STORE: &str = "this server does not store suspended executions; set `suspendable` instead of `suspend`, and \
                        store the bytes from `POST /v1/executions/{id}/suspend`";

/// The error message for an execution of a stored session, on a server whose sessions are in a fleet.
const STORED_SESSION: &str = "the execution was suspended in a session of a store, but this server's sessions are in a \
                              fleet; resume it on a server with that store";

/// The right to claim a stored execution. Its methods block.
pub(crate) struct Claim {
    store: Arc<SuspendedStore>,
    id: SuspendedId,
    version: StoredVersion,
}

impl Claim {
    /// Fails if the execution is no longer stored.
    pub(super) fn check(&self) -> Result<(), ServiceError> {
        self.store.check_stored(&self.id)
    }

    /// Removes the execution from the store, so that no other request resumes it. If several requests claim an
    /// execution, only one succeeds.
    pub(super) fn take(self) -> Result<(), ServiceError> {
        self.store.claim(&self.id, self.version)
    }
}

/// An execution that was suspended and stored.
pub(crate) struct StoredSuspension {
    pub(crate) id: SuspendedId,
    pub(crate) calls: Vec<ToolRequest>,
    /// The generation of the execution's session after the suspension, if known.
    pub(crate) generation: Option<String>,
}

/// The reason why an execution was not stored.
pub(crate) enum NotStored {
    /// The execution still waits for answers.
    Waits(Box<ServiceError>),
    /// The execution has ended.
    Ended(Box<ServiceError>),
}

impl NotStored {
    pub(crate) fn waits(error: ServiceError) -> Self {
        Self::Waits(Box::new(error))
    }

    pub(crate) fn ended(error: ServiceError) -> Self {
        Self::Ended(Box::new(error))
    }
}

/// A suspended execution that the server stores.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StoredExecutionAnswer)]
pub(crate) struct StoredSummary {
    /// ID of the suspended execution. `GET /v1/suspended/{id}` lists its calls.
    id: String,
    /// Time of the suspension (RFC 3339).
    #[schema(value_type = String)]
    created_at: Timestamp,
    /// Time after which the server deletes the suspended execution (RFC 3339).
    #[schema(value_type = String)]
    expires_at: Timestamp,
    /// Size in the store in bytes.
    bytes: u64,
}

/// A page of a token's stored suspended executions.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StoredExecutionsAnswer)]
pub(crate) struct StoredSummaries {
    /// Suspended executions in the order of their expiry.
    suspended: Vec<StoredSummary>,
    /// ID after which the next page starts; `null` on the last page.
    #[schema(value_type = Option<String>)]
    next: Option<SessionId>,
}

impl From<EntryPage> for StoredSummaries {
    fn from(page: EntryPage) -> Self {
        let summaries = page.entries.into_iter().map(|(id, entry)| StoredSummary {
            id: id.as_str().to_owned(),
            created_at: entry.updated_at(),
            expires_at: id.expires(),
            bytes: entry.stored_bytes,
        });
        Self { suspended: summaries.collect(), next: page.next }
    }
}

impl Tenant {
    fn suspended_store(&self) -> Result<Arc<SuspendedStore>, ServiceError> {
        self.inner.suspended_store.clone().ok_or(ServiceError::Unsupported(NO_STORE))
    }

    /// Performs an operation on the store when the tenant and the service admit it. A started operation is completed
    /// even if the caller drops the future.
    async fn with_suspended_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&SuspendedStore) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let store = self.suspended_store()?;
        let permits = self.admit(None).await?;
        let span = Span::current();
        let work = move || {
            let _permits = permits;
            span.in_scope(|| work(&store))
        };
        Service::blocking(work).await?
    }

    /// Fails if the tenant has no store for suspended executions, or if the store has no room for another execution.
    /// Also fails for an execution in a session of a fleet, because the fleet's nodes pass answers to scripts without a
    /// claim.
    pub(crate) async fn check_suspended_store(&self, in_session: bool) -> Result<(), ServiceError> {
        if in_session && self.is_in_fleet() {
            return Err(ServiceError::Unsupported(NO_STORE));
        }
        self.with_suspended_store(|store| store.check_room(Timestamp::now())).await
    }

    /// Suspends an execution that waits for answers to `calls`, and stores it with its request. Calls `reserve` first,
    /// with upper bounds on the sizes of the suspended execution and of its stored form in bytes. Once the execution is
    /// suspended, it is stored even if the caller drops the future. Other servers with the same store can then use the
    /// execution's session. An execution in a session of a fleet is never stored.
    pub(crate) async fn store_suspended<R: Send + 'static>(
        &self,
        execution: String,
        request: SuspendedRequest,
        calls: Vec<ToolRequest>,
        reserve: impl FnOnce(usize, usize) -> Result<R, ServiceError> + Send + 'static,
    ) -> Result<StoredSuspension, NotStored> {
        if request.session.is_some() && self.is_in_fleet() {
            return Err(NotStored::waits(ServiceError::Unsupported(NO_STORE)));
        }
        let store = self.suspended_store().map_err(NotStored::waits)?;
        let tenant = self.clone();
        let work = async move { tenant.suspend_into(store, execution, request, calls, reserve).await };
        let stored = tokio::spawn(work.in_current_span()).await;
        stored.unwrap_or_else(|_| Err(NotStored::ended(ServiceError::Panicked)))
    }

    /// The implementation of [`store_suspended`](Self::store_suspended). The caller must poll the future to completion.
    async fn suspend_into<R: Send + 'static>(
        &self,
        store: Arc<SuspendedStore>,
        execution: String,
        request: SuspendedRequest,
        calls: Vec<ToolRequest>,
        reserve: impl FnOnce(usize, usize) -> Result<R, ServiceError>,
    ) -> Result<StoredSuspension, NotStored> {
        // Each string of a call can become twice as long, because its quotes are escaped in the stored form.
        let calls_bytes = calls.iter().map(|call| 2 * (call.name.len() + call.arguments.len()) + 128).sum::<usize>();
        let other_bytes = request.max_bytes() + calls_bytes;
        let (ttl, entries) = (Duration::from_millis(request.ttl_ms), Arc::clone(&store));
        let reserve_all = move |bytes: usize| {
            let stored_bytes = bytes.saturating_add(other_bytes);
            let reserved = reserve(bytes, stored_bytes);
            async move {
                let reserved = reserved?;
                let reserve_entry = move || entries.reserve(Timestamp::now(), ttl, stored_bytes);
                let entry = Service::blocking(reserve_entry).await??;
                Ok::<_, ServiceError>((reserved, entry))
            }
        };
        let suspended = self.suspend_reserved(&execution, reserve_all).await;
        let (ChangeResult { value, generation }, (reserved, entry)) = suspended.map_err(|error| match error {
            ServiceError::NoExecution { .. } | ServiceError::Panicked => NotStored::ended(error),
            error => NotStored::waits(error),
        })?;
        let session = request.session.clone();
        let stored = StoredExecution { request, calls, generation: generation.clone(), suspended: value };
        let span = Span::current();
        let write = move || {
            let id = span.in_scope(|| store.write(entry, &stored))?;
            // The bytes stay in memory until here.
            drop(reserved);
            Ok::<_, ServiceError>((id, stored.calls))
        };
        let written = Service::blocking(write).await.flatten();
        let (id, calls) = written.map_err(NotStored::ended)?;
        if let (Some(session), Some(generation)) = (session, &generation) {
            self.release_session(session, generation.clone()).await;
        }
        Ok(StoredSuspension { id, calls, generation })
    }

    /// Reads a stored execution, after calling `reserve` with its size in bytes.
    ///
    /// # Errors
    /// Fails if the execution does not exist or has expired, if its seal is invalid, or if `reserve` fails.
    pub(crate) async fn read_suspended<R: Send + 'static>(
        &self,
        id: &str,
        reserve: impl FnOnce(usize) -> Result<R, ServiceError> + Send + 'static,
    ) -> Result<(ReadEntry, R), ServiceError> {
        let parsed = SuspendedId::parse(id).ok_or_else(|| not_found(id));
        self.with_suspended_store(move |store| store.read(parsed?, Timestamp::now(), reserve)).await
    }

    /// Returns the right to claim a stored execution. `in_session` is `true` if it was suspended in a session.
    ///
    /// # Errors
    /// Fails for an execution in a session if this tenant's sessions are in a fleet: the session of the same name is
    /// another session, and the fleet's nodes pass answers to scripts without a claim.
    pub(crate) fn claim(
        &self,
        id: SuspendedId,
        version: StoredVersion,
        in_session: bool,
    ) -> Result<Claim, ServiceError> {
        if in_session && self.is_in_fleet() {
            return Err(ServiceError::Unsupported(STORED_SESSION));
        }
        Ok(Claim { store: self.suspended_store()?, id, version })
    }

    /// Returns a page of the stored executions, in the order of their expiry.
    pub(crate) async fn list_suspended(&self, page: PageRequest) -> Result<StoredSummaries, ServiceError> {
        let listed = self.with_suspended_store(move |store| store.list(Timestamp::now(), &page)).await?;
        Ok(listed.into())
    }

    /// Deletes a stored execution, and records the deletion in the audit log.
    ///
    /// # Errors
    /// Fails if the execution does not exist, or if a request is resuming it.
    pub(crate) async fn delete_suspended(&self, id: String) -> Result<(), ServiceError> {
        let tenant = self.clone();
        let delete = move |store: &SuspendedStore| {
            let parsed = SuspendedId::parse(&id).ok_or_else(|| not_found(&id));
            let deleted = parsed.and_then(|parsed| match store.delete(&parsed)? {
                true => Ok(()),
                false => Err(not_found(&id)),
            });
            if let Some(audit) = &tenant.inner.service.0.audit {
                let subject = AuditSubject { door: tenant.door, tenant: tenant.name(), session: None };
                let action = AuditAction::new("delete-suspended").of(&id);
                audit.record(&subject, &action.finish(deleted.as_ref().err()));
            }
            deleted
        };
        self.with_suspended_store(delete).await
    }

    /// Deletes the stored suspended executions that have expired. Other operations delete only some of the expired
    /// executions. Does nothing if the tenant has no store for suspended executions.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub async fn delete_expired(&self) -> Result<(), ServiceError> {
        let Some(store) = self.inner.suspended_store.clone() else { return Ok(()) };
        Service::blocking(move || store.delete_expired(Timestamp::now())).await?
    }
}
