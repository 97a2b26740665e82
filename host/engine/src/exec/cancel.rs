//! Cancels executions from other threads.

use std::collections::BTreeMap;
use std::fmt;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// A token that cancels executions from any thread. The script receives an exception within a few milliseconds, or
/// immediately if it waits (`time.sleep`, a timer, a tool). If the script still runs after `limits.timeout_reserve_ms`,
/// it is unwound. A cancelled token stays cancelled: an execution that uses it later ends before its script begins.
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
    state: Mutex<SignalState>,
    changed: Condvar,
    _parent: Option<Parent>,
}

/// A child token's link to its parent. Cancelling the parent also cancels the child. `number` is the child's key in the
/// parent's `children`.
#[derive(Debug)]
struct Parent {
    token: CancelToken,
    number: u64,
}

impl Drop for Parent {
    fn drop(&mut self) {
        self.token.0.state().children.remove(&self.number);
    }
}

#[derive(Debug, Default)]
struct SignalState {
    cancelled: bool,
    /// Child tokens by number, cancelled together with this token. Empty once this token is cancelled. Numbers are
    /// never reused.
    children: BTreeMap<u64, Weak<Signal>>,
    next_child: u64,
    hooks: Vec<Arc<Hook>>,
}

/// A callback registered with [`CancelToken::on_cancel`].
struct Hook(Box<dyn Fn() + Send + Sync>);

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

impl Signal {
    fn state(&self) -> MutexGuard<'_, SignalState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The registration of a callback with [`CancelToken::on_cancel`]. Dropping the registration removes the callback.
#[derive(Debug)]
#[must_use = "dropping it removes the callback"]
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
    /// Creates a token that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a child token. Cancelling this token also cancels the child, but not the reverse.
    ///
    /// ```
    /// let all = glovebox::CancelToken::new();
    /// let (one, other) = (all.child(), all.child());
    /// one.cancel();
    /// assert!(!all.is_cancelled() && !other.is_cancelled());
    /// all.cancel();
    /// assert!(other.is_cancelled() && all.child().is_cancelled());
    /// ```
    #[must_use]
    pub fn child(&self) -> Self {
        let mut state = self.0.state();
        if state.cancelled {
            let cancelled = SignalState { cancelled: true, ..SignalState::default() };
            return Self(Arc::new(Signal { state: Mutex::new(cancelled), ..Signal::default() }));
        }
        let number = state.next_child;
        state.next_child += 1;
        let parent = Parent { token: self.clone(), number };
        let child = Arc::new(Signal { _parent: Some(parent), ..Signal::default() });
        state.children.insert(number, Arc::downgrade(&child));
        Self(child)
    }

    /// Cancels every execution that uses this token or a [`child`](Self::child) of it. Wakes waiting threads and calls
    /// the callbacks of [`on_cancel`](Self::on_cancel).
    pub fn cancel(&self) {
        let (children, hooks) = {
            let mut state = self.0.state();
            state.cancelled = true;
            self.0.changed.notify_all();
            (mem::take(&mut state.children), state.hooks.clone())
        };
        // Release the lock first: dropping a child locks this token to remove itself, and a hook may query the token.
        for child in children.into_values().filter_map(|child| child.upgrade()) {
            Self(child).cancel();
        }
        for hook in hooks {
            (hook.0)();
        }
    }

    /// Registers `then` to be called on cancellation, on the cancelling thread. If the token is already cancelled,
    /// `then` is called immediately on the current thread. Use this to interrupt waits that do not use this token.
    ///
    /// `then` must not block and can be called more than once. Dropping the returned guard does not interrupt a call
    /// that is in progress.
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

    /// Returns `true` once [`cancel`](Self::cancel) has been called on this token or on one of its ancestors.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.state().cancelled
    }

    /// Waits at most `duration` for cancellation. Returns `true` if the token is cancelled. Intended for callers that
    /// wait only for cancellation, such as a [`Tool`](crate::Tool) between two attempts.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let cancel = glovebox::CancelToken::new();
    /// assert!(!cancel.wait_timeout(Duration::from_millis(1)));
    /// cancel.cancel();
    /// assert!(cancel.wait_timeout(Duration::from_secs(3600)), "returns immediately");
    /// ```
    #[must_use]
    pub fn wait_timeout(&self, duration: Duration) -> bool {
        // A year is practically forever and cannot overflow an `Instant`.
        const MAX: Duration = Duration::from_secs(365 * 24 * 3600);
        self.wait(Instant::now() + duration.min(MAX), true, || false);
        self.is_cancelled()
    }

    /// Wakes all waiters, which check their conditions again.
    pub(crate) fn wake(&self) {
        // A waiter holds the lock between its check and its wait, so it cannot miss this notification.
        drop(self.0.state());
        self.0.changed.notify_all();
    }

    /// Waits until `end`, or until `ready` returns `true`. Calls `ready` at the start and after each
    /// [`wake`](Self::wake). Cancellation also ends the wait if `heeds_cancellation` is set.
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
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn cancellation_reaches_children_but_not_parents() {
        let root = CancelToken::new();
        let (left, right) = (root.child(), root.child());
        let below = left.child();
        left.cancel();
        assert!(below.is_cancelled() && !right.is_cancelled() && !root.is_cancelled());
        root.cancel();
        assert!(right.is_cancelled());
        assert!(
            root.child().is_cancelled() && below.child().is_cancelled(),
            "a child of a cancelled token is cancelled"
        );
    }

    #[test]
    fn dropped_child_token_is_removed_from_its_parent() {
        let root = CancelToken::new();
        let children: Vec<_> = (0..3).map(|_| root.child()).collect();
        assert_eq!(root.0.state().children.len(), 3);
        drop(children);
        assert!(root.0.state().children.is_empty());
        let (child, state) = (root.child(), Arc::downgrade(&root.0));
        drop(root);
        assert!(state.upgrade().is_some());
        drop(child);
        assert!(state.upgrade().is_none(), "parent and child do not form a reference cycle");
    }

    #[test]
    fn a_wait_on_a_child_ends_with_its_parent() {
        let root = CancelToken::new();
        let child = root.child();
        let waiting = thread::spawn(move || child.wait_timeout(Duration::from_secs(3600)));
        root.cancel();
        assert!(waiting.join().unwrap());
    }

    #[test]
    fn child_created_during_cancellation_is_cancelled() {
        for _ in 0..200 {
            let root = CancelToken::new();
            thread::scope(|scope| {
                let coming = scope.spawn(|| (0..20).map(|_| root.child()).next_back());
                root.cancel();
                assert!(coming.join().unwrap().unwrap().is_cancelled());
            });
            assert!(root.0.state().children.is_empty());
        }
    }

    #[test]
    fn cancellation_hook_runs_unless_removed() {
        let (token, calls) = (CancelToken::new(), Arc::new(AtomicUsize::new(0)));
        let count = |calls: &Arc<AtomicUsize>| {
            let (token, calls) = (token.clone(), Arc::clone(calls));
            token.clone().on_cancel(move || {
                assert!(token.is_cancelled(), "a hook can query the token");
                calls.fetch_add(1, Ordering::SeqCst);
            })
        };
        let (held, taken_back) = (count(&calls), count(&calls));
        drop(taken_back);
        assert_eq!(calls.load(Ordering::SeqCst), 0);
        token.cancel();
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        let late = count(&calls);
        assert_eq!(calls.load(Ordering::SeqCst), 2);
        drop((held, late));
        token.cancel();
        assert_eq!(calls.load(Ordering::SeqCst), 2);
    }
}
