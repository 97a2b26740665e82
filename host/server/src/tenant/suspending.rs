//! Putting executions down until they are answered, and seeing to those that never are.

use std::time::{Duration, Instant};

use super::{Tenant, stepped::Stepping, suspended::Look};
use crate::Service;

/// How often it is looked whether one has ended by itself, or waits for too long.
const LOOK: Duration = Duration::from_millis(200);

impl Tenant {
    /// Puts an execution down until it is answered, and for how long at most. One of whose answers none was taken waits no longer for that.
    /// Called on a thread of the runtime's.
    pub(super) fn suspend(&self, id: String, stepping: Stepping, was_answered: bool) -> Duration {
        let time = self.0.service.suspension().time;
        if self.0.suspended.put(&id, stepping, Instant::now() + time, was_answered) {
            tokio::spawn(watch(self.clone(), id));
        }
        time
    }
}

/// Ends an execution that waits for too long, or whose service shuts down, and gives up what it holds once it has ended by itself.
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
