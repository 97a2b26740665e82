//! Quotas: limits on the total usage of the sandbox by one component.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use glovebox::internal::Budget;
use serde::Serialize;

/// Limits on the total usage of the sandbox by one store's component, in addition to its policies. A call that would
/// exceed a quota fails with `quota-exceeded` before anything runs. Results are checked afterwards, because their sizes
/// are not known in advance.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quotas {
    /// Maximum number of concurrent sessions. Default: 64.
    pub sessions: u32,
    /// Maximum number of concurrent started executions, including dropped executions that have not ended. Each
    /// asynchronous call of version 0.3.0 except `finish` and `suspend` counts as well, until it returns. A dropped
    /// call counts until its script ends. Default: 16.
    pub started: u32,
    /// Maximum number of calls of version 0.3.0 that run at the same time, each on one thread. A call that would exceed
    /// this number does not fail. It waits without a thread until all earlier calls have begun and fewer calls are
    /// running. Default: 16. 0 means 1.
    ///
    /// Waiting does not count towards `limits.timeout_ms`, but towards `request.deadline-ms`. The host holds the
    /// arguments of a waiting call, which count against [`held_bytes`](Self::held_bytes). Output counts when the script
    /// starts. With the default limits, the default [`held_bytes`](Self::held_bytes) are enough for 20 running calls.
    ///
    /// Calls that start, resume or suspend an execution, and calls to the `tools` interface, never wait: a started
    /// script may wait for the component. Scripts that wait for each other, for example in a tool of the host, must be
    /// able to run at the same time.
    pub calls_at_once: u32,
    /// Maximum total number of executions. Each of these also counts as one execution: a validation, access to a
    /// variable, a call to the `tools` interface, and opening, resuming, forking or rolling back a session.
    /// Default: 1,000,000.
    pub executions: u64,
    /// Maximum total fuel of all executions. Default: 10^14.
    ///
    /// An execution can use at most the remaining fuel, so it can run out of fuel before it reaches its policy's limit.
    /// In that case, `exhausted.limit` contains the lower limit. A running execution is charged all the fuel that it
    /// may use. After a timeout or a cancellation, the charge stays, because the exact use is unknown. The remaining
    /// fuel may be too little to roll a session back.
    pub fuel: u64,
    /// Maximum number of bytes that the host holds for the component. Default: 256 MiB. Session memory is not included,
    /// because the policy's limits bound it. The following bytes are counted:
    ///
    /// * blobs, input files, file snapshots, tools, and the arguments and environments of policies;
    /// * results of started executions, and the files of those outside sessions;
    /// * requests of suspendable executions until their handle is dropped, and journals of running suspendable
    ///   executions, at their maximum size;
    /// * in version 0.3.0: arguments and output of running calls, requests of started executions, suspended executions
    ///   until they are dropped, files and saved sessions in streams, and events of open streams (`limits.tool_bytes`
    ///   for each stream). After a failed suspension in a session, also the serialized state of the session, until the
    ///   execution is suspended or dropped.
    pub held_bytes: u64,
    /// Maximum number of open handles of sessions, started executions, files and blobs, and of open streams. Default:
    /// 10,000.
    pub handles: u32,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            sessions: 64,
            started: 16,
            calls_at_once: 16,
            executions: 1_000_000,
            fuel: 100_000_000_000_000,
            held_bytes: 256 << 20,
            handles: 10_000,
        }
    }
}

/// The usage of a component's [`Quotas`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Usage {
    /// The current number of sessions.
    pub sessions: u32,
    /// The number of started executions that have not ended, even if their handle was dropped. Includes the calls of
    /// version 0.3.0 that wait or run.
    pub started: u32,
    /// The number of all executions so far, ended or not, counted as in [`Quotas::executions`].
    pub executions: u64,
    /// Fuel charged so far, including all fuel that running executions may still use.
    pub fuel: u64,
    /// The number of bytes that the host currently holds.
    pub held_bytes: u64,
    /// The current number of open handles.
    pub handles: u32,
}

/// A component's quotas, and its usage so far.
#[derive(Debug)]
pub(super) struct Meter {
    quotas: Quotas,
    used: Mutex<Usage>,
}

/// A share of a quota, returned when dropped.
#[derive(Debug)]
pub(super) struct QuotaShare {
    meter: Arc<Meter>,
    of: QuotaUse,
}

/// The usage that is returned to the quota when its [`QuotaShare`] is dropped.
#[derive(Clone, Copy, Debug)]
pub(super) enum QuotaUse {
    Session,
    Started,
    Handle,
    Bytes(u64),
}

/// Fuel reserved for an execution's budget. Dropping the reservation returns the fuel that remains in the budget.
#[derive(Debug)]
#[must_use]
pub(super) struct FuelReservation {
    meter: Arc<Meter>,
    fuel: u64,
    budget: Budget,
}

/// The advice in the error for an exceeded quota of held resources.
const DROP: &str = "drop unused resources, or raise the quota in the host";
/// The advice in the error for an exceeded quota of total use.
const RAISE: &str = "raise the quota in the host";

