//! Sessions: interpreters that persist between executions.
//!
//! * [`handle`]: the public [`Session`]. [`turn`]: its turns. [`fair_lock`]: the lock behind the turns.
//! * [`backend`]: the engine's implementation of a session. [`pages`]: private memory pages, found by comparison with
//!   the pristine image.
//! * [`shared_workspace`]: workspaces that several sessions share, and session options.
//! * [`hibernate`]: sessions encoded as bytes. [`variables`]: the names and types of global variables.
//!
//! `glovebox-core` implements the session state machine, checkpoints, rollback and the ledger of all sessions.

/// Setters of the session scope, for [`SessionOptions`] and [`ResumeOptions`](hibernate::ResumeOptions).
macro_rules! scope_setters {
    () => {
        /// Sets the token that cancels the session's work outside requests: access to variables, exit handlers and
        /// rollbacks. Default: a token that is never cancelled.
        #[must_use]
        pub fn cancel(mut self, token: &crate::CancelToken) -> Self {
            self.scope.cancel = token.clone();
            self
        }

        /// Sets the cancellation token and fuel budget of the session.
        #[doc(hidden)]
        pub fn scope(mut self, scope: &crate::exec::platform::SessionScope) -> Self {
            self.scope = scope.clone();
            self
        }
    };
}

use scope_setters;

mod backend;
mod fair_lock;
mod handle;
pub(crate) mod hibernate;
mod pages;
mod shared_workspace;
mod turn;
mod variables;

use crate::{ExecuteError, Sandbox};

pub use handle::Session;
pub(crate) use pages::{PristineImage, bits};
pub(crate) use shared_workspace::check_id;
pub use shared_workspace::{SessionOptions, SharedWorkspace};
pub use variables::{
    ClassDescription, FunctionSignature, KeywordParameter, MethodDescription, SessionVariable, VariableKind,
};

impl Sandbox {
    /// Opens a session: an interpreter that persists between executions.
    ///
    /// # Errors
    /// Fails if the runtime is not prepared, if a session limit is exceeded, or if no instance could be created.
    pub fn session(&self) -> Result<Session, ExecuteError> {
        self.open_session(SessionOptions::default())
    }

    /// Like [`session`](Self::session), but with options such as an ID or a context.
    ///
    /// # Errors
    /// Fails like [`session`](Self::session), or if an option is invalid.
    pub fn open_session(&self, options: SessionOptions) -> Result<Session, ExecuteError> {
        Session::open(self, options)
    }
}
