//! Options for opening a session, and the state of a session that is available without its turn.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use glovebox_core::session::{MAX_SESSION_ID_BYTES, is_session_id};

use crate::{
    CancelToken, ExecuteError, JsonText, SessionInfo, SharedWorkspace,
    exec::platform::{self, SessionScope},
};

/// Options for opening a session. Start from `default()` and change individual fields.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SessionOptions {
    /// Id of the session: 1 to 64 letters, digits, `.`, `_` or `-`, not starting with `.`. Default: 128 random bits in
    /// hexadecimal. The caller must ensure that the id is unique.
    pub id: Option<String>,
    /// Value of the global variable `context`. Default: no such variable. At most `limits.stdin_bytes` of JSON text.
    pub context: Option<JsonText>,
    /// Files that the session shares with other sessions. Default: files of its own.
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

    /// Sets the token that cancels what runs in the session outside any request: access to variables, exit handlers,
    /// rollbacks. Default: nothing cancels it.
    #[must_use]
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.scope.cancel = token.clone();
        self
    }

    /// Sets the cancellation token and fuel budget of the session.
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

/// Fails if `id` is not valid for a session.
pub(crate) fn check_id(id: &str) -> Result<(), ExecuteError> {
    if is_session_id(id) {
        return Ok(());
    }
    Err(ExecuteError::SessionId { id: id.chars().take(MAX_SESSION_ID_BYTES).collect() })
}

/// Returns the valid id of a new session: the requested one, or a random one.
pub(super) fn chosen_id(id: Option<String>) -> Result<Arc<str>, ExecuteError> {
    let Some(id) = id else { return Ok(platform::random_id().into()) };
    check_id(&id)?;
    Ok(id.into())
}

/// State that a handle can read without waiting for its turn.
#[derive(Debug)]
pub(super) struct Status {
    pub(super) info: SessionInfo,
    pub(super) idle_since: Option<Instant>,
}

impl Status {
    pub(super) fn new(info: SessionInfo) -> Self {
        Self { info, idle_since: Some(Instant::now()) }
    }

    pub(super) fn idle_for(&self) -> Option<Duration> {
        self.idle_since.map(|since| since.elapsed())
    }
}
