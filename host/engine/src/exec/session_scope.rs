//! The cancellation token and fuel budget shared by all executions of one session.

use glovebox_core::Limits;

use crate::{
    CancelToken,
    exec::{
        budget::Budget,
        platform::{EnginePlatform, ExecutionCtx},
    },
};

/// The token and the budget of one session. The default budget is unlimited, and no caller holds the default token.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionScope {
    /// Cancels work of the session outside any request: access to variables, exit handlers, rollbacks.
    pub(crate) cancel: CancelToken,
    /// Fuel budget for all work of the session.
    pub(crate) budget: Budget,
}

impl SessionScope {
    /// Returns a context for a call into the guest that does not run a script.
    pub(crate) fn one_shot_ctx(&self, limits: &Limits) -> ExecutionCtx {
        let mut platform = EnginePlatform::new(self.cancel.clone());
        platform.budget = self.budget.clone();
        platform.begin(limits.timeout())
    }
}
