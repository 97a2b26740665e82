//! Fuel that several executions share, in addition to the limit of each.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Fuel that several executions share, one after the other. The default is unlimited: only the limit of each execution
/// applies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget(Option<Arc<AtomicU64>>);

impl Budget {
    /// Returns a budget without fuel.
    pub(crate) fn empty() -> Self {
        Self(Some(Arc::default()))
    }

    /// Sets the remaining fuel. Must not be called during an execution that uses the budget. Executions that share a
    /// budget run one after the other.
    pub(crate) fn renew(&self, fuel: u64) {
        if let Some(left) = &self.0 {
            left.store(fuel, Ordering::SeqCst);
        }
    }

    /// Empties the budget, and returns the remaining fuel.
    pub(crate) fn take(&self) -> u64 {
        self.0.as_ref().map_or(0, |left| left.swap(0, Ordering::SeqCst))
    }

    /// Returns the fuel that one execution with the limit `fuel` may use.
    pub(crate) fn within(&self, fuel: u64) -> u64 {
        self.0.as_ref().map_or(fuel, |left| left.load(Ordering::SeqCst).min(fuel))
    }

    /// Subtracts used fuel.
    pub(crate) fn spend(&self, fuel: u64) {
        if let Some(left) = &self.0 {
            left.store(left.load(Ordering::SeqCst).saturating_sub(fuel), Ordering::SeqCst);
        }
    }
}
