//! Suspended executions: their state between two steps, and their cancellation if no answer arrives in time.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use glovebox::CancelToken;
use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::{
    Tenant,
    stepping::{DeliveryError, FinishedExecution, StepwiseExecution},
};
use crate::{Service, ServiceError, byte_budget::ChargedBytes, json::json_len};

/// A tenant's suspended executions. Clones share them.
#[derive(Clone, Default)]
pub(super) struct SuspendedExecutions {
    /// Keyed by ID.
    entries: Arc<Mutex<HashMap<String, SuspendedEntry>>>,
    /// Held while the result of an execution that ended by itself is fetched. A result is charged only after it is
    /// fetched. Fetching one result at a time limits the memory that is not yet charged.
    fetching: Arc<tokio::sync::Mutex<()>>,
}

struct SuspendedEntry {
    state: SuspensionState,
    expires: Instant,
    cancel: CancelToken,
    /// The memory charged for the execution's tools.
    held: ChargedBytes,
}

pub(super) enum SuspensionState {
    /// The execution waits for answers.
    Waiting(Box<StepwiseExecution>),
    /// A request is resuming the execution or reading its result.
    Busy,
    /// A request is turning the execution into bytes. Until the request succeeds or fails, the execution cannot be
    /// cancelled, because the client could not know whether the bytes exist.
    Suspending,
    /// The execution ended while it was suspended. The watcher is fetching its result.
    Fetching,
    /// The execution ended while it was suspended. The client has not yet read the result.
    Ended(Box<UnreadResult>),
}

/// The result of an execution that ended while it was suspended. Occupies the permits for a suspended execution until
/// the result is read or dropped.
pub(super) struct UnreadResult {
    result: Result<FinishedExecution, ServiceError>,
    suspended: Arc<[OwnedSemaphorePermit; 2]>,
    held: ChargedBytes,
}

/// An execution that was taken out of its entry. Returns to the entry on drop, unless [`keep`](Self::keep) was called.
pub(super) struct TakenExecution {
    executions: SuspendedExecutions,
    id: String,
    state: Option<SuspensionState>,
}

impl Drop for TakenExecution {
    fn drop(&mut self) {
        if let Some(state) = self.state.take()
            && let Some(entry) = self.executions.entries.lock().get_mut(&self.id)
        {
            entry.state = state;
        }
    }
}

impl TakenExecution {
    pub(super) fn state(&self) -> Option<&SuspensionState> {
        self.state.as_ref()
    }

    /// Returns the execution's ID and state, without putting the execution back. The caller must suspend the execution
    /// again or forget it.
    pub(super) fn keep(mut self) -> Option<(String, SuspensionState)> {
        self.state.take().map(|state| (self.id.clone(), state))
    }
}

impl SuspendedExecutions {
    /// Takes an execution in order to resume it or to read its result. Waits while the watcher fetches the result.
    pub(super) async fn take(&self, id: &str) -> Result<TakenExecution, ServiceError> {
        self.once_fetched(|| self.try_take(id, SuspensionState::Busy)).await
    }

    /// Like [`take`](Self::take), but to turn the execution into bytes.
    pub(super) async fn take_to_suspend(&self, id: &str) -> Result<TakenExecution, ServiceError> {
        self.once_fetched(|| self.try_take(id, SuspensionState::Suspending)).await
    }

    /// Takes an execution. Its entry has the state `meanwhile` until the execution is put back. Returns `None` while
    /// the watcher fetches the result.
    fn try_take(&self, id: &str, meanwhile: SuspensionState) -> Result<Option<TakenExecution>, ServiceError> {
        let mut entries = self.entries.lock();
        let entry = entries.get_mut(id).ok_or_else(|| not_found(id))?;
        match &entry.state {
            SuspensionState::Busy | SuspensionState::Suspending => Err(busy(id)),
            SuspensionState::Fetching => Ok(None),
            SuspensionState::Waiting(_) | SuspensionState::Ended(_) => {
                let state = Some(std::mem::replace(&mut entry.state, meanwhile));
                Ok(Some(TakenExecution { executions: self.clone(), id: id.to_owned(), state }))
            }
        }
    }

