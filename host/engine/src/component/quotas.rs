//! What one application may use of the sandbox in all.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::wit::types::SandboxError;

/// What one application may use of the sandbox in all, whatever its policies say. What is over a quota is refused before anything
/// runs: `quota-exceeded`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quotas {
    /// Sessions at once. Default 64.
    pub sessions: u32,
    /// Started executions at once, those that nobody waits for included. Default 16.
    pub started: u32,
    /// Executions in all; a validation, an access to a variable and whatever else enters a guest is one. Default 1,000,000.
    pub executions: u64,
    /// Fuel of all executions together. Default 10^14. An execution gets no more fuel than is left, so that it cannot be
    /// overdrawn; while one runs, all that it may use counts.
    pub fuel: u64,
    /// Bytes that the host holds for it at once: blobs, snapshots of files, the output of started executions. Default 256 MiB.
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
    /// Sessions that there are.
    pub sessions: u32,
    /// Started executions that there are.
    pub started: u32,
    /// Executions so far.
    pub executions: u64,
    /// Fuel so far, and what those that run may still use.
    pub fuel: u64,
    /// Bytes held.
    pub held_bytes: u64,
    /// Handles that there are.
    pub handles: u32,
}

/// Counts what an application uses.
#[derive(Debug)]
pub(super) struct Meter {
    quotas: Quotas,
    used: Mutex<Usage>,
}

/// What one of something counts for, for as long as this lives.
#[derive(Debug)]
pub(super) struct Share {
    meter: Arc<Meter>,
    of: Of,
}

/// What there is a quota on at once.
#[derive(Clone, Copy, Debug)]
pub(super) enum Of {
    Session,
    Started,
    Handle,
    Bytes(u64),
}

/// The fuel that an execution may use. Dropped, all of it was.
#[derive(Debug)]
pub(super) struct Bill {
    meter: Arc<Meter>,
    fuel: u64,
}

fn exceeded(quota: &str, most: u64) -> SandboxError {
    SandboxError::QuotaExceeded(format!("`{quota}`: the most is {most}"))
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
    pub(super) fn take(self: &Arc<Self>, of: Of) -> Result<Share, SandboxError> {
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

    /// Counts an execution that may use this much fuel; it is granted that, or what is left.
    pub(super) fn execution(self: &Arc<Self>, fuel: u64) -> Result<Bill, SandboxError> {
        let mut used = self.used();
        if used.executions >= self.quotas.executions {
            return Err(exceeded("executions", self.quotas.executions));
        }
        let fuel = fuel.min(self.quotas.fuel.saturating_sub(used.fuel));
        if fuel == 0 {
            return Err(exceeded("fuel", self.quotas.fuel));
        }
        used.executions += 1;
        used.fuel += fuel;
        Ok(Bill { meter: Arc::clone(self), fuel })
    }
}

fn one_more(count: &mut u32, most: u32, quota: &str) -> Result<(), SandboxError> {
    if *count >= most {
        return Err(exceeded(quota, u64::from(most)));
    }
    *count += 1;
    Ok(())
}

fn more_bytes(held: &mut u64, bytes: u64, most: u64) -> Result<(), SandboxError> {
    match held.checked_add(bytes) {
        Some(sum) if sum <= most => *held = sum,
        _ => return Err(exceeded("held-bytes", most)),
    }
    Ok(())
}

impl Share {
    /// Counts more or fewer bytes from now on.
    pub(super) fn resize(&mut self, bytes: u64) -> Result<(), SandboxError> {
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

impl Bill {
    /// What was granted.
    pub(super) fn fuel(&self) -> u64 {
        self.fuel
    }

    /// Gives back what was not used.
    pub(super) fn settle(self, consumed: u64) {
        let mut used = self.meter.used();
        used.fuel = used.fuel.saturating_sub(self.fuel.saturating_sub(consumed));
    }
}
