//! Running executions that a client can cancel by their IDs.

use std::{collections::HashMap, sync::Arc};

use glovebox::CancelToken;
use glovebox_sessions::SessionId;
use parking_lot::Mutex;

use super::Tenant;

/// The cancellation tokens of a tenant's running executions, keyed by ID. Clones share the tokens.
#[derive(Clone, Default)]
pub(super) struct RunningExecutions(Arc<Mutex<HashMap<String, CancelToken>>>);

impl RunningExecutions {
    /// Cancels an execution. Returns `false` if it is not running.
    pub(super) fn cancel(&self, id: &str) -> bool {
        let token = self.0.lock().get(id).cloned();
        // Cancelling runs hooks, which may take time or need the lock, so the lock is not held.
        token.inspect(CancelToken::cancel).is_some()
    }
}

/// The ID of an execution. With this ID, the client can cancel the execution until this value is dropped.
pub(crate) struct RunningExecution {
    pub(crate) id: String,
    pub(crate) cancel: CancelToken,
    executions: RunningExecutions,
}

impl Drop for RunningExecution {
    fn drop(&mut self) {
        self.executions.0.lock().remove(&self.id);
    }
}

impl Tenant {
    /// Creates an ID and a cancellation token for an execution that is about to start.
    pub(crate) fn announce(&self) -> RunningExecution {
        let (id, cancel) = (SessionId::random().to_string(), CancelToken::new());
        let executions = self.inner.running.clone();
        executions.0.lock().insert(id.clone(), cancel.clone());
        RunningExecution { id, cancel, executions }
    }
}