    /// Cancels an execution. Waits while the watcher fetches its result. Returns the execution, unless it is busy. The
    /// caller must end an execution that was waiting for answers, and [read](Self::read) an unread result.
    ///
    /// Fails, and cancels nothing, while a request is turning the execution into bytes.
    pub(super) async fn cancel(&self, id: &str) -> Result<SuspensionState, ServiceError> {
        self.once_fetched(|| self.try_cancel(id)).await
    }

    fn try_cancel(&self, id: &str) -> Result<Option<SuspensionState>, ServiceError> {
        let cancel = {
            let mut entries = self.entries.lock();
            let cancel = entries.get(id).ok_or_else(|| not_found(id))?.cancel.clone();
            match Self::take_cancelled(&mut entries, id)? {
                Some(SuspensionState::Busy) => cancel,
                taken => return Ok(taken),
            }
        };
        // Cancelling runs hooks, which may take time or need the lock, so the lock is not held. After this call, `put`
        // no longer suspends the execution, but it may have done so before.
        cancel.cancel();
        let mut entries = self.entries.lock();
        // If the execution has just ended, the request that resumed it has the result.
        if entries.contains_key(id) { Self::take_cancelled(&mut entries, id) } else { Ok(Some(SuspensionState::Busy)) }
    }

    /// Takes an execution in order to cancel it. Returns `None` while the watcher fetches its result.
    fn take_cancelled(
        entries: &mut HashMap<String, SuspendedEntry>,
        id: &str,
    ) -> Result<Option<SuspensionState>, ServiceError> {
        let entry = entries.get_mut(id).ok_or_else(|| not_found(id))?;
        match &entry.state {
            SuspensionState::Suspending => Err(busy(id)),
            SuspensionState::Fetching => Ok(None),
            SuspensionState::Busy => Ok(Some(SuspensionState::Busy)),
            SuspensionState::Waiting(_) => Ok(entries.remove(id).map(|entry| entry.state)),
            SuspensionState::Ended(_) => {
                entry.expires = entry.expires.min(Instant::now() + CANCELLED_TIME);
                Ok(Some(std::mem::replace(&mut entry.state, SuspensionState::Busy)))
            }
        }
    }

    /// Calls `attempt`. If `attempt` returns no value, calls it again after the watcher has fetched the result.
    async fn once_fetched<T>(&self, attempt: impl Fn() -> Result<Option<T>, ServiceError>) -> Result<T, ServiceError> {
        if let Some(value) = attempt()? {
            return Ok(value);
        }
        // The watcher holds this lock until it has stored the result, unless it panics.
        let _fetching = self.fetching.lock().await;
        attempt()?.ok_or(ServiceError::Panicked)
    }

    /// Removes an execution without cancelling it.
    pub(super) fn forget(&self, id: &str) {
        self.entries.lock().remove(id);
    }

