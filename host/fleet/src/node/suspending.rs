//! Suspends executions that wait for their caller, and reads the bytes of suspended executions.

use std::{sync::Arc, time::Duration};

use glovebox::{
    Execution, SessionKey, Started, Step, SuspendError, SuspendRefusal, Suspended, SuspendedBytesError, ToolRequest,
};

use super::{attempt::StepError, machine::blocking};

/// The interval between attempts to suspend an execution. An attempt fails while a tool's handler runs. It also fails
/// while the script is being stopped by a limit or a cancellation.
const INTERVAL: Duration = Duration::from_millis(10);

/// The result of an attempt to suspend an execution.
pub(super) enum SuspendAttempt {
    /// The execution was suspended. Its bytes can be resumed.
    Suspended(SuspendedExecution),
    /// The execution can no longer be suspended, and still waits. Contains the error message for the script.
    Never(String),
    /// The script continues without its caller.
    Continues,
}

pub(super) struct SuspendedExecution {
    /// All unanswered calls, in the order in which the script made them.
    pub(super) calls: Vec<ToolRequest>,
    pub(super) bytes: Vec<u8>,
    /// The execution up to the suspension, with the outcome `cancelled`.
    pub(super) execution: Arc<Execution>,
}

/// Suspends an execution that waits for its caller. `key` seals the bytes.
pub(super) async fn suspend(started: &Arc<Started>, key: Option<SessionKey>) -> Result<SuspendAttempt, StepError> {
    let started = Arc::clone(started);
    let attempt = blocking(move || {
        let suspended = match started.suspend() {
            Ok(suspended) => suspended,
            Err(SuspendError::Refused(refusal @ SuspendRefusal::JournalFull)) => {
                return Ok(SuspendAttempt::Never(format!("the execution cannot be suspended: {refusal}")));
            }
            Err(SuspendError::Running | SuspendError::Ended | SuspendError::Refused(_)) => {
                return Ok(SuspendAttempt::Continues);
            }
            Err(error) => return Err(StepError::failed(&error)),
        };
        match started.advance(Vec::new(), None).map_err(|error| StepError::failed(&error))? {
            Step::Done(execution) => Ok(SuspendAttempt::Suspended(SuspendedExecution {
                calls: suspended.tool_requests(),
                bytes: suspended.to_bytes(key.as_ref()),
                execution,
            })),
            Step::NeedsTools(_) | Step::Running => {
                Err(StepError::Later("the suspended execution has not ended".to_owned()))
            }
        }
    });
    let attempt = attempt.await?;
    if matches!(attempt, SuspendAttempt::Continues) {
        tokio::time::sleep(INTERVAL).await;
    }
    Ok(attempt)
}

/// Reads the bytes of an execution that was suspended in a session. The bytes may be untrusted. Must be called on a
/// blocking thread.
pub(super) fn read(bytes: &[u8], key: Option<&SessionKey>) -> Result<Suspended, StepError> {
    let suspended = Suspended::from_bytes(bytes, key).map_err(|error| match error {
        SuspendedBytesError::KeyMissing => StepError::invalid(
            "the suspended execution was sealed with a key; resume it in a fleet whose nodes have the same key file",
        ),
        error => StepError::invalid(error.to_string()),
    })?;
    match suspended.is_in_session() {
        true => Ok(suspended),
        false => Err(StepError::invalid(
            "the execution was suspended outside a session, so it cannot be resumed in a session",
        )),
    }
}
