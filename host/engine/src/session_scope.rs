//! What whoever has a session run holds it to, beside the limits of each execution.

use glovebox_core::Limits;

use crate::{
    CancelToken,
    budget::Budget,
    platform::{EnginePlatform, ExecutionCtx},
};

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
