//! What whoever has guests run may use of them in all, beside the limits of each execution.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::CancelToken;

/// Fuel that several executions share, one after the other. By default there is no bound but each one's limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget(Option<Arc<AtomicU64>>);

impl Budget {
    /// A budget of this much fuel.
    pub(crate) fn of(fuel: u64) -> Self {
        Self(Some(Arc::new(AtomicU64::new(fuel))))
    }

    /// What is left; none where nothing bounds it.
    pub(crate) fn left(&self) -> Option<u64> {
        Some(self.0.as_ref()?.load(Ordering::SeqCst))
    }

    /// Sets what is left. For when nobody uses it.
    pub(crate) fn renew(&self, fuel: u64) {
        if let Some(left) = &self.0 {
            left.store(fuel, Ordering::SeqCst);
        }
    }

    /// What one execution may use.
    pub(crate) fn within(&self, fuel: u64) -> u64 {
        self.left().map_or(fuel, |left| left.min(fuel))
    }

    /// Takes away what was used.
    pub(crate) fn spend(&self, fuel: u64) {
        if let Some(left) = &self.0 {
            left.store(left.load(Ordering::SeqCst).saturating_sub(fuel), Ordering::SeqCst);
        }
    }
}

/// Whom a session is kept for. By default nobody stops what the session does by itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keeper {
    /// Stops what runs for the session and is no request's: access to variables, exit handlers, going back.
    pub(crate) cancel: CancelToken,
    /// Bounds all that runs for it.
    pub(crate) budget: Budget,
}
