//! A fair lock, which threads acquire in arrival order.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    thread::{self, Thread},
    time::Instant,
};

use crate::{CancelToken, ExecuteError};

/// A fair lock. It admits one thread at a time, in arrival order.
#[derive(Debug, Default)]
pub(crate) struct FairLock(Mutex<LockState>);

#[derive(Debug, Default)]
struct LockState {
    taken: bool,
    /// Waiting threads with their tickets, in arrival order. Excludes the thread whose ticket is in `called`.
    waiting: VecDeque<(u64, Thread)>,
    /// The ticket of the thread that was woken but has not taken the lock yet.
    called: Option<u64>,
    next: u64,
}

/// Holds the lock. Dropping the guard wakes the next thread.
#[derive(Debug)]
pub(crate) struct FairLockGuard<'a>(&'a FairLock);

/// The reason why a thread stopped waiting without acquiring the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockFailure {
    /// The request does not wait, or its wait timed out.
    Busy,
    /// The request was cancelled while it waited.
    Cancelled,
}

/// The reason why a request did not get its turn in the session.
pub(super) enum TurnFailure {
    Busy(ExecuteError),
    /// The request was cancelled while it waited.
    Cancelled,
}

impl TurnFailure {
    pub(super) fn of(left: LockFailure, busy: impl FnOnce() -> ExecuteError) -> Self {
        match left {
            LockFailure::Busy => Self::Busy(busy()),
            LockFailure::Cancelled => Self::Cancelled,
        }
    }
}

impl FairLock {
    fn places(&self) -> MutexGuard<'_, LockState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock if it is free and no thread waits for it.
    fn try_enter(&self) -> Option<FairLockGuard<'_>> {
        let mut places = self.places();
        if places.taken || places.called.is_some() {
            return None;
        }
        places.taken = true;
        Some(FairLockGuard(self))
    }

    /// Waits for the lock until `end` or until cancellation. Without an `end`, fails unless the lock is free.
    pub(crate) fn enter_by(
        &self,
        end: Option<Instant>,
        cancel: &CancelToken,
    ) -> Result<FairLockGuard<'_>, LockFailure> {
        match end {
            Some(end) => self.enter(end, cancel),
            None => self.try_enter().ok_or(LockFailure::Busy),
        }
    }

    /// Waits for the lock until `end` or until cancellation.
    pub(crate) fn enter(&self, end: Instant, cancel: &CancelToken) -> Result<FairLockGuard<'_>, LockFailure> {
        if let Some(turn) = self.try_enter() {
            return Ok(turn);
        }
        let me = thread::current();
        let ticket = {
            let mut places = self.places();
            // The lock may have become free. If so, no other thread would wake this one.
            if !places.taken && places.called.is_none() {
                places.taken = true;
                return Ok(FairLockGuard(self));
            }
            let ticket = places.next;
            places.next += 1;
            places.waiting.push_back((ticket, me.clone()));
            ticket
        };
        let _wakes = cancel.wakes(me);
        loop {
            let left = {
                let mut places = self.places();
                if places.called == Some(ticket) {
                    places.called = None;
                    places.taken = true;
                    return Ok(FairLockGuard(self));
                }
                let left = end.saturating_duration_since(Instant::now());
                let gone = if cancel.is_cancelled() {
                    Some(LockFailure::Cancelled)
                } else if left.is_zero() {
                    Some(LockFailure::Busy)
                } else {
                    None
                };
                if let Some(why) = gone {
                    places.waiting.retain(|(waiting, _)| *waiting != ticket);
                    return Err(why);
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
        let first = line.try_enter().unwrap();
        thread::scope(|scope| {
            for number in 0..8 {
                let (line, order) = (&line, &order);
                scope.spawn(move || {
                    let _turn = line.enter(Instant::now() + LONG, &CancelToken::new()).unwrap();
                    order.lock().unwrap().push(number);
                });
                until(|| line.waiting_count() == number + 1);
            }
            assert!(line.try_enter().is_none(), "waiting threads cannot be overtaken");
            drop(first);
        });
        assert_eq!(*order.lock().unwrap(), (0..8).collect::<Vec<_>>());
        assert!(line.try_enter().is_some());
    }

    #[test]
    fn one_caller_enters_at_a_time() {
        let line = FairLock::default();
        let inside = std::sync::atomic::AtomicU32::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let turn = line.enter(Instant::now() + LONG, &CancelToken::new()).unwrap();
                        assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                        inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        drop(turn);
                    }
                });
            }
        });
        assert!(line.try_enter().is_some());
    }

    #[test]
    fn wait_ends_on_timeout_or_cancellation() {
        let line = FairLock::default();
        let first = line.try_enter().unwrap();
        let soon = Instant::now() + Duration::from_millis(20);
        assert_eq!(line.enter(soon, &CancelToken::new()).unwrap_err(), LockFailure::Busy);
        assert!(Instant::now() >= soon);
        let cancelled = CancelToken::new();
        cancelled.cancel();
        assert_eq!(line.enter(Instant::now() + LONG, &cancelled).unwrap_err(), LockFailure::Cancelled);
        let cancel = CancelToken::new();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| line.enter(Instant::now() + LONG, &cancel).map(drop));
            until(|| line.waiting_count() == 1);
            cancel.cancel();
            assert_eq!(waiting.join().unwrap(), Err(LockFailure::Cancelled));
        });
        drop(first);
        assert!(line.try_enter().is_some());
    }
}