    /// Checks whether an execution has timed out or has ended while it was suspended, and removes it if it has timed
    /// out. Reports an ended execution only if `can_fetch`, because the caller must then fetch its result. During
    /// shutdown, every suspended execution counts as timed out.
    pub(super) fn check(&self, id: &str, is_draining: bool, can_fetch: bool) -> SuspensionCheck {
        let mut entries = self.entries.lock();
        let Some(entry) = entries.get_mut(id) else { return SuspensionCheck::Gone };
        let is_over = is_draining || Instant::now() >= entry.expires;
        match std::mem::replace(&mut entry.state, SuspensionState::Busy) {
            SuspensionState::Waiting(stepping) if is_over => {
                entries.remove(id);
                SuspensionCheck::End(stepping)
            }
            SuspensionState::Waiting(stepping) if can_fetch && stepping.started.end_token().is_cancelled() => {
                entry.state = SuspensionState::Fetching;
                SuspensionCheck::HasEnded(stepping)
            }
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

    /// Returns the time at which an execution times out if it is still suspended. `None` if it no longer exists.
    fn expires(&self, id: &str) -> Option<Instant> {
        self.entries.lock().get(id).map(|entry| entry.expires)
    }

    /// Extends the deadline of an execution to `expires` if that is later. Does nothing if the execution does not
    /// exist.
    pub(super) fn defer(&self, id: &str, expires: Instant) {
        if let Some(entry) = self.entries.lock().get_mut(id) {
            entry.expires = entry.expires.max(expires);
        }
    }

    /// Suspends an execution. Sets the deadline to `expires` if the execution is new or `was_answered`; otherwise the
    /// previous deadline remains. Returns `true` if the execution is new.
    ///
    /// If the execution is cancelled, returns it without suspending it. The caller must then end it, because the client
    /// that cancelled the execution expects the result in the response of the running request.
    pub(super) fn put(
        &self,
        id: &str,
        stepping: StepwiseExecution,
        expires: Instant,
        was_answered: bool,
    ) -> Result<bool, Box<StepwiseExecution>> {
        let mut entries = self.entries.lock();
        if stepping.cancel.is_cancelled() {
            entries.remove(id);
            return Err(Box::new(stepping));
        }
        let is_new = !entries.contains_key(id);
        let cancel = stepping.cancel.clone();
        let held = ChargedBytes::default();
        let entry = entries.entry(id.to_owned()).or_insert(SuspendedEntry {
            state: SuspensionState::Busy,
            expires,
            cancel,
            held,
        });
        entry.state = SuspensionState::Waiting(Box::new(stepping));
        if was_answered {
            entry.expires = expires;
        }
        Ok(is_new)
    }

    /// Releases the memory charged for an execution that has ended.
    fn release(&self, id: &str) {
        let held = self.entries.lock().get_mut(id).map(|entry| std::mem::take(&mut entry.held));
        drop(held);
    }

    /// Maps the result of an ended execution with `then`, which receives the charged memory, and removes the execution.
    /// If `then` fails with [`DeliveryError::NoRoom`], the result stays and can be read again.
    pub(super) fn read<T>(
        &self,
        id: &str,
        unread: UnreadResult,
        then: impl FnOnce(FinishedExecution) -> Result<T, DeliveryError>,
    ) -> Result<T, ServiceError> {
        let UnreadResult { result, suspended, held } = unread;
        let read = match result {
            Ok(ended) => then(FinishedExecution { charged: Some(held), ..ended }),
            Err(error) => Err(error.into()),
        };
        match read {
            Err(DeliveryError::NoRoom(mut ended)) => {
                let held = ended.charged.take().unwrap_or_default();
                self.store_result(id, UnreadResult { result: Ok(*ended), suspended, held });
                Err(ServiceError::NoRoom)
            }
            read => {
                self.forget(id);
                read.map_err(ServiceError::from)
            }
        }
    }

    fn store_result(&self, id: &str, unread: UnreadResult) {
        if let Some(entry) = self.entries.lock().get_mut(id) {
            entry.state = SuspensionState::Ended(Box::new(unread));
        }
    }
}

pub(super) enum SuspensionCheck {
    Gone,
    Again,
    End(Box<StepwiseExecution>),
    HasEnded(Box<StepwiseExecution>),
}

fn not_found(id: &str) -> ServiceError {
    ServiceError::NoExecution { execution: id.to_owned() }
}

fn busy(id: &str) -> ServiceError {
    ServiceError::ExecutionBusy { execution: id.to_owned() }
}

/// The interval between checks of an execution that has ended, or that a request is still resuming after its timeout.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Retention time of a cancelled execution's unread result, if there was no memory for the response. Most clients that
/// cancel an execution do not request its result again.
const CANCELLED_TIME: Duration = Duration::from_secs(60);

impl Tenant {
    /// Charges memory for a suspended execution until it ends.
    pub(crate) fn charge_suspended(&self, execution: &str, held: ChargedBytes) {
        if let Some(entry) = self.inner.suspended.entries.lock().get_mut(execution) {
            entry.held.join(held);
        }
    }

    /// Restarts the timeout of a suspended execution while the server prepares an answer for it.
    pub(crate) fn restart_timeout(&self, execution: &str) {
        self.inner.suspended.defer(execution, Instant::now() + self.inner.service.suspension().time);
    }

    /// Suspends an execution and returns its timeout. The timeout restarts only if `was_answered`. Returns the
    /// execution instead if it is cancelled. Must be called within a Tokio runtime.
    pub(super) fn suspend(
        &self,
        id: String,
        stepping: StepwiseExecution,
        was_answered: bool,
    ) -> Result<Duration, Box<StepwiseExecution>> {
        let (time, ended) = (self.inner.service.suspension().time, stepping.started.end_token());
        if self.inner.suspended.put(&id, stepping, Instant::now() + time, was_answered)? {
            tokio::spawn(watch(self.clone(), id, ended));
        }
        Ok(time)
    }

    /// Charges a result to the budget of the client that started the execution, until it is read. Releases the memory
    /// reserved for the worker's reply. Returns `None` if the budget is exhausted or had no room for that reply.
    fn charge(&self, result: &mut Result<FinishedExecution, ServiceError>) -> Option<ChargedBytes> {
        let Some(budget) = &self.unread else { return Some(ChargedBytes::default()) };
        match result {
            Ok(ended) => {
                let bytes = json_len(ended.execution()).ok()?;
                ended.finished.reply_room = None;
                budget.try_room(Some(self.name()), bytes).ok()
            }
            Err(ServiceError::NoRoom) => None,
            Err(_) => Some(ChargedBytes::default()),
        }
    }
}

/// Watches a suspended execution. Ends it on timeout or shutdown. If the execution ends by itself, fetches its result
/// and releases its resources. `has_ended` is cancelled when the execution ends.
async fn watch(tenant: Tenant, id: String, has_ended: CancellationToken) {
    let (executions, service) = (&tenant.inner.suspended, &tenant.inner.service);
    while let Some(expires) = executions.expires(&id) {
        let (soon, is_ended) = (Instant::now() + CHECK_INTERVAL, has_ended.is_cancelled());
        let next = if is_ended { soon } else { expires.max(soon) };
        tokio::select! {
            () = tokio::time::sleep_until(next.into()) => {}
            () = has_ended.cancelled(), if !is_ended => {}
            () = service.draining() => {}
        }
        let draining = service.is_draining();
        let fetching = executions.fetching.try_lock();
        match executions.check(&id, draining, fetching.is_ok()) {
            SuspensionCheck::Gone => return,
            SuspensionCheck::Again => {
                drop(fetching);
                // During shutdown, `draining` above returns immediately, so sleep here instead.
                if draining {
                    tokio::time::sleep(CHECK_INTERVAL).await;
                }
            }
            SuspensionCheck::End(stepping) => {
                // Executions end concurrently, because a script can delay its end. The permits for suspended executions
                // limit their number.
                drop(fetching);
                let _ = tenant.end(*stepping).await;
                return;
            }
            SuspensionCheck::HasEnded(stepping) => {
                let suspended = Arc::clone(&stepping.suspended);
                let mut result = tenant.result(*stepping).await;
                executions.release(&id);
                let charging = tenant.clone();
                let charge = move || charging.charge(&mut result).map(|held| (result, held));
                let charged = Service::blocking(charge).await;
                match charged.unwrap_or_else(|error| Some((Err(error), ChargedBytes::default()))) {
                    Some((result, held)) => executions.store_result(&id, UnreadResult { result, suspended, held }),
                    None => executions.forget(&id),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
