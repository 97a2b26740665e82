//! Suspends executions, and ends those that are never answered.

use std::time::{Duration, Instant};

use super::{Tenant, stepped::Stepping, suspended::Look};
use crate::Service;

/// Interval at which suspended executions are checked for their end and their timeout.
const LOOK: Duration = Duration::from_millis(200);

impl Tenant {
    /// Suspends an execution and returns its timeout. Without an accepted answer the previous deadline stays. Called in
    /// the context of a Tokio runtime.
    pub(super) fn suspend(&self, id: String, stepping: Stepping, was_answered: bool) -> Duration {
        let time = self.0.service.suspension().time;
        if self.0.suspended.put(&id, stepping, Instant::now() + time, was_answered) {
            tokio::spawn(watch(self.clone(), id));
        }
        time
    }
}

/// Ends an execution when it expires or the service shuts down. Releases its resources if it has ended by itself.
async fn watch(tenant: Tenant, id: String) {
    let executions = tenant.0.suspended.clone();
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = tenant.0.service.draining() => {}
        }
        let (tenant, draining) = (tenant.clone(), tenant.0.service.is_draining());
        match executions.look(&id, draining) {
            Look::Gone => return,
            Look::Again => tokio::time::sleep(LOOK).await,
            Look::End(stepping) => {
                let _ = Service::blocking(move || drop(tenant.end(*stepping))).await;
                return;
            }
            Look::HasEnded(stepping) => {
                let ended = Service::blocking(move || tenant.result(*stepping, LOOK)).await;
                executions.ended(&id, ended.and_then(|ended| ended));
            }
        }
    }
}
