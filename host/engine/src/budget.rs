//! What whoever has guests run may use of them in all, beside the limits of each execution.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use glovebox_core::Limits;

use crate::{
    CancelToken,
    platform::{EnginePlatform, ExecutionCtx},
};

/// Fuel that several executions share, one after the other. By default there is no bound but each one's limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget(Option<Arc<AtomicU64>>);

impl Budget {
    /// A budget with nothing in it yet.
    pub(crate) fn empty() -> Self {
        Self(Some(Arc::default()))
    }

    /// Fills it. For when nobody uses it, as with all that changes it: executions that share it come one after the other.
    pub(crate) fn renew(&self, fuel: u64) {
        if let Some(left) = &self.0 {
            left.store(fuel, Ordering::SeqCst);
        }
    }

    /// Empties it, and says what was left.
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

/// What holds for all that runs in one session. By default nobody stops what the session does by itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionScope {
    /// Stops what runs for the session outside any request: access to variables, exit handlers, rollbacks.
    pub(crate) cancel: CancelToken,
    /// Bounds all that runs for it.
    pub(crate) budget: Budget,
}

impl SessionScope {
    /// What bounds a call into the guest that is no script's.
    pub(crate) fn one_shot_ctx(&self, limits: &Limits) -> ExecutionCtx {
        let mut platform = EnginePlatform::new(self.cancel.clone());
        platform.budget = self.budget.clone();
        platform.begin(limits.timeout())
    }
}
