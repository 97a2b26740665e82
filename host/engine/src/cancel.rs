//! Stopping an execution from another thread.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Stops the executions it was given to, from any thread: a running guest within a few milliseconds, a
/// waiting one (`time.sleep`, a timer) at once. Once cancelled it stays so, and later executions with it end
/// before they begin.
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

    /// Waits until `end` or until cancelled, and says whether it was cancelled.
    pub(crate) fn wait_until(&self, end: Instant) -> bool {
        let mut cancelled = self.0.cancelled.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if *cancelled || left == Duration::ZERO {
                return *cancelled;
            }
            (cancelled, _) = self.0.changed.wait_timeout(cancelled, left).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