/// The error for an exceeded quota: the name and the limit of the quota, and advice.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct QuotaError(pub(super) String);

fn exceeded(quota: &str, max: u64, advice: &str) -> QuotaError {
    QuotaError(format!("`{quota}` would be exceeded: the maximum is {max}; {advice}"))
}

impl Meter {
    pub(super) fn new(quotas: Quotas) -> Arc<Self> {
        Arc::new(Self { quotas, used: Mutex::default() })
    }

    fn used(&self) -> MutexGuard<'_, Usage> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn usage(&self) -> Usage {
        *self.used()
    }

    /// Takes a share of a quota. Fails if the share would exceed the quota.
    pub(super) fn take(self: &Arc<Self>, of: QuotaUse) -> Result<QuotaShare, QuotaError> {
        let mut used = self.used();
        let Usage { sessions, started, held_bytes, handles, .. } = &mut *used;
        match of {
            QuotaUse::Session => one_more(sessions, self.quotas.sessions, "sessions")?,
            QuotaUse::Started => one_more(started, self.quotas.started, "started")?,
            QuotaUse::Handle => one_more(handles, self.quotas.handles, "handles")?,
            QuotaUse::Bytes(bytes) => more_bytes(held_bytes, bytes, self.quotas.held_bytes)?,
        }
        Ok(QuotaShare { meter: Arc::clone(self), of })
    }

    /// Counts an execution and reserves fuel for its budget: `fuel`, or all remaining fuel if that is less. Fails if no
    /// fuel or no execution remains.
    pub(super) fn execution(self: &Arc<Self>, fuel: u64, budget: &Budget) -> Result<FuelReservation, QuotaError> {
        let mut used = self.used();
        if used.fuel >= self.quotas.fuel {
            return Err(exceeded("fuel", self.quotas.fuel, RAISE));
        }
        self.count(&mut used)?;
        Ok(self.reserve_fuel(&mut used, fuel, budget))
    }

    /// Reserves fuel for a call that runs no script, but may roll a session back or run its exit handlers. The
    /// reservation is empty if no fuel remains.
    pub(super) fn reserve_available(self: &Arc<Self>, fuel: u64, budget: &Budget) -> FuelReservation {
        self.reserve_fuel(&mut self.used(), fuel, budget)
    }

    /// Counts a call that uses no fuel.
    pub(super) fn call(&self) -> Result<(), QuotaError> {
        self.count(&mut self.used())
    }

    fn count(&self, used: &mut Usage) -> Result<(), QuotaError> {
        if used.executions >= self.quotas.executions {
            return Err(exceeded("executions", self.quotas.executions, RAISE));
        }
        used.executions += 1;
        Ok(())
    }

    fn reserve_fuel(self: &Arc<Self>, used: &mut Usage, fuel: u64, budget: &Budget) -> FuelReservation {
        let fuel = fuel.min(self.quotas.fuel.saturating_sub(used.fuel));
        used.fuel += fuel;
        budget.renew(fuel);
        FuelReservation { meter: Arc::clone(self), fuel, budget: budget.clone() }
    }
}

fn one_more(count: &mut u32, max: u32, quota: &str) -> Result<(), QuotaError> {
    if *count >= max {
        return Err(exceeded(quota, u64::from(max), DROP));
    }
    *count += 1;
    Ok(())
}

fn more_bytes(held: &mut u64, bytes: u64, max: u64) -> Result<(), QuotaError> {
    match held.checked_add(bytes) {
        Some(sum) if sum <= max => *held = sum,
        _ => return Err(exceeded("held-bytes", max, DROP)),
    }
    Ok(())
}

impl QuotaShare {
    /// Changes the number of bytes in the share. Fails if the new number would exceed the quota.
    pub(super) fn resize(&mut self, bytes: u64) -> Result<(), QuotaError> {
        let QuotaUse::Bytes(before) = &mut self.of else { return Ok(()) };
        let mut used = self.meter.used();
        let mut held = used.held_bytes.saturating_sub(*before);
        more_bytes(&mut held, bytes, self.meter.quotas.held_bytes)?;
        used.held_bytes = held;
        *before = bytes;
        Ok(())
    }
}

impl Drop for QuotaShare {
    fn drop(&mut self) {
        let mut used = self.meter.used();
        match self.of {
            QuotaUse::Session => used.sessions = used.sessions.saturating_sub(1),
            QuotaUse::Started => used.started = used.started.saturating_sub(1),
            QuotaUse::Handle => used.handles = used.handles.saturating_sub(1),
            QuotaUse::Bytes(bytes) => used.held_bytes = used.held_bytes.saturating_sub(bytes),
        }
    }
}

impl Drop for FuelReservation {
    fn drop(&mut self) {
        let left = self.budget.take().min(self.fuel);
        let mut used = self.meter.used();
        used.fuel = used.fuel.saturating_sub(left);
    }
}
