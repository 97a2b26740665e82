//! The state of an execution between two steps.

use std::sync::{Arc, Mutex, PoisonError};

use glovebox::{CancelToken, Execution, Started, Stream};
use glovebox_sessions::{ActiveSession, SessionId};
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit};

use super::OnOutput;
use crate::Door;

/// A finished execution.
#[derive(Debug)]
pub struct Ended {
    /// The outcome, output and usage of the execution.
    pub execution: Execution,
    /// The session's generation after the execution. `None` outside of sessions.
    pub generation: Option<String>,
    /// Patterns of the files to return, as given at the start of the execution.
    pub return_files: Vec<String>,
}

/// The output callback, which each step replaces.
#[derive(Clone, Default)]
pub(super) struct Output(Arc<Mutex<Option<OnOutput>>>);

impl Output {
    pub(super) fn set(&self, on_output: Option<OnOutput>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = on_output;
    }

    pub(super) fn listener(&self) -> impl FnMut(Stream, &[u8]) + Send + 'static {
        let output = self.clone();
        move |stream, bytes| {
            if let Some(on_output) = &mut *output.0.lock().unwrap_or_else(PoisonError::into_inner) {
                on_output(stream, bytes);
            }
        }
    }
}

/// An execution between two steps.
pub(super) struct Stepping {
    pub(super) started: Started,
    /// The session, which stays in memory.
    pub(super) active: Option<ActiveSession>,
    pub(super) output: Output,
    pub(super) cancel: CancelToken,
    pub(super) door: Door,
    pub(super) session: Option<SessionId>,
    pub(super) source: String,
    pub(super) return_files: Vec<String>,
    /// Permits for a suspended execution: the tenant's and the service's.
    pub(super) _suspended: [OwnedSemaphorePermit; 2],
    pub(super) _own: OwnedSemaphorePermit,
    pub(super) _turn: Option<OwnedMutexGuard<()>>,
}
