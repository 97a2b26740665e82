//! Stopping an execution from another thread.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
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
    _parent: Option<Parent>,
}

/// Whose cancellation is a token's too, and as which of its children that is known there.
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
struct State {
    cancelled: bool,
    /// Threads that wait for something else as well.
    parked: Vec<Thread>,
    /// Tokens to be cancelled with this one: none once it is. The numbers are never used again.
    children: BTreeMap<u64, Weak<Signal>>,
    next_child: u64,
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

    /// A token that is cancelled with this one, and can be cancelled alone.
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
            let cancelled = State { cancelled: true, ..State::default() };
            return Self(Arc::new(Signal { state: Mutex::new(cancelled), ..Signal::default() }));
        }
        let number = state.next_child;
        state.next_child += 1;
        let parent = Parent { token: self.clone(), number };
        let child = Arc::new(Signal { _parent: Some(parent), ..Signal::default() });
        state.children.insert(number, Arc::downgrade(&child));
        Self(child)
    }

    /// Stops every execution that has this token or a [`child`](Self::child) of it, and wakes those that wait.
    pub fn cancel(&self) {
        let children = {
            let mut state = self.0.state();
            state.cancelled = true;
            for thread in &state.parked {
                thread.unpark();
            }
            self.0.changed.notify_all();
            mem::take(&mut state.children)
        };
        // One that is dropped just now locks this token to leave it.
        for child in children.into_values().filter_map(|child| child.upgrade()) {
            Self(child).cancel();
        }
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
    use std::thread;

    use super::*;

    #[test]
    fn a_cancellation_goes_down_and_not_up() {
        let root = CancelToken::new();
        let (left, right) = (root.child(), root.child());
        let below = left.child();
        left.cancel();
        assert!(below.is_cancelled() && !right.is_cancelled() && !root.is_cancelled());
        root.cancel();
        assert!(right.is_cancelled());
        assert!(root.child().is_cancelled() && below.child().is_cancelled(), "born cancelled");
    }

    #[test]
    fn a_child_that_is_gone_is_forgotten_and_keeps_its_parent() {
        let root = CancelToken::new();
        let children: Vec<_> = (0..3).map(|_| root.child()).collect();
        assert_eq!(root.0.state().children.len(), 3);
        drop(children);
        assert!(root.0.state().children.is_empty());
        let (child, state) = (root.child(), Arc::downgrade(&root.0));
        drop(root);
        assert!(state.upgrade().is_some());
        drop(child);
        assert!(state.upgrade().is_none(), "neither keeps the other for ever");
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
    fn children_come_and_go_while_their_parent_is_cancelled() {
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
}
