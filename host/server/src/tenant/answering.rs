//! Answers to an execution that is no longer stored. Its client cannot send the answers again.

use std::time::Duration;

use glovebox::{CancelToken, ToolAnswer};

use crate::{
    ServiceError,
    executor::{ExecutorStep, SteppedExecution},
};

/// The delays after which a step without a known result is repeated. A fleet that is unreachable for longer loses the
/// execution.
pub(super) const REPEAT_AFTER: [Duration; 5] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(15),
];

/// Passes answers to an execution. After [`ServiceError::StepUnanswered`], repeats the step after each of `delays`. The
/// execution receives no answer twice.
///
/// # Errors
/// Fails like [`SteppedExecution::advance`]. If the result of the step remains unknown, cancels the execution with
/// `cancel`, and fails with [`ServiceError::StepLost`] instead of `StepUnanswered`.
pub(super) async fn answer_repeatedly(
    started: &dyn SteppedExecution,
    cancel: &CancelToken,
    answers: Vec<ToolAnswer>,
    delays: &[Duration],
) -> Result<ExecutorStep, ServiceError> {
    let ended = started.end_token();
    for delay in delays {
        let advanced = started.advance(answers.clone()).await;
        if !matches!(advanced, Err(ServiceError::StepUnanswered)) {
            return advanced;
        }
        // A cancelled execution does not wait.
        let _ = tokio::time::timeout(*delay, ended.cancelled()).await;
    }
    let advanced = started.advance(answers).await;
    if !matches!(advanced, Err(ServiceError::StepUnanswered)) {
        return advanced;
    }
    cancel.cancel();
    // The step may have a result by now.
    started.advance(Vec::new()).await.map_err(|_| ServiceError::StepLost)
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use parking_lot::Mutex;
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::executor::BoxFuture;

    /// An execution whose first steps have no known result.
    struct UnreliableExecution {
        failures: Mutex<usize>,
        /// The number of answers in each step.
        received: Mutex<Vec<usize>>,
    }

    impl SteppedExecution for UnreliableExecution {
        fn advance(&self, answers: Vec<ToolAnswer>) -> BoxFuture<'_, Result<ExecutorStep, ServiceError>> {
            self.received.lock().push(answers.len());
            let mut failures = self.failures.lock();
            let advanced = match failures.checked_sub(1) {
                Some(fewer) => {
                    *failures = fewer;
                    Err(ServiceError::StepUnanswered)
                }
                None => Ok(ExecutorStep::NeedsTools { calls: Vec::new(), reply_room: None }),
            };
            Box::pin(ready(advanced))
        }

        fn suspend(&self, _: usize) -> BoxFuture<'_, Result<Vec<u8>, ServiceError>> {
            Box::pin(ready(Err(ServiceError::StepFailed)))
        }

        fn end_token(&self) -> CancellationToken {
            CancellationToken::new()
        }
    }

    #[tokio::test]
    async fn step_without_a_result_is_repeated_a_limited_number_of_times() {
        for (failures, received, is_lost) in
            [(0, vec![1], false), (1, vec![1; 2], false), (2, vec![1; 3], false), (9, vec![1, 1, 1, 0], true)]
        {
            let execution = UnreliableExecution { failures: Mutex::new(failures), received: Mutex::default() };
            let (cancel, answers) = (CancelToken::new(), vec![ToolAnswer::value(0, &json!(1))]);
            let advanced = answer_repeatedly(&execution, &cancel, answers, &[Duration::ZERO; 2]).await;
            assert_eq!(matches!(advanced, Ok(ExecutorStep::NeedsTools { .. })), !is_lost, "{failures}");
            assert_eq!(matches!(advanced, Err(ServiceError::StepLost)), is_lost, "{failures}");
            assert_eq!((&*execution.received.lock(), cancel.is_cancelled()), (&received, is_lost), "{failures}");
        }
    }
}
