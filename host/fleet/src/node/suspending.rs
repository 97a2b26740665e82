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
    /// The attempt took too long, and the execution was cancelled. Contains the reason.
    Slow(String),
}

pub(super) struct SuspendedExecution {
    /// All unanswered calls, in the order in which the script made them.
    pub(super) calls: Vec<ToolRequest>,
    pub(super) bytes: Vec<u8>,
    /// The execution up to the suspension, with the outcome `cancelled`.
    pub(super) execution: Arc<Execution>,
}

/// Suspends an execution that waits for its caller. `key` seals the bytes. Cancels the execution if that takes longer
/// than `max`.
pub(super) async fn suspend(
    started: &Arc<Started>,
    key: Option<SessionKey>,
    max: Duration,
) -> Result<SuspendAttempt, StepError> {
    let suspending = Arc::clone(started);
    let attempt = blocking(move || {
        let suspended = match suspending.suspend() {
            Ok(suspended) => suspended,
            Err(SuspendError::Refused(refusal @ SuspendRefusal::JournalFull)) => {
                return Ok(SuspendAttempt::Never(format!("the execution cannot be suspended: {refusal}")));
            }
            Err(SuspendError::Running | SuspendError::Ended | SuspendError::Refused(_)) => {
                return Ok(SuspendAttempt::Continues);
            }
            Err(error) => return Err(StepError::failed(&error)),
        };
        match suspending.advance(Vec::new(), None).map_err(|error| StepError::failed(&error))? {
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
    let attempt = within(max, attempt).await;
    match &attempt {
        Ok(SuspendAttempt::Slow(_)) | Err(_) => started.cancel(),
        Ok(SuspendAttempt::Continues) => tokio::time::sleep(INTERVAL).await,
        Ok(SuspendAttempt::Suspended(_) | SuspendAttempt::Never(_)) => {}
    }
    attempt
}

/// Waits at most `max` for an attempt to suspend an execution. If `max` is zero, makes no attempt.
async fn within(
    max: Duration,
    attempt: impl Future<Output = Result<SuspendAttempt, StepError>>,
) -> Result<SuspendAttempt, StepError> {
    if !max.is_zero()
        && let Ok(attempt) = tokio::time::timeout(max, attempt).await
    {
        return attempt;
    }
    Ok(SuspendAttempt::Slow(format!("suspending the execution took longer than {} ms", max.as_millis())))
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

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn attempts_are_limited_in_time() {
        let later = |ms: u64| async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            Ok(SuspendAttempt::Continues)
        };
        let short = Duration::from_millis(100);
        let timely = within(Duration::from_secs(60), later(20)).await;
        assert!(matches!(timely, Ok(SuspendAttempt::Continues)));
        let without_time = within(Duration::ZERO, ready(Ok(SuspendAttempt::Continues))).await;
        assert!(matches!(without_time, Ok(SuspendAttempt::Slow(_))));
        for (name, late) in [("late", within(short, later(60_000)).await), ("never", within(short, pending()).await)] {
            let Ok(SuspendAttempt::Slow(reason)) = late else { panic!("{name}: the attempt is too slow") };
            assert_eq!(reason, "suspending the execution took longer than 100 ms", "{name}");
        }
        let failed = within(short, ready(Err(StepError::invalid("no")))).await;
        assert!(matches!(failed, Err(StepError::Never(400, _))));
    }
}
