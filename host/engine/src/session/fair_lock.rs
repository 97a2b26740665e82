//! A fair lock, which threads acquire in arrival order.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    thread::{self, Thread},
    time::Instant,
};

use crate::{CancelToken, ExecuteError};

/// A fair lock, which admits one thread at a time, in arrival order.
#[derive(Debug, Default)]
pub(super) struct FairLock(Mutex<LockState>);

#[derive(Debug, Default)]
struct LockState {
    taken: bool,
    /// Waiting threads with their tickets, in arrival order. Excludes the thread whose ticket is in `called`.
    waiting: VecDeque<(u64, Thread)>,
    /// The ticket of the thread that was woken but has not taken the lock yet.
    called: Option<u64>,
    next: u64,
}

/// A guard that holds the lock. Dropping the guard wakes the next thread.
#[derive(Debug)]
pub(super) struct FairLockGuard<'a>(&'a FairLock);

/// The reason why a request did not get its turn.
#[derive(Debug)]
pub(super) enum TurnFailure {
    /// The request does not wait, or its wait timed out.
    Busy(ExecuteError),
    /// The request was cancelled while it waited.
    Cancelled,
}

impl FairLock {
    fn places(&self) -> MutexGuard<'_, LockState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock if it is free and no thread waits for it. Otherwise waits for the lock until `end` or until
    /// cancellation. Without an `end`, fails with the error of `busy` instead of waiting.
    pub(super) fn enter(
        &self,
        end: Option<Instant>,
        cancel: &CancelToken,
        busy: impl FnOnce() -> ExecuteError,
    ) -> Result<FairLockGuard<'_>, TurnFailure> {
        let (end, ticket) = {
            let mut places = self.places();
            if !places.taken && places.called.is_none() {
                places.taken = true;
                return Ok(FairLockGuard(self));
            }
            let Some(end) = end else { return Err(TurnFailure::Busy(busy())) };
            let ticket = places.next;
            places.next += 1;
            places.waiting.push_back((ticket, thread::current()));
            (end, ticket)
        };
        let me = thread::current();
        let _on_cancel = cancel.on_cancel(move || me.unpark());
        loop {
            let left = {
                let mut places = self.places();
                if places.called == Some(ticket) {
                    places.called = None;
                    places.taken = true;
                    return Ok(FairLockGuard(self));
                }
                let left = end.saturating_duration_since(Instant::now());
                let is_cancelled = cancel.is_cancelled();
                if is_cancelled || left.is_zero() {
                    places.waiting.retain(|(waiting, _)| *waiting != ticket);
                    drop(places);
                    return Err(if is_cancelled { TurnFailure::Cancelled } else { TurnFailure::Busy(busy()) });
                }
                left
            };
            thread::park_timeout(left);
        }
    }

    /// Returns the number of threads that wait for the lock.
    pub(super) fn waiting_count(&self) -> usize {
        self.places().waiting.len()
    }
}

impl Drop for FairLockGuard<'_> {
    fn drop(&mut self) {
        let mut places = self.0.places();
        places.taken = false;
        if let Some((ticket, thread)) = places.waiting.pop_front() {
            places.called = Some(ticket);
            thread.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn wait<'l>(line: &'l FairLock, end: Instant, cancel: &CancelToken) -> Result<FairLockGuard<'l>, TurnFailure> {
        line.enter(Some(end), cancel, || ExecuteError::WorkspaceBusy)
    }

    fn try_enter(line: &FairLock) -> Option<FairLockGuard<'_>> {
        line.enter(None, &CancelToken::new(), || ExecuteError::WorkspaceBusy).ok()
    }

    fn until(what: impl Fn() -> bool) {
        let end = Instant::now() + LONG;
        while !what() {
            assert!(Instant::now() < end, "timed out waiting for the condition");
            thread::yield_now();
        }
    }

    #[test]
    fn callers_enter_in_order_of_arrival() {
        let line = FairLock::default();
        let order = Mutex::new(Vec::new());
        let first = try_enter(&line).unwrap();
        thread::scope(|scope| {
            for number in 0..8 {
                let (line, order) = (&line, &order);
                scope.spawn(move || {
                    let _turn = wait(line, Instant::now() + LONG, &CancelToken::new()).unwrap();
                    order.lock().unwrap().push(number);
                });
                until(|| line.waiting_count() == number + 1);
            }
            assert!(try_enter(&line).is_none(), "waiting threads cannot be overtaken");
            drop(first);
        });
        assert_eq!(*order.lock().unwrap(), (0..8).collect::<Vec<_>>());
        assert!(try_enter(&line).is_some());
    }

    #[test]
    fn one_caller_enters_at_a_time() {
        let line = FairLock::default();
        let inside = std::sync::atomic::AtomicU32::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let turn = wait(&line, Instant::now() + LONG, &CancelToken::new()).unwrap();
                        assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                        inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        drop(turn);
                    }
                });
            }
        });
        assert!(try_enter(&line).is_some());
    }

    #[test]
    fn wait_ends_on_timeout_or_cancellation() {
        let line = FairLock::default();
        let first = try_enter(&line).unwrap();
        let soon = Instant::now() + Duration::from_millis(20);
        assert!(matches!(wait(&line, soon, &CancelToken::new()), Err(TurnFailure::Busy(_))));
        assert!(Instant::now() >= soon);
        let cancelled = CancelToken::new();
        cancelled.cancel();
        assert!(matches!(wait(&line, Instant::now() + LONG, &cancelled), Err(TurnFailure::Cancelled)));
        let cancel = CancelToken::new();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| wait(&line, Instant::now() + LONG, &cancel).map(drop));
            until(|| line.waiting_count() == 1);
            cancel.cancel();
            assert!(matches!(waiting.join().unwrap(), Err(TurnFailure::Cancelled)));
        });
        drop(first);
        assert!(try_enter(&line).is_some());
    }
}
