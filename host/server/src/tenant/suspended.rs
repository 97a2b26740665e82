//! Suspended executions.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use glovebox::CancelToken;

use super::stepped::{Ended, Stepping};
use crate::ServiceError;

/// A tenant's suspended executions, by name. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct SuspendedExecutions(Arc<Mutex<HashMap<String, Entry>>>);

struct Entry {
    state: State,
    expires: Instant,
    cancel: CancelToken,
}

enum State {
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
            entry.state = State::Waiting(stepping);
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

    /// Cancels and removes an execution. Returns it if it was waiting for answers; the caller must then end it.
    pub(super) fn remove(&self, id: &str) -> Result<Option<Stepping>, ServiceError> {
        let entry = self.entries().remove(id).ok_or_else(|| not_found(id))?;
        entry.cancel.cancel();
        match entry.state {
            State::Waiting(stepping) => Ok(Some(*stepping)),
            State::Busy | State::Ended(_) => Ok(None),
        }
    }

    /// Removes an execution whose result is being returned.
    pub(super) fn forget(&self, id: &str) {
        self.entries().remove(id);
    }

    /// Checks an execution's timeout and whether it has ended by itself.
    pub(super) fn look(&self, id: &str, is_draining: bool) -> Look {
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

    /// Suspends an execution until `expires`. Keeps the previous deadline unless `was_answered`. Returns `true` if it
    /// was not suspended before.
    pub(super) fn put(&self, id: &str, stepping: Stepping, expires: Instant, was_answered: bool) -> bool {
        let mut entries = self.entries();
        let is_new = !entries.contains_key(id);
        let cancel = stepping.cancel.clone();
        let entry = entries.entry(id.to_owned()).or_insert(Entry { state: State::Busy, expires, cancel });
        entry.state = State::Waiting(Box::new(stepping));
        if was_answered {
            entry.expires = expires;
        }
        is_new
    }

    pub(super) fn ended(&self, id: &str, ended: Result<Ended, ServiceError>) {
        if let Some(entry) = self.entries().get_mut(id) {
            entry.state = State::Ended(Box::new(ended));
        }
    }
}

pub(super) enum Look {
    Gone,
    Again,
    End(Box<Stepping>),
    HasEnded(Box<Stepping>),
}

fn not_found(id: &str) -> ServiceError {
    ServiceError::NoExecution { execution: id.to_owned() }
}
