//! Suspended executions: their state between two steps, and their end if they are never answered.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use glovebox::{CancelToken, Execution, Stream};
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit};

use super::{OnOutput, Tenant, executing::AuditedRequest};
use crate::{
    Service, ServiceError,
    executor::{Finished, SteppedExecution},
};

/// A tenant's suspended executions, by name. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct SuspendedExecutions(Arc<Mutex<HashMap<String, Entry>>>);

struct Entry {
    state: SuspensionState,
    expires: Instant,
    cancel: CancelToken,
}

enum SuspensionState {
    /// Waits for answers.
    Waiting(Box<Stepping>),
    /// A request is resuming it, or it is being ended.
    Busy,
    /// Ended without an answer. No client has fetched the result yet.
    Ended(Box<Result<Ended, ServiceError>>),
}

/// An execution taken out of its entry.
pub(super) enum Taken {
    Waiting(PutBack),
    Ended(Box<Result<Ended, ServiceError>>),
}

/// Returns a taken execution to its entry on drop.
pub(super) struct PutBack {
    executions: SuspendedExecutions,
    id: String,
    stepping: Option<Box<Stepping>>,
}

impl Drop for PutBack {
    fn drop(&mut self) {
        if let Some(stepping) = self.stepping.take()
            && let Some(entry) = self.executions.entries().get_mut(&self.id)
        {
            entry.state = SuspensionState::Waiting(stepping);
        }
    }
}

impl PutBack {
    /// Takes the execution out for good. The caller must suspend it again, or forget it.
    pub(super) fn keep(mut self) -> Option<(String, Stepping)> {
        self.stepping.take().map(|stepping| (self.id.clone(), *stepping))
    }
}

impl SuspendedExecutions {
    fn entries(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an execution to resume it, or the result of one that has ended.
    pub(super) fn take(&self, id: &str) -> Result<Taken, ServiceError> {
        let mut entries = self.entries();
        let entry = entries.get_mut(id).ok_or_else(|| not_found(id))?;
        match std::mem::replace(&mut entry.state, SuspensionState::Busy) {
            SuspensionState::Waiting(stepping) => {
                Ok(Taken::Waiting(PutBack { executions: self.clone(), id: id.to_owned(), stepping: Some(stepping) }))
            }
            SuspensionState::Busy => Err(ServiceError::ExecutionBusy { execution: id.to_owned() }),
            SuspensionState::Ended(ended) => {
                entries.remove(id);
                Ok(Taken::Ended(ended))
            }
        }
    }

    /// Cancels and removes an execution. Returns it if it was waiting for answers; the caller must then end it.
    pub(super) fn remove(&self, id: &str) -> Result<Option<Stepping>, ServiceError> {
        let entry = self.entries().remove(id).ok_or_else(|| not_found(id))?;
        entry.cancel.cancel();
        match entry.state {
            SuspensionState::Waiting(stepping) => Ok(Some(*stepping)),
            SuspensionState::Busy | SuspensionState::Ended(_) => Ok(None),
        }
    }

    /// Removes an execution whose result is being returned.
    pub(super) fn forget(&self, id: &str) {
        self.entries().remove(id);
    }

    /// Checks an execution's timeout and whether it has ended by itself.
    pub(super) fn look(&self, id: &str, is_draining: bool) -> SuspensionCheck {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(id) else { return SuspensionCheck::Gone };
        let is_over = is_draining || Instant::now() >= entry.expires;
        match std::mem::replace(&mut entry.state, SuspensionState::Busy) {
            SuspensionState::Waiting(stepping) if is_over => {
                entries.remove(id);
                SuspensionCheck::End(stepping)
            }
            SuspensionState::Waiting(stepping) if stepping.started.has_ended() => SuspensionCheck::HasEnded(stepping),
            SuspensionState::Ended(_) if is_over => {
                entries.remove(id);
                SuspensionCheck::Gone
            }
            state => {
                entry.state = state;
                SuspensionCheck::Again
            }
        }
    }

    /// Suspends an execution until `expires`. Keeps the previous deadline unless `was_answered`. Returns `true` if it
    /// was not suspended before.
    pub(super) fn put(&self, id: &str, stepping: Stepping, expires: Instant, was_answered: bool) -> bool {
        let mut entries = self.entries();
        let is_new = !entries.contains_key(id);
        let cancel = stepping.cancel.clone();
        let entry = entries.entry(id.to_owned()).or_insert(Entry { state: SuspensionState::Busy, expires, cancel });
        entry.state = SuspensionState::Waiting(Box::new(stepping));
        if was_answered {
            entry.expires = expires;
        }
        is_new
    }

    pub(super) fn ended(&self, id: &str, ended: Result<Ended, ServiceError>) {
        if let Some(entry) = self.entries().get_mut(id) {
            entry.state = SuspensionState::Ended(Box::new(ended));
        }
    }
}

pub(super) enum SuspensionCheck {
    Gone,
    Again,
    End(Box<Stepping>),
    HasEnded(Box<Stepping>),
}

fn not_found(id: &str) -> ServiceError {
    ServiceError::NoExecution { execution: id.to_owned() }
}

/// A finished execution.
#[derive(Debug)]
pub struct Ended {
    pub(crate) finished: Finished,
    /// Patterns of the files to return, as given at the start of the execution.
    pub return_files: Vec<String>,
}

impl Ended {
    /// Returns the outcome, output and usage of the execution.
    #[must_use]
    pub fn execution(&self) -> &Execution {
        &self.finished.execution
    }
}

/// The output callback, which each step replaces.
#[derive(Clone, Default)]
pub(super) struct Output(Arc<Mutex<Option<OnOutput>>>);

impl Output {
    pub(super) fn set(&self, on_output: Option<OnOutput>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = on_output;
    }

