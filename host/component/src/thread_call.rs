//! Calls on other threads, for callers that must not block their own thread.
//!
//! A call passes through these steps: the caller's thread gives the work to an idle thread of the engine's pool and
//! wakes that thread; the thread runs the work, and then wakes the task that awaits the call. A call in a [`CallQueue`]
//! can wait before the first step.

use std::{
    future::Future,
    io,
    panic::{self, AssertUnwindSafe},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    thread,
    time::Instant,
};

use glovebox::{
    CancelToken,
    internal::{Job, ThreadPool},
};

use super::call_queue::{CallQueue, QueueTicket};

/// A future that completes when the work on another thread ends. Dropping it earlier cancels the token of the call. If
/// the work has begun, its thread then drops the lent value and the result. If the work waits in a queue, it leaves the
/// queue, and the lent value is dropped at once.
pub(super) struct ThreadCall<L, R> {
    shared: Arc<ThreadCallState<L, R>>,
    cancel: CancelToken,
    ticket: Option<QueueTicket>,
    is_over: bool,
}

/// The lent value, and the result of the work or the payload of its panic.
type ThreadOutput<L, R> = (L, thread::Result<R>);

/// The error if no thread can be started, and the lent value.
type ThreadRefusal<L> = (io::Error, Option<L>);

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
    /// Lends a value to `work`, which runs on a thread of the pool. `cancel` is the token to cancel if the future is
    /// dropped.
    ///
    /// # Errors
    /// Fails if no thread can be started, and returns the lent value.
    pub(super) fn spawn(
        threads: &ThreadPool,
        lent: L,
        cancel: CancelToken,
        work: impl FnOnce(&mut L) -> R + Send + 'static,
    ) -> Result<Self, ThreadRefusal<L>> {
        let (call, job) = Self::new(lent, cancel, work);
        match threads.run(job) {
            Ok(()) => Ok(call),
            Err(error) => Err(call.refused(error)),
        }
    }

    /// Like [`spawn`](Self::spawn), but the work waits in a queue while too many other calls are running, at most until
    /// `due`.
    ///
    /// # Errors
    /// Fails if no other call is running and no thread can be started. Returns the lent value.
    pub(super) fn enqueue(
        queue: &Arc<CallQueue>,
        due: Option<Instant>,
        lent: L,
        cancel: CancelToken,
        work: impl FnOnce(&mut L) -> R + Send + 'static,
    ) -> Result<Self, ThreadRefusal<L>> {
        let (mut call, job) = Self::new(lent, cancel, work);
        match queue.push(job, due) {
            Ok(ticket) => {
                call.ticket = Some(ticket);
                Ok(call)
            }
            Err(error) => Err(call.refused(error)),
        }
    }

    fn new(lent: L, cancel: CancelToken, work: impl FnOnce(&mut L) -> R + Send + 'static) -> (Self, Job) {
        let state = CallOnThread { begins: Some(lent), waker: None, end: None, is_given_up: false };
        let shared = Arc::new(ThreadCallState(Mutex::new(state)));
        let there = Arc::clone(&shared);
        (Self { shared, cancel, ticket: None, is_over: false }, Box::new(move || there.run(work)))
    }

    /// Ends a call that could not begin.
    fn refused(mut self, error: io::Error) -> ThreadRefusal<L> {
        self.is_over = true;
        let lent = self.shared.state().begins.take();
        (error, lent)
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
        if self.is_over {
            return;
        }
        self.cancel.cancel();
        self.shared.state().is_given_up = true;
        if let Some(ticket) = &self.ticket {
            ticket.withdraw();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, sync::mpsc};

    use super::*;

    /// Polls a future until it is ready.
    fn wait<F: Future>(future: F) -> F::Output {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match future.as_mut().poll(&mut context) {
                Poll::Ready(output) => return output,
                Poll::Pending => thread::yield_now(),
            }
        }
    }

    fn spawn(pool: &ThreadPool, work: impl FnOnce(&mut u32) -> u32 + Send + 'static) -> ThreadCall<u32, u32> {
        ThreadCall::spawn(pool, 1, CancelToken::new(), work).ok().unwrap()
    }

    #[test]
    fn lent_value_and_result_return() {
        let pool = ThreadPool::default();
        let add = |lent: &mut u32| {
            *lent += 1;
            *lent + 5
        };
        let (lent, result) = wait(spawn(&pool, add));
        assert_eq!((lent, result.unwrap()), (2, 7));
        let (lent, result) = wait(spawn(&pool, |_| panic!("expected by a test")));
        assert_eq!((lent, result.unwrap_err().downcast_ref::<&str>()), (1, Some(&"expected by a test")));
        assert_eq!(wait(spawn(&pool, |lent| *lent)).0, 1, "usable after");
    }

    #[test]
    fn dropped_call_is_cancelled() {
        let (pool, cancel) = (ThreadPool::default(), CancelToken::new());
        let (there, (sender, receiver)) = (cancel.clone(), mpsc::channel());
        let call = ThreadCall::spawn(&pool, (), cancel, move |_| {
            sender.send("begun").unwrap();
            while !there.is_cancelled() {
                thread::yield_now();
            }
            sender.send("cancelled").unwrap();
        });
        // A call that is dropped before its work begins does no work.
        assert_eq!(receiver.recv().unwrap(), "begun");
        drop(call.ok().unwrap());
        assert_eq!(receiver.recv().unwrap(), "cancelled");
    }

    #[test]
    fn dropped_waiting_call_releases_its_value_at_once() {
        let queue = CallQueue::new(&Arc::default(), 1);
        let (end, ended) = mpsc::channel::<()>();
        let work = move |_: &mut ()| ended.recv().unwrap_err();
        let running = ThreadCall::enqueue(&queue, None, (), CancelToken::new(), work).ok().unwrap();
        let share = Arc::new(());
        for _ in 0..2 {
            let cancel = CancelToken::new();
            let work = |lent: &mut Arc<()>| Arc::strong_count(lent);
            let waiting = ThreadCall::enqueue(&queue, None, Arc::clone(&share), cancel.clone(), work).ok().unwrap();
            assert_eq!(Arc::strong_count(&share), 2);
            drop(waiting);
            assert_eq!(Arc::strong_count(&share), 1);
            assert!(cancel.is_cancelled());
        }
        drop(end);
        wait(running).1.unwrap();
        let later = ThreadCall::enqueue(&queue, None, 3, CancelToken::new(), |lent| *lent).ok().unwrap();
        assert_eq!(wait(later).0, 3, "usable after");
    }
}
