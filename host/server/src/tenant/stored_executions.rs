//! Operations on a tenant's stored suspended executions.

use std::{sync::Arc, time::Duration};

use glovebox::{Timestamp, ToolRequest};
use glovebox_sessions::{PageRequest, SessionId, SessionLock, StoredVersion};
use serde::Serialize;
use tokio::runtime::Handle;
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

/// The error message for tenants in a fleet without a store for suspended executions.
const NO_STORE_IN_FLEET: &str = "this server stores no suspended executions: its sessions are in a fleet, and it has no \
                                 `suspended_store`; set `suspendable` instead of `suspend`, and store the bytes from \
                                 `POST /v1/executions/{id}/suspend`";

/// The error message for an execution of a stored session, on a server whose sessions are in a fleet.
const STORED_SESSION: &str = "the execution was suspended in a session of a store, but this server's sessions are in a \
                              fleet; resume it on a server with that store";

/// The error message for an execution of a fleet's session, on a server whose sessions are not in a fleet.
const FLEET_SESSION: &str = "the execution was suspended in a session of a fleet, but this server's sessions are in a \
                             store or in memory; resume it on a server of that fleet";

/// The right to claim a stored execution. Its methods block.
pub(crate) struct Claim {
    store: Arc<SuspendedStore>,
    id: SuspendedId,
    version: StoredVersion,
    lock: EntryLock,
}

/// The lock of an entry, if the claim holds it. It is released on a blocking thread, because an object store can take
/// seconds to release it.
struct EntryLock(Option<SessionLock>);

impl EntryLock {
    fn into_inner(mut self) -> Option<SessionLock> {
        self.0.take()
    }
}

impl Drop for EntryLock {
    fn drop(&mut self) {
        let Some(lock) = self.0.take() else { return };
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(lock))),
            Err(_) => drop(lock),
        }
    }
}

impl Claim {
    /// Fails if the execution is no longer stored. With `locked`, other requests cannot claim it while this value
    /// exists. A fleet needs this: each request that repeats the steps of the execution changes the generation of its
    /// session, and would make the request with the claim fail.
    pub(super) fn checked(mut self, locked: bool) -> Result<Self, ServiceError> {
        if locked {
            self.lock = EntryLock(Some(self.store.lock_entry(&self.id)?));
        }
        self.store.check_stored(&self.id)?;
        Ok(self)
    }

    /// Removes the execution from the store, so that no other request resumes it. If several requests claim an
    /// execution, only one succeeds.
    pub(super) fn take(self) -> Result<(), ServiceError> {
        self.store.claim(&self.id, self.version, self.lock.into_inner())
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
        let none = if self.is_in_fleet() { NO_STORE_IN_FLEET } else { NO_STORE };
        self.inner.suspended_store.clone().ok_or(ServiceError::Unsupported(none))
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
    pub(crate) async fn check_suspended_store(&self) -> Result<(), ServiceError> {
        self.with_suspended_store(|store| store.check_room(Timestamp::now())).await
    }

    /// Suspends an execution that waits for answers to `calls`, and stores it with its request. Calls `reserve` first,
    /// with upper bounds on the sizes of the suspended execution and of its stored form in bytes. Once the execution is
    /// suspended, it is stored even if the caller drops the future. Other servers with the same store can then use the
    /// execution's session.
    pub(crate) async fn store_suspended<R: Send + 'static>(
        &self,
        execution: String,
        request: SuspendedRequest,
        calls: Vec<ToolRequest>,
        reserve: impl FnOnce(usize, usize) -> Result<R, ServiceError> + Send + 'static,
    ) -> Result<StoredSuspension, NotStored> {
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
        let in_fleet = session.is_some() && self.is_in_fleet();
        let stored = StoredExecution { request, calls, generation: generation.clone(), in_fleet, suspended: value };
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

    /// Returns the right to claim a stored execution. `in_session` is `true` if it was suspended in a session, and
    /// `in_fleet` if that session is in a fleet.
    ///
    /// # Errors
    /// Fails for an execution in a session of a fleet if this tenant's sessions are not in a fleet, and vice versa: the
    /// session of the same name is another session.
    pub(crate) fn claim(
        &self,
        id: SuspendedId,
        version: StoredVersion,
        in_session: bool,
        in_fleet: bool,
    ) -> Result<Claim, ServiceError> {
        match (in_session && self.is_in_fleet(), in_fleet) {
            (true, false) => Err(ServiceError::Unsupported(STORED_SESSION)),
            (false, true) => Err(ServiceError::Unsupported(FLEET_SESSION)),
            _ => Ok(Claim { store: self.suspended_store()?, id, version, lock: EntryLock(None) }),
        }
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
            let deleted = parsed.and_then(|parsed| if store.delete(&parsed)? { Ok(()) } else { Err(not_found(&id)) });
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