    pub(super) fn listener(&self) -> OnOutput {
        let output = self.clone();
        Box::new(move |stream: Stream, bytes: &[u8]| {
            if let Some(on_output) = &mut *output.0.lock().unwrap_or_else(PoisonError::into_inner) {
                on_output(stream, bytes);
            }
        })
    }
}

/// An execution between two steps.
pub(super) struct Stepping {
    pub(super) started: Box<dyn SteppedExecution>,
    pub(super) output: Output,
    pub(super) cancel: CancelToken,
    pub(super) asked: AuditedRequest,
    pub(super) return_files: Vec<String>,
    /// Permits for a suspended execution: the tenant's and the service's.
    pub(super) _suspended: [OwnedSemaphorePermit; 2],
    pub(super) _own: OwnedSemaphorePermit,
    pub(super) _turn: Option<OwnedMutexGuard<()>>,
}

/// Interval at which suspended executions are checked for their end and their timeout.
const LOOK: Duration = Duration::from_millis(200);

impl Tenant {
    /// Suspends an execution and returns its timeout. Without an accepted answer the previous deadline stays. Called in
    /// the context of a Tokio runtime.
    pub(super) fn suspend(&self, id: String, stepping: Stepping, was_answered: bool) -> Duration {
        let time = self.inner.service.suspension().time;
        if self.inner.suspended.put(&id, stepping, Instant::now() + time, was_answered) {
            tokio::spawn(watch(self.clone(), id));
        }
        time
    }
}

/// Ends an execution when it expires or the service shuts down. Releases its resources if it has ended by itself.
async fn watch(tenant: Tenant, id: String) {
    let executions = tenant.inner.suspended.clone();
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = tenant.inner.service.draining() => {}
        }
        let (tenant, draining) = (tenant.clone(), tenant.inner.service.is_draining());
        match executions.look(&id, draining) {
            SuspensionCheck::Gone => return,
            SuspensionCheck::Again => tokio::time::sleep(LOOK).await,
            SuspensionCheck::End(stepping) => {
                let _ = Service::blocking(move || drop(tenant.end(*stepping))).await;
                return;
            }
            SuspensionCheck::HasEnded(stepping) => {
                let ended = Service::blocking(move || tenant.result(*stepping, LOOK)).await;
                executions.ended(&id, ended.and_then(|ended| ended));
            }
        }
    }
}
