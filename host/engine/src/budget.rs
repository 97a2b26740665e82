//! Fuel that several executions share, beside the limits of each.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Fuel that several executions share, one after the other. By default there is no bound but each one's limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget(Option<Arc<AtomicU64>>);

impl Budget {
    /// A budget with nothing in it yet.
    pub(crate) fn empty() -> Self {
        Self(Some(Arc::default()))
    }

    /// Fills it. Only while no execution uses it; executions that share a budget run one after the other.
    pub(crate) fn renew(&self, fuel: u64) {
        if let Some(left) = &self.0 {
            left.store(fuel, Ordering::SeqCst);
        }
    }

    /// Empties it, and returns what was left.
    pub(crate) fn take(&self) -> u64 {
        self.0.as_ref().map_or(0, |left| left.swap(0, Ordering::SeqCst))
    }

    /// What one execution may use.
    pub(crate) fn within(&self, fuel: u64) -> u64 {
        self.0.as_ref().map_or(fuel, |left| left.load(Ordering::SeqCst).min(fuel))
    }

    /// Takes away what was used.
    pub(crate) fn spend(&self, fuel: u64) {
        if let Some(left) = &self.0 {
            left.store(left.load(Ordering::SeqCst).saturating_sub(fuel), Ordering::SeqCst);
        }
    }
}
