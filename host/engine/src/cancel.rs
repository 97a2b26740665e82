//! Stopping an execution from another thread.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Stops the executions it was given to, from any thread. The script gets an exception within a few milliseconds, out
/// of a wait (`time.sleep`, a timer, a tool) at once; if it still runs when `limits.timeout_reserve_ms` are over, it is
/// unwound. Once cancelled a token stays so, and later executions with it end before they begin.
///
/// ```
/// let cancel = glovebox::CancelToken::new();
/// let other = cancel.clone();
/// std::thread::spawn(move || other.cancel()).join().ok();
/// assert!(cancel.is_cancelled());
/// ```
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<Signal>);

#[derive(Debug, Default)]
struct Signal {
    cancelled: Mutex<bool>,
    changed: Condvar,
}

impl CancelToken {
    /// A token that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops every execution that has this token, and wakes those that wait.
    pub fn cancel(&self) {
        *self.0.cancelled.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.changed.notify_all();
    }

    /// Whether [`cancel`](Self::cancel) was called.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.0.cancelled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has those that wait look again.
    pub(crate) fn wake(&self) {
        // Who is between its look and its wait holds the lock.
        drop(self.0.cancelled.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.changed.notify_all();
    }

    /// Waits until `end`, until `ready` says so after a [`wake`](Self::wake), or until cancelled where that matters.
    pub(crate) fn wait(&self, end: Instant, heeds_cancellation: bool, ready: impl Fn() -> bool) {
        let mut cancelled = self.0.cancelled.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if (*cancelled && heeds_cancellation) || left == Duration::ZERO || ready() {
                return;
            }
            (cancelled, _) = self.0.changed.wait_timeout(cancelled, left).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
