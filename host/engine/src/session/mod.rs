//! Sessions: interpreters that persist between executions.
//!
//! * [`handle`]: the public [`Session`], and its turns ([`line`]).
//! * [`backend`]: the engine's part of a session, including its private [`pages`], which are compared with the
//!   pristine image.
//! * [`shared`]: files that several sessions share, and the options of sessions.
//!
//! `glovebox-core` contains the rest: the state machine of a session, its checkpoints, its rollback, and the ledger of
//! all sessions.

/// The setters of a session's scope, which [`SessionOptions`] and [`ResumeOptions`](hibernate::ResumeOptions) share.
macro_rules! scope_setters {
    () => {
        /// Sets the token that cancels what runs in the session outside any request: access to variables, exit
        /// handlers, rollbacks. Default: nothing cancels it.
        #[must_use]
        pub fn cancel(mut self, token: &crate::CancelToken) -> Self {
            self.scope.cancel = token.clone();
            self
        }

        /// Sets the cancellation token and fuel budget of the session.
        pub(crate) fn scope(mut self, scope: &crate::exec::platform::SessionScope) -> Self {
            self.scope = scope.clone();
            self
        }
    };
}

use scope_setters;

mod backend;
mod handle;
pub(crate) mod hibernate;
mod line;
mod pages;
mod shared;

pub use handle::Session;
pub(crate) use pages::{Pristine, bits};
pub(crate) use shared::check_id;
pub use shared::{SessionOptions, SharedWorkspace};
