//! Executions that wait for answers.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use glovebox::CancelToken;

use super::{
    Tenant,
    stepping::{Ended, Stepping},
};
use crate::{Service, ServiceError};

/// How often it is looked whether one has ended by itself, or waits for too long.
const LOOK: Duration = Duration::from_millis(200);

/// A tenant's executions that wait for answers, by name. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct SuspendedExecutions(Arc<Mutex<HashMap<String, Entry>>>);

struct Entry {
    state: State,
    expires: Instant,
    cancel: CancelToken,
}

enum State {
    /// For answers.
    Waiting(Box<Stepping>),
    /// Somebody is answering it, or it is just being ended.
    Busy,
    /// It has ended by itself, and nobody knows yet.
    Ended(Box<Result<Ended, ServiceError>>),
}

/// One that was taken.
pub(super) enum Taken {
    Waiting(PutBack),
    Ended(Box<Result<Ended, ServiceError>>),
}

/// Puts an execution back where it was.
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
            entry.state = State::Waiting(stepping);
        }
    }
}

impl PutBack {
    /// Keeps it: whoever has it now sees to what becomes of it.
    pub(super) fn keep(mut self) -> Option<(String, Stepping)> {
        self.stepping.take().map(|stepping| (self.id.clone(), *stepping))
    }
}

impl SuspendedExecutions {
    fn entries(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one to go on with it.
    pub(super) fn take(&self, id: &str) -> Result<Taken, ServiceError> {
        let mut entries = self.entries();
        let entry = entries.get_mut(id).ok_or_else(|| not_found(id))?;
        match std::mem::replace(&mut entry.state, State::Busy) {
            State::Waiting(stepping) => {
                Ok(Taken::Waiting(PutBack { executions: self.clone(), id: id.to_owned(), stepping: Some(stepping) }))
            }
            State::Busy => Err(ServiceError::ExecutionBusy { execution: id.to_owned() }),
            State::Ended(ended) => {
                entries.remove(id);
                Ok(Taken::Ended(ended))
            }
        }
    }

    /// Removes one, and cancels it where somebody is answering it. What is left is to be ended.
    pub(super) fn remove(&self, id: &str) -> Result<Option<Stepping>, ServiceError> {
        let entry = self.entries().remove(id).ok_or_else(|| not_found(id))?;
        entry.cancel.cancel();
        match entry.state {
            State::Waiting(stepping) => Ok(Some(*stepping)),
            State::Busy | State::Ended(_) => Ok(None),
        }
    }

    /// Takes note that one has ended, and its end is told.
    pub(super) fn forget(&self, id: &str) {
        self.entries().remove(id);
    }

    /// What is to be done about one.
    fn look(&self, id: &str, is_draining: bool) -> Look {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(id) else { return Look::Gone };
        let is_over = is_draining || Instant::now() >= entry.expires;
        match std::mem::replace(&mut entry.state, State::Busy) {
            State::Waiting(stepping) if is_over => {
                entries.remove(id);
                Look::End(stepping)
            }
            State::Waiting(stepping) if stepping.started.has_ended() => Look::HasEnded(stepping),
            State::Ended(_) if is_over => {
                entries.remove(id);
                Look::Gone
            }
            state => {
                entry.state = state;
                Look::Again
            }
        }
    }

    fn ended(&self, id: &str, ended: Result<Ended, ServiceError>) {
        if let Some(entry) = self.entries().get_mut(id) {
            entry.state = State::Ended(Box::new(ended));
        }
    }
}

enum Look {
    Gone,
    Again,
    End(Box<Stepping>),
    HasEnded(Box<Stepping>),
}

fn not_found(id: &str) -> ServiceError {
    ServiceError::NoExecution { execution: id.to_owned() }
}

impl Tenant {
    /// Puts an execution down until it is answered, and for how long at most. One of whose answers none was taken waits no longer for that.
    /// Called on a thread of the runtime's.
    pub(super) fn suspend(&self, id: String, stepping: Stepping, was_answered: bool) -> Duration {
        let time = self.0.service.suspension().time;
        let expires = Instant::now() + time;
        let mut entries = self.0.suspended.entries();
        let is_new = !entries.contains_key(&id);
        let cancel = stepping.cancel.clone();
        let entry = entries.entry(id.clone()).or_insert(Entry { state: State::Busy, expires, cancel });
        entry.state = State::Waiting(Box::new(stepping));
        if was_answered {
            entry.expires = expires;
        }
        drop(entries);
        if is_new {
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
                let _ = Service::blocking(move || drop(stepping.end(&tenant))).await;
                return;
            }
            Look::HasEnded(stepping) => {
                let ended = Service::blocking(move || stepping.result(&tenant, LOOK)).await;
                executions.ended(&id, ended.and_then(|ended| ended));
            }
        }
    }
}
