//! Stopping an execution from another thread.

use std::fmt;
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
    /// What else is to happen.
    hooks: Vec<Arc<Hook>>,
}

/// What is called on cancellation.
struct Hook(Box<dyn Fn() + Send + Sync>);

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
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

/// What [`CancelToken::on_cancel`] was given is called while this lives.
#[derive(Debug)]
#[must_use = "dropping it takes the call back"]
pub struct OnCancel {
    token: CancelToken,
    hook: Arc<Hook>,
}

impl Drop for OnCancel {
    fn drop(&mut self) {
        let hooks = &mut self.token.0.state().hooks;
        if let Some(at) = hooks.iter().position(|hook| Arc::ptr_eq(hook, &self.hook)) {
            hooks.swap_remove(at);
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
        let hooks = state.hooks.clone();
        // Not under the lock: a hook may ask the token.
        drop(state);
        self.0.changed.notify_all();
        for hook in hooks {
            (hook.0)();
        }
    }

    /// Has a cancellation call `then`, on the thread that cancels; at once, on this one, where it has happened already. For
    /// waits that this token does not know of. `then` must not block, and may be called more than once; a call that is under way
    /// when the result is dropped goes on.
    ///
    /// ```
    /// let (cancel, (sender, receiver)) = (glovebox::CancelToken::new(), std::sync::mpsc::channel());
    /// let waiting = cancel.on_cancel(move || drop(sender.send("cancelled")));
    /// cancel.cancel();
    /// assert_eq!(receiver.recv(), Ok("cancelled"));
    /// drop(waiting);
    /// ```
    pub fn on_cancel(&self, then: impl Fn() + Send + Sync + 'static) -> OnCancel {
        let hook = Arc::new(Hook(Box::new(then)));
        let mut state = self.0.state();
        state.hooks.push(Arc::clone(&hook));
        let is_cancelled = state.cancelled;
        drop(state);
        if is_cancelled {
            (hook.0)();
        }
        OnCancel { token: self.clone(), hook }
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

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use super::CancelToken;

    #[test]
    fn a_hook_is_called_on_cancellation_at_once_after_it_and_never_once_taken_back() {
        let (token, calls) = (CancelToken::new(), Arc::new(AtomicUsize::new(0)));
        let count = |calls: &Arc<AtomicUsize>| {
            let (token, calls) = (token.clone(), Arc::clone(calls));
            token.clone().on_cancel(move || {
                assert!(token.is_cancelled(), "it may ask");
                calls.fetch_add(1, Ordering::SeqCst);
            })
        };
        let (kept, taken_back) = (count(&calls), count(&calls));
        drop(taken_back);
        assert_eq!(calls.load(Ordering::SeqCst), 0);
        token.cancel();
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        let late = count(&calls);
        assert_eq!(calls.load(Ordering::SeqCst), 2);
        drop((kept, late));
        token.cancel();
        assert_eq!(calls.load(Ordering::SeqCst), 2);
    }
}
