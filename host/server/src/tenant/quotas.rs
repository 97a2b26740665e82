//! Limits on a tenant's concurrent work, and the permits that admitted work holds.

use std::sync::Arc;

use glovebox::ExecuteError;
use glovebox_sessions::SessionId;
use governor::clock::Clock as _;
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit};
use tracing::{Instrument as _, info_span};

use super::Tenant;
use crate::{SPANS, ServiceError, executor::SessionOperation, service::ExecutionPermit};

/// Permits held by a tenant's work. The work, rather than the caller, owns the permits, because the work continues if
/// the client disconnects.
pub(crate) struct WorkPermits {
    own: OwnedSemaphorePermit,
    turn: Option<OwnedMutexGuard<()>>,
    permit: ExecutionPermit,
}

impl WorkPermits {
    pub(super) fn into_parts(self) -> (OwnedSemaphorePermit, Option<OwnedMutexGuard<()>>, ExecutionPermit) {
        (self.own, self.turn, self.permit)
    }
}

impl Tenant {
    /// Locks session creation, so that concurrent requests cannot exceed the maximum number of sessions.
    async fn making(&self) -> Result<OwnedMutexGuard<()>, ServiceError> {
        let waited = self.inner.service.wait();
        let making = Arc::clone(&self.inner.making).lock_owned();
        tokio::time::timeout(waited, making).await.map_err(|_| ServiceError::NoTurn { waited })
    }

    pub(super) async fn admit(&self, id: Option<&SessionId>) -> Result<WorkPermits, ServiceError> {
        self.admit_to(id, self.execution_permit(id.is_some())).await
    }

    /// Like [`admit`](Self::admit), but also locks session creation if the operation creates a session. Acquires that
    /// lock after the session's lock, so that a busy session does not delay the creation of other sessions. Acquires it
    /// before the permit to run, so that waiting requests hold no permits that other tenants need.
    pub(super) async fn admit_operation(
        &self,
        operation: &SessionOperation,
    ) -> Result<(WorkPermits, Option<OwnedMutexGuard<()>>), ServiceError> {
        let mut making = None;
        let permit = async {
            if operation.creates_session() {
                making = Some(self.making().await?);
            }
            self.execution_permit(true).await
        };
        let permits = self.admit_to(operation.session(), permit).await?;
        Ok((permits, making))
    }

    /// Acquires a permit to run on this machine or, for work on a session in a fleet, to send a request to the fleet.
    pub(super) async fn execution_permit(&self, is_on_session: bool) -> Result<ExecutionPermit, ServiceError> {
        let (service, name) = (&self.inner.service, &self.inner.config.name);
        match is_on_session && self.inner.executor.has_remote_sessions() {
            true => service.admit_to_fleet(name).await,
            false => service.admit(name).await,
        }
    }

    async fn admit_to(
        &self,
        id: Option<&SessionId>,
        permit: impl Future<Output = Result<ExecutionPermit, ServiceError>>,
    ) -> Result<WorkPermits, ServiceError> {
        let wait = async {
            let own = self.own_turn()?;
            let turn = match id {
                Some(id) => Some(self.turn(id).await?),
                None => None,
            };
            Ok(WorkPermits { own, turn, permit: permit.await? })
        };
        wait.instrument(info_span!(target: SPANS, "queue")).await
    }

    /// Like [`admit`](Self::admit), but for an execution that can be suspended. Also acquires the permits for a
    /// suspended execution.
    pub(super) async fn admit_stepped(
        &self,
        id: Option<&SessionId>,
    ) -> Result<([OwnedSemaphorePermit; 2], WorkPermits), ServiceError> {
        let max = self.inner.config.suspended;
        let (what, remedy) = ("suspended executions and unread results", "cancel an execution or read a result");
        let own = Arc::clone(&self.inner.suspensions).try_acquire_owned().map_err(|_| ServiceError::TooMany {
            what,
            max,
            remedy,
        })?;
        let all = self.inner.service.suspension_place()?;
        Ok(([own, all], self.admit(id).await?))
    }

    /// Acquires one of the tenant's execution permits. Fails if all are in use.
    fn own_turn(&self) -> Result<OwnedSemaphorePermit, ServiceError> {
        let max = self.inner.config.executions_at_once;
        let (what, remedy) = ("concurrent executions of this token", "try again when one ends");
        Arc::clone(&self.inner.executions).try_acquire_owned().map_err(|_| ServiceError::TooMany { what, max, remedy })
    }

    pub(crate) fn check_rate(&self) -> Result<(), ServiceError> {
        let Some((per_minute, limiter)) = &self.inner.rate else { return Ok(()) };
        limiter.check().map_err(|not_until| ServiceError::Rate {
            per_minute: per_minute.get(),
            retry_after: not_until.wait_time_from(governor::clock::DefaultClock::default().now()),
        })
    }

    /// Waits until no other operation uses the session, but at most for the timeout of the tenant's policy. Operations
    /// on a session run one after another.
    async fn turn(&self, id: &SessionId) -> Result<OwnedMutexGuard<()>, ServiceError> {
        let turn = self.inner.turns.of(id);
        let max = self.inner.config.policy.limits.timeout();
        let busy = |_| ServiceError::from(ExecuteError::SessionBusy { id: id.to_string() });
        tokio::time::timeout(max, turn.lock_owned()).await.map_err(busy)
    }
}
