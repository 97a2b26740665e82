//! Calls on separate threads, for callers that must not block their own thread.

use std::{
    future::Future,
    io,
    panic::{self, AssertUnwindSafe},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    thread,
};

use crate::CancelToken;

/// The stack size of a call's thread, in bytes. Schemas and arguments of a component's tools can be deeply nested and
/// are checked on this stack. Guests run on other stacks. Only touched pages take memory.
const STACK_BYTES: usize = 8 << 20;

/// A future that completes when the work on a new thread ends. Dropping it earlier cancels the token of the call, and
/// the thread then drops the lent value and the result.
pub(super) struct ThreadCall<L, R> {
    shared: Arc<ThreadCallState<L, R>>,
    cancel: CancelToken,
    is_over: bool,
}

/// The lent value, and the result of the work or the payload of its panic.
type ThreadOutput<L, R> = (L, thread::Result<R>);

/// The state shared by the call's thread and its future.
struct ThreadCallState<L, R>(Mutex<CallOnThread<L, R>>);

struct CallOnThread<L, R> {
    /// The lent value, until the thread takes it.
    begins: Option<L>,
    /// The waker to wake when the work ends.
    waker: Option<Waker>,
    end: Option<ThreadOutput<L, R>>,
    /// `true` once the future has been dropped.
    is_given_up: bool,
}

impl<L: Send + 'static, R: Send + 'static> ThreadCall<L, R> {
    /// Lends a value to `work` on a new thread. `cancel` is the token to cancel if the future is dropped.
    ///
    /// # Errors
    /// Fails if no thread can be started, and returns the lent value.
    pub(super) fn spawn(
        lent: L,
        cancel: CancelToken,
        work: impl FnOnce(&mut L) -> R + Send + 'static,
    ) -> Result<Self, (io::Error, Option<L>)> {
        let state = CallOnThread { begins: Some(lent), waker: None, end: None, is_given_up: false };
        let shared = Arc::new(ThreadCallState(Mutex::new(state)));
        let there = Arc::clone(&shared);
        let builder = thread::Builder::new().name("glovebox-call".into()).stack_size(STACK_BYTES);
        if let Err(error) = builder.spawn(move || there.run(work)) {
            let lent = shared.state().begins.take();
            return Err((error, lent));
        }
        Ok(Self { shared, cancel, is_over: false })
    }
}

impl<L, R> ThreadCallState<L, R> {
    fn state(&self) -> MutexGuard<'_, CallOnThread<L, R>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the work on the call's thread. If the future was dropped, this thread drops the lent value, because
    /// dropping it can take time.
    fn run(&self, work: impl FnOnce(&mut L) -> R) {
        let Some(mut lent) = self.state().begins.take() else { return };
        if self.state().is_given_up {
            return;
        }
        let result = panic::catch_unwind(AssertUnwindSafe(|| work(&mut lent)));
        let mut state = self.state();
        if state.is_given_up {
            return;
        }
        state.end = Some((lent, result));
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<L, R> Future for ThreadCall<L, R> {
    type Output = ThreadOutput<L, R>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.shared.state();
        let Some(end) = state.end.take() else {
            state.waker = Some(context.waker().clone());
            return Poll::Pending;
        };
        drop(state);
        self.is_over = true;
        Poll::Ready(end)
    }
}

impl<L, R> Drop for ThreadCall<L, R> {
    fn drop(&mut self) {
        if !self.is_over {
            self.cancel.cancel();
            self.shared.state().is_given_up = true;
        }
    }
}
