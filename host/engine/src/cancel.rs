//! Stopping an execution from another thread.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
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
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    cancelled: bool,
    /// Threads that wait for something else as well.
    parked: Vec<Thread>,
}

impl Signal {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A parked thread is woken by a cancellation while this lives.
#[derive(Debug)]
pub(crate) struct Wakes<'a> {
    token: &'a CancelToken,
    thread: Thread,
}

impl Drop for Wakes<'_> {
    fn drop(&mut self) {
        let parked = &mut self.token.0.state().parked;
        if let Some(at) = parked.iter().position(|thread| thread.id() == self.thread.id()) {
            parked.swap_remove(at);
        }
    }
}

impl CancelToken {
    /// A token that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops every execution that has this token, and wakes those that wait.
    pub fn cancel(&self) {
        let mut state = self.0.state();
        state.cancelled = true;
        for thread in &state.parked {
            thread.unpark();
        }
        self.0.changed.notify_all();
    }

    /// Whether [`cancel`](Self::cancel) was called.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.state().cancelled
    }

    /// Waits for at most `duration`, and says whether it is cancelled: for what has nothing else to wait for, such as a
    /// [`Tool`](crate::Tool) between two attempts.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let cancel = glovebox::CancelToken::new();
    /// assert!(!cancel.wait_timeout(Duration::from_millis(1)));
    /// cancel.cancel();
    /// assert!(cancel.wait_timeout(Duration::from_secs(3600)), "at once");
    /// ```
    #[must_use]
    pub fn wait_timeout(&self, duration: Duration) -> bool {
        // A year is as good as forever.
        const MOST: Duration = Duration::from_secs(365 * 24 * 3600);
        self.wait(Instant::now() + duration.min(MOST), true, || false);
        self.is_cancelled()
    }

    /// Has a cancellation unpark `thread`. Whoever parks looks at [`is_cancelled`](Self::is_cancelled) after this.
    pub(crate) fn wakes(&self, thread: Thread) -> Wakes<'_> {
        self.0.state().parked.push(thread.clone());
        Wakes { token: self, thread }
    }

    /// Has those that wait look again.
    pub(crate) fn wake(&self) {
        // Who is between its look and its wait holds the lock.
        drop(self.0.state());
        self.0.changed.notify_all();
    }

    /// Waits until `end`, until `ready` says so after a [`wake`](Self::wake), or until cancelled where that matters.
    pub(crate) fn wait(&self, end: Instant, heeds_cancellation: bool, ready: impl Fn() -> bool) {
        let mut state = self.0.state();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if (state.cancelled && heeds_cancellation) || left == Duration::ZERO || ready() {
                return;
            }
            (state, _) = self.0.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
