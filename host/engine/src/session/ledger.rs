//! What an engine's sessions hold together.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::{ExecuteError, Limits};

/// How many sessions an engine keeps, and what they hold.
#[derive(Debug, Default)]
pub(crate) struct SessionLedger(Arc<Totals>);

#[derive(Debug, Default)]
struct Totals {
    count: AtomicU64,
    bytes: AtomicU64,
}

/// One session's place in the ledger.
#[derive(Debug)]
pub(super) struct Place {
    totals: Arc<Totals>,
    bytes: u64,
}

impl SessionLedger {
    /// Takes a place for one more session.
    pub(super) fn enter(&self, limits: &Limits) -> Result<Place, ExecuteError> {
        check_bytes(&self.0, limits)?;
        let most = u64::from(limits.session_count);
        let taken =
            self.0.count.try_update(Ordering::SeqCst, Ordering::SeqCst, |count| (count < most).then_some(count + 1));
        match taken {
            Ok(_) => Ok(Place { totals: Arc::clone(&self.0), bytes: 0 }),
            Err(used) => Err(ExecuteError::TooManySessions { key: "limits.session_count", used, most }),
        }
    }
}

fn check_bytes(totals: &Totals, limits: &Limits) -> Result<(), ExecuteError> {
    let (used, most) = (totals.bytes.load(Ordering::SeqCst), limits.session_total_bytes);
    if used > most {
        return Err(ExecuteError::TooManySessions { key: "limits.session_total_bytes", used, most });
    }
    Ok(())
}

impl Place {
    /// Writes down what the session holds now.
    pub(super) fn update(&mut self, bytes: u64) {
        self.totals.bytes.fetch_add(bytes, Ordering::SeqCst);
        self.totals.bytes.fetch_sub(self.bytes, Ordering::SeqCst);
        self.bytes = bytes;
    }

    /// Whether one more may be kept of what sessions hold.
    pub(super) fn check(&self, limits: &Limits) -> Result<(), ExecuteError> {
        check_bytes(&self.totals, limits)
    }

    /// What was last written down.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.update(0);
        self.totals.count.fetch_sub(1, Ordering::SeqCst);
    }
}
