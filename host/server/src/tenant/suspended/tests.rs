use glovebox::ToolAnswer;
use tokio::sync::Semaphore;

use super::*;
use crate::{
    Door,
    executor::{BoxFuture, ExecutorStep, SteppedExecution},
    tenant::{execute::AuditedRequest, stepping::Output},
};

/// An execution that waits for an answer, or has ended.
struct FakeExecution(CancellationToken);

impl SteppedExecution for FakeExecution {
    fn advance(&self, _: Vec<ToolAnswer>) -> BoxFuture<'_, Result<ExecutorStep, ServiceError>> {
        Box::pin(async move { Err(ServiceError::Panicked) })
    }

    fn suspend(&self, _: usize) -> BoxFuture<'_, Result<Vec<u8>, ServiceError>> {
        Box::pin(async move { Err(ServiceError::Panicked) })
    }

    fn end_token(&self) -> CancellationToken {
        self.0.clone()
    }
}

fn stepping(has_ended: bool) -> StepwiseExecution {
    let ended = CancellationToken::new();
    if has_ended {
        ended.cancel();
    }
    let permits = Arc::new(Semaphore::new(3));
    let permit = || Arc::clone(&permits).try_acquire_owned().unwrap();
    StepwiseExecution {
        started: Box::new(FakeExecution(ended)),
        output: Output::default(),
        cancel: CancelToken::new(),
        request: AuditedRequest { door: Door::Http, session: None, source: None },
        return_files: Vec::new(),
        script_bytes: 0,
        context_bytes: 0,
        is_resumed: false,
        calls_bytes: 0,
        suspended: Arc::new([permit(), permit()]),
        _own: permit(),
        _turn: None,
    }
}

#[test]
fn execution_that_timed_out_ends_while_another_result_is_fetched() {
    let executions = SuspendedExecutions::default();
    let now = Instant::now();
    assert!(matches!(executions.put("early", stepping(false), now, true), Ok(true)));
    assert!(matches!(executions.put("late", stepping(false), now + Duration::from_secs(3_600), true), Ok(true)));
    let can_fetch = false;
    assert!(matches!(executions.check("early", false, can_fetch), SuspensionCheck::End(_)));
    assert!(matches!(executions.check("early", false, can_fetch), SuspensionCheck::Gone));
    assert!(matches!(executions.check("late", false, can_fetch), SuspensionCheck::Again));
    assert!(matches!(executions.check("late", true, can_fetch), SuspensionCheck::End(_)));
}

#[test]
fn deferred_execution_does_not_time_out() {
    let executions = SuspendedExecutions::default();
    let now = Instant::now();
    assert!(matches!(executions.put("a", stepping(false), now, true), Ok(true)));
    executions.defer("a", now + Duration::from_secs(3_600));
    executions.defer("a", now);
    executions.defer("other", now);
    assert!(matches!(executions.check("a", false, true), SuspensionCheck::Again));
    assert!(matches!(executions.check("a", true, true), SuspensionCheck::End(_)));
}

#[test]
fn cancelled_execution_is_not_suspended() {
    let executions = SuspendedExecutions::default();
    let expires = Instant::now() + Duration::from_secs(3_600);
    assert!(matches!(executions.put("resumed", stepping(false), expires, true), Ok(true)));
    assert!(matches!(
        executions.try_take("resumed", SuspensionState::Busy).map(|taken| taken.and_then(TakenExecution::keep)),
        Ok(Some(_))
    ));
    assert!(matches!(executions.try_cancel("resumed"), Ok(Some(SuspensionState::Busy))));
    for id in ["new", "resumed"] {
        let cancelled = stepping(false);
        cancelled.cancel.cancel();
        assert!(executions.put(id, cancelled, expires, true).is_err(), "{id}");
        assert!(
            matches!(executions.try_take(id, SuspensionState::Busy), Err(ServiceError::NoExecution { .. })),
            "{id}"
        );
    }
}

#[test]
fn execution_is_not_cancelled_while_it_is_turned_into_bytes() {
    let executions = SuspendedExecutions::default();
    let expires = Instant::now() + Duration::from_secs(3_600);
    let (waiting, take) = (stepping(false), || executions.try_take("a", SuspensionState::Suspending));
    let cancel = waiting.cancel.clone();
    assert!(matches!(executions.put("a", waiting, expires, true), Ok(true)));
    let back = take().unwrap().unwrap();
    for _ in 0..2 {
        assert!(matches!(executions.try_cancel("a"), Err(ServiceError::ExecutionBusy { .. })));
        let taken = executions.try_take("a", SuspensionState::Busy);
        assert!(matches!(taken, Err(ServiceError::ExecutionBusy { .. })));
        assert!(matches!(take(), Err(ServiceError::ExecutionBusy { .. })));
        assert!(matches!(executions.check("a", true, true), SuspensionCheck::Again));
    }
    assert!(!cancel.is_cancelled());
    // If the execution cannot be suspended, it waits again and can be cancelled.
    let Some((id, SuspensionState::Waiting(stepping))) = back.keep() else { panic!("it does not wait") };
    assert!(matches!(executions.put(&id, *stepping, expires, false), Ok(false)));
    drop(take().unwrap());
    assert!(matches!(executions.try_cancel("a"), Ok(Some(SuspensionState::Waiting(_)))));
    assert!(matches!(take(), Err(ServiceError::NoExecution { .. })));
    assert!(executions.entries.lock().is_empty());
}

#[tokio::test]
async fn requests_wait_for_a_result_that_is_being_fetched() {
    let executions = SuspendedExecutions::default();
    let expires = Instant::now() + Duration::from_secs(3_600);
    for is_cancelled in [false, true] {
        assert!(matches!(executions.put("a", stepping(true), expires, true), Ok(true)));
        let fetching = executions.fetching.try_lock().unwrap();
        let SuspensionCheck::HasEnded(ended) = executions.check("a", false, true) else {
            panic!("the execution has not ended")
        };
        let asking = executions.clone();
        let request = tokio::spawn(async move {
            match is_cancelled {
                true => asking.cancel("a").await.ok(),
                false => asking.take("a").await.ok().and_then(TakenExecution::keep).map(|(_, state)| state),
            }
        });
        tokio::task::yield_now().await;
        assert!(!request.is_finished());
        let suspended = Arc::clone(&ended.suspended);
        executions.store_result(
            "a",
            UnreadResult { result: Err(ServiceError::Panicked), suspended, held: ChargedBytes::default() },
        );
        drop(fetching);
        assert!(matches!(request.await.unwrap(), Some(SuspensionState::Ended(_))));
        let latest = Instant::now() + CANCELLED_TIME;
        let ends_soon = executions.entries.lock().get("a").is_some_and(|entry| entry.expires <= latest);
        assert_eq!(ends_soon, is_cancelled);
        executions.forget("a");
    }
}

#[tokio::test]
async fn requests_do_not_wait_for_a_watcher_that_panicked() {
    let executions = SuspendedExecutions::default();
    let expires = Instant::now() + Duration::from_secs(3_600);
    assert!(matches!(executions.put("a", stepping(true), expires, true), Ok(true)));
    assert!(matches!(executions.check("a", false, true), SuspensionCheck::HasEnded(_)));
    assert!(matches!(executions.take("a").await, Err(ServiceError::Panicked)));
    assert!(matches!(executions.cancel("a").await, Err(ServiceError::Panicked)));
}
