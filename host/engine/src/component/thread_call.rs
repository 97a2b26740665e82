//! Runs a call into the sandbox on its own thread, so that the store's thread stays free.

use std::{
    future::Future,
    panic::{self, AssertUnwindSafe},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    thread,
};

use wasmtime::StoreContextMut;

use super::{SandboxCtx, SandboxView};
use crate::CancelToken;

/// Stack size of a call's thread: schemas and arguments of a component's tools can be deeply nested, and are checked on
/// it. Guests have their own stacks. Only touched pages take memory.
const STACK_BYTES: usize = 8 << 20;

/// Runs `work` with the store's sandbox on its own thread. Dropping the future before the end cancels the execution,
/// and the thread drops the sandbox.
///
/// # Errors
/// Fails if no thread can be started, or if an earlier call was dropped before its end.
pub(super) async fn on_thread<T: SandboxView, R: Send + 'static>(
    store: &mut StoreContextMut<'_, T>,
    work: impl FnOnce(&mut SandboxCtx) -> R + Send + 'static,
) -> wasmtime::Result<R> {
    let ctx = store.data_mut().sandbox();
    let cancel = ctx.cancel_token();
    let shared = Arc::new(Shared(Mutex::new(CallOnThread::new(ctx.lend()?))));
    let there = Arc::clone(&shared);
    let spawned =
        thread::Builder::new().name("glovebox-call".into()).stack_size(STACK_BYTES).spawn(move || there.run(work));
    if let Err(error) = spawned {
        let lent = shared.state().begins.take();
        if let Some(lent) = lent {
            ctx.take_back(lent);
        }
        return Err(wasmtime::Error::new(error).context("no thread for a call into the sandbox"));
    }
    let (lent, result) = ThreadCall { shared, cancel, is_over: false }.await;
    store.data_mut().sandbox().take_back(lent);
    match result {
        Ok(result) => Ok(result),
        Err(payload) => panic::resume_unwind(payload),
    }
}

/// The lent sandbox, and the result of the work or the payload of its panic.
type End<R> = (SandboxCtx, thread::Result<R>);

/// State shared by the thread and its caller.
struct Shared<R>(Mutex<CallOnThread<R>>);

struct CallOnThread<R> {
    /// The lent sandbox, until the thread takes it.
    begins: Option<SandboxCtx>,
    /// Woken at the end of the work.
    waker: Option<Waker>,
    end: Option<End<R>>,
    /// The caller dropped the future.
    is_given_up: bool,
}

impl<R> CallOnThread<R> {
    fn new(lent: SandboxCtx) -> Self {
        Self { begins: Some(lent), waker: None, end: None, is_given_up: false }
    }
}

impl<R> Shared<R> {
    fn state(&self) -> MutexGuard<'_, CallOnThread<R>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the work on the thread. If the caller has dropped the future, the thread drops the sandbox itself, because
    /// that may take time.
    fn run(&self, work: impl FnOnce(&mut SandboxCtx) -> R) {
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

/// A future that completes when the work on the thread ends.
struct ThreadCall<R> {
    shared: Arc<Shared<R>>,
    cancel: CancelToken,
    is_over: bool,
}

impl<R> Future for ThreadCall<R> {
    type Output = End<R>;

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

impl<R> Drop for ThreadCall<R> {
    fn drop(&mut self) {
        if !self.is_over {
            self.cancel.cancel();
            self.shared.state().is_given_up = true;
        }
    }
}
