//! A stepwise execution in this process.

use std::sync::{Arc, Mutex, PoisonError};

use glovebox::{CancelToken, PendingToolCalls, ToolAnswer};
use tokio_util::sync::CancellationToken;

use super::{Advanced, BoxFuture, Finished, SteppedExecution};
use crate::{Service, ServiceError};

/// Maximum length of answers that are validated on an async thread, in bytes.
const MAX_SHORT_BYTES: usize = 64 << 10;
/// The length that each answer counts in addition to its text, because a request can contain many short answers.
const ANSWER_BYTES: usize = 64;

/// A stepwise execution in this process. Occupies a blocking thread until the script has ended.
pub(super) struct LocalExecution {
    calls: PendingToolCalls,
    cancel: CancelToken,
    /// Set before `ended` is cancelled, unless the thread panics.
    result: Arc<Mutex<Option<Result<Finished, ServiceError>>>>,
    ended: CancellationToken,
}

impl LocalExecution {
    /// Runs a script on a blocking thread. `run` receives a child of `cancel`, and the handle to the tool calls that the
    /// client answers.
    pub(super) fn new(
        cancel: &CancelToken,
        run: impl FnOnce(&CancelToken, &PendingToolCalls) -> Result<Finished, ServiceError> + Send + 'static,
    ) -> Self {
        // Use a child token, so that dropping the handle cancels only this execution.
        let started = Self {
            calls: PendingToolCalls::new(),
            cancel: cancel.child(),
            result: Arc::default(),
            ended: CancellationToken::new(),
        };
        let (calls, cancel, result) = (started.calls.clone(), started.cancel.clone(), Arc::clone(&started.result));
        let ended = started.ended.clone().drop_guard();
        tokio::task::spawn_blocking(move || {
            // Dropped after the result is stored, and also if `run` panics.
            let _ended = ended;
            let finished = run(&cancel, &calls);
            *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(finished);
        });
        started
    }

    async fn answer(&self, answers: Vec<ToolAnswer>) -> Result<(), ServiceError> {
        if answers.iter().map(answer_len).sum::<usize>() <= MAX_SHORT_BYTES {
            return Ok(self.calls.answer(answers)?);
        }
        let calls = self.calls.clone();
        Ok(Service::blocking(move || calls.answer(answers)).await??)
    }
}

fn answer_len(ToolAnswer { answer, .. }: &ToolAnswer) -> usize {
    ANSWER_BYTES + answer.as_ref().map_or_else(|error| error.message().len(), String::len)
}

impl Drop for LocalExecution {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl SteppedExecution for LocalExecution {
    fn advance(&self, answers: Vec<ToolAnswer>) -> BoxFuture<'_, Result<Advanced, ServiceError>> {
        Box::pin(async move {
            self.answer(answers).await?;
            tokio::select! {
                biased;
                () = self.ended.cancelled() => {
                    let result = self.result.lock().unwrap_or_else(PoisonError::into_inner).take();
                    Ok(Advanced::Done(Box::new(result.unwrap_or(Err(ServiceError::Panicked)))))
                }
                calls = self.calls.wait() => Ok(Advanced::NeedsTools { calls, reply_room: None }),
            }
        })
    }

    fn ended(&self) -> CancellationToken {
        self.ended.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn failed_execution_returns_its_error() {
        let started = LocalExecution::new(&CancelToken::new(), |_, _| Err(ServiceError::Draining));
        let Ok(Advanced::Done(result)) = started.advance(Vec::new()).await else {
            panic!("the execution has not ended")
        };
        assert!(matches!(*result, Err(ServiceError::Draining)));
    }

    #[tokio::test]
    async fn panic_is_an_error() {
        let started = LocalExecution::new(&CancelToken::new(), |_, _| panic!("intended by the test"));
        let Ok(Advanced::Done(result)) = started.advance(Vec::new()).await else {
            panic!("the execution has not ended")
        };
        assert!(matches!(*result, Err(ServiceError::Panicked)));
    }

    #[tokio::test]
    async fn dropping_a_started_execution_cancels_it() {
        let cancel = CancelToken::new();
        let started = LocalExecution::new(&cancel, |cancel, _| {
            assert!(cancel.wait_timeout(Duration::from_secs(60)));
            Err(ServiceError::Cancelled)
        });
        let ended = started.ended();
        assert!(!ended.is_cancelled());
        drop(started);
        ended.cancelled().await;
        assert!(!cancel.is_cancelled(), "other executions continue");
    }
}
