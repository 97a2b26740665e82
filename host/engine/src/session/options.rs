//! How a session is opened.

use glovebox_core::session::{MAX_SESSION_ID_BYTES, is_session_id};

use crate::{ExecuteError, JsonText, SharedWorkspace, session_scope::SessionScope};

/// How a session is opened. Make one with `default()` and change what differs.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SessionOptions {
    /// Its id: 1 to 64 letters, digits, `.`, `_`, `-`, and no `.` in front. Default: 128 random bits in hexadecimal.
    /// That no other session has it is for whoever chose it to see to.
    pub id: Option<String>,
    /// What its scripts find in the global variable `context`. Default: no such variable. At most `limits.stdin_bytes` of
    /// JSON text.
    pub context: Option<JsonText>,
    /// Files that it has in common with other sessions. Default: files of its own.
    pub workspace: Option<SharedWorkspace>,
    pub(crate) scope: SessionScope,
}

impl SessionOptions {
    /// Sets [`id`](Self::id).
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets [`context`](Self::context).
    #[must_use]
    pub fn context(mut self, context: impl Into<JsonText>) -> Self {
        self.context = Some(context.into());
        self
    }

    /// What holds for all that runs in it.
    pub(crate) fn scope(mut self, scope: &SessionScope) -> Self {
        self.scope = scope.clone();
        self
    }

    /// Sets [`workspace`](Self::workspace).
    #[must_use]
    pub fn workspace(mut self, workspace: &SharedWorkspace) -> Self {
        self.workspace = Some(workspace.clone());
        self
    }
}

/// Refuses what cannot be a session's id.
pub(crate) fn check_id(id: &str) -> Result<(), ExecuteError> {
    if is_session_id(id) {
        return Ok(());
    }
    Err(ExecuteError::SessionId { id: id.chars().take(MAX_SESSION_ID_BYTES).collect() })
}
