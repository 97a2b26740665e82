//! The total that one application may use of the sandbox.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::budget::Budget;

/// The total that one application may use of the sandbox, whatever its policies say. A call over a quota is refused before anything
/// runs: `quota-exceeded`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quotas {
    /// Sessions at once. Default 64.
    pub sessions: u32,
    /// Started executions at once, including those that nobody waits for. Default 16.
    pub started: u32,
    /// Total number of executions. A validation, an access to a variable, and opening, resuming, forking and undoing a session
    /// count as one each, and so does a call of interface `tools`. Default 1,000,000.
    pub executions: u64,
    /// Fuel of all executions together. Default 10^14. An execution gets no more than is left, so that this cannot be
    /// overdrawn: it may run out earlier than its policy says, at what `exhausted.limit` says. While one runs, all that it may
    /// use counts, and of one that was unwound for its time or by a cancellation it counts for good: what such a one used is
    /// not known to the unit. What is left at the end may be too little for a session to go back with.
    pub fuel: u64,
    /// Bytes that the host holds for it at once: blobs, snapshots of files, the output of started executions, its tools,
    /// and the arguments and environments of its policies. Default 256 MiB.
    /// What sessions hold is bounded by the limits of their policy.
    pub held_bytes: u64,
    /// Handles of sessions, started executions, files and blobs at once. Default 10,000.
    pub handles: u32,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            sessions: 64,
            started: 16,
            executions: 1_000_000,
            fuel: 100_000_000_000_000,
            held_bytes: 256 << 20,
            handles: 10_000,
        }
    }
}

/// What an application has used of its [`Quotas`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Usage {
    /// Number of sessions.
    pub sessions: u32,
    /// Number of started executions.
    pub started: u32,
    /// Executions so far.
    pub executions: u64,
    /// Fuel so far, including what running executions may still use.
    pub fuel: u64,
    /// Bytes held.
    pub held_bytes: u64,
    /// Number of handles.
    pub handles: u32,
}

/// Counts what an application uses.
#[derive(Debug)]
pub(super) struct Meter {
    quotas: Quotas,
    used: Mutex<Usage>,
}

/// A share of a quota, taken for as long as this lives.
#[derive(Debug)]
pub(super) struct Share {
    meter: Arc<Meter>,
    of: Of,
}

/// The kinds of quotas on what exists at once.
#[derive(Clone, Copy, Debug)]
pub(super) enum Of {
    Session,
    Started,
    Handle,
    Bytes(u64),
}

/// The fuel that an execution may use, which fills its budget. On drop, what the budget has left is given back.
#[derive(Debug)]
#[must_use]
pub(super) struct Bill {
    meter: Arc<Meter>,
    fuel: u64,
    budget: Budget,
}

/// A quota is exceeded: which one, and what it grants.
#[derive(Clone, Debug)]
pub(super) struct OverQuota(pub(super) String);

fn exceeded(quota: &str, most: u64) -> OverQuota {
    OverQuota(format!("`{quota}`: at most {most} is granted"))
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

    /// Counts one of something while the share lives.
    pub(super) fn take(self: &Arc<Self>, of: Of) -> Result<Share, OverQuota> {
        let mut used = self.used();
        let Usage { sessions, started, held_bytes, handles, .. } = &mut *used;
        match of {
            Of::Session => one_more(sessions, self.quotas.sessions, "sessions")?,
            Of::Started => one_more(started, self.quotas.started, "started")?,
            Of::Handle => one_more(handles, self.quotas.handles, "handles")?,
            Of::Bytes(bytes) => more_bytes(held_bytes, bytes, self.quotas.held_bytes)?,
        }
        Ok(Share { meter: Arc::clone(self), of })
    }

    /// Counts an execution that may use this much fuel. Its budget gets that, or what is left.
    pub(super) fn execution(self: &Arc<Self>, fuel: u64, budget: &Budget) -> Result<Bill, OverQuota> {
        let mut used = self.used();
        if used.fuel >= self.quotas.fuel {
            return Err(exceeded("fuel", self.quotas.fuel));
        }
        self.count(&mut used)?;
        Ok(self.bill(&mut used, fuel, budget))
    }

    /// Pays for a call that runs no script of the component, unless a session has to be rolled back for it. If no fuel is left, it gets
    /// none.
    pub(super) fn passing(self: &Arc<Self>, fuel: u64, budget: &Budget) -> Bill {
        self.bill(&mut self.used(), fuel, budget)
    }

    /// Counts what costs no fuel.
    pub(super) fn call(&self) -> Result<(), OverQuota> {
        self.count(&mut self.used())
    }

    fn count(&self, used: &mut Usage) -> Result<(), OverQuota> {
        if used.executions >= self.quotas.executions {
            return Err(exceeded("executions", self.quotas.executions));
        }
        used.executions += 1;
        Ok(())
    }

    fn bill(self: &Arc<Self>, used: &mut Usage, fuel: u64, budget: &Budget) -> Bill {
        let fuel = fuel.min(self.quotas.fuel.saturating_sub(used.fuel));
        used.fuel += fuel;
        budget.renew(fuel);
        Bill { meter: Arc::clone(self), fuel, budget: budget.clone() }
    }
}

fn one_more(count: &mut u32, most: u32, quota: &str) -> Result<(), OverQuota> {
    if *count >= most {
        return Err(exceeded(quota, u64::from(most)));
    }
    *count += 1;
    Ok(())
}

fn more_bytes(held: &mut u64, bytes: u64, most: u64) -> Result<(), OverQuota> {
    match held.checked_add(bytes) {
        Some(sum) if sum <= most => *held = sum,
        _ => return Err(exceeded("held-bytes", most)),
    }
    Ok(())
}

impl Share {
    /// Counts more or fewer bytes from now on.
    pub(super) fn resize(&mut self, bytes: u64) -> Result<(), OverQuota> {
        let Of::Bytes(before) = &mut self.of else { return Ok(()) };
        let mut used = self.meter.used();
        let mut held = used.held_bytes.saturating_sub(*before);
        more_bytes(&mut held, bytes, self.meter.quotas.held_bytes)?;
        used.held_bytes = held;
        *before = bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut used = self.meter.used();
        match self.of {
            Of::Session => used.sessions = used.sessions.saturating_sub(1),
            Of::Started => used.started = used.started.saturating_sub(1),
            Of::Handle => used.handles = used.handles.saturating_sub(1),
            Of::Bytes(bytes) => used.held_bytes = used.held_bytes.saturating_sub(bytes),
        }
    }
}

impl Drop for Bill {
    fn drop(&mut self) {
        let left = self.budget.take().min(self.fuel);
        let mut used = self.meter.used();
        used.fuel = used.fuel.saturating_sub(left);
    }
}
