//! A started execution, as its caller observes it: its output while it runs, its cancellation and its result.

use std::{
    cell::{Cell, RefCell},
    fmt,
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use glovebox_core::{decode_display, is_display};
use glovebox_wasi::Stream;

use crate::{
    FinishedExecution,
    bindings::types::{self, SandboxError},
    wait,
};

/// Work that serves the observers of an execution, such as writing to a stream.
pub type ObserverTask = Pin<Box<dyn Future<Output = ()>>>;

/// The state of an execution that its caller can observe and cancel.
#[derive(Default)]
pub struct Live {
    is_cancelled: Cell<bool>,
    /// `true` once the caller has dropped its handle.
    is_released: Cell<bool>,
    /// `true` if output and displays are available while the script runs.
    is_observed: bool,
    stdout: RefCell<Vec<u8>>,
    stderr: RefCell<Vec<u8>>,
    /// The guest's messages, as far as they are valid.
    displays: RefCell<Vec<Vec<u8>>>,
    result: RefCell<Option<Result<Box<FinishedExecution>, SandboxError>>>,
    /// The tasks that wait for a change.
    wakers: RefCell<Vec<Waker>>,
    tasks: RefCell<Vec<ObserverTask>>,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("is_cancelled", &self.is_cancelled).finish_non_exhaustive()
    }
}

impl Live {
    /// Creates the state of an execution whose output can be read while the script runs.
    #[must_use]
    pub fn observed() -> Self {
        Self { is_observed: true, ..Self::default() }
    }

    /// Cancels the execution.
    pub fn cancel(&self) {
        self.is_cancelled.set(true);
        self.wake();
    }

    /// Cancels the execution, because the caller has dropped its handle.
    pub(crate) fn release(&self) {
        self.is_released.set(true);
        self.cancel();
    }

    /// Returns `true` if the execution was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.get()
    }

    /// Records output of the script.
    pub(crate) fn add_output(&self, stream: Stream, bytes: &[u8]) {
        if self.is_observed {
            self.buffer(stream).borrow_mut().extend_from_slice(bytes);
            self.wake();
        }
    }

    /// Records a display. Ignores an invalid message, so that the indices are those of the result.
    pub(crate) fn add_display(&self, message: &[u8]) {
        if self.is_observed && is_display(message) {
            self.displays.borrow_mut().push(message.to_vec());
            self.wake();
        }
    }

    fn buffer(&self, stream: Stream) -> &RefCell<Vec<u8>> {
        match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        }
    }

    /// Ends the execution. The result contains all output, so the copy for observers is freed.
    pub fn end(&self, result: Result<FinishedExecution, SandboxError>) {
        self.result.replace(Some(result.map(Box::new)));
        for bytes in [&self.stdout, &self.stderr] {
            bytes.take();
        }
        self.displays.take();
        self.wake();
    }

    /// Returns `true` if the execution has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.result.borrow().is_some()
    }

    /// Calls `read` with the result. Returns `None` before the end of the execution.
    pub fn with_result<R>(&self, read: impl FnOnce(Result<&FinishedExecution, &SandboxError>) -> R) -> Option<R> {
        self.result.borrow().as_ref().map(|result| read(result.as_deref()))
    }

    /// Calls `read` with the output so far.
    pub fn with_output<R>(&self, stream: Stream, read: impl FnOnce(&[u8]) -> R) -> R {
        match &*self.result.borrow() {
            None => read(&self.buffer(stream).borrow()),
            Some(Err(_)) => read(&[]),
            Some(Ok(executed)) => match stream {
                Stream::Stdout => read(&executed.output.stdout.bytes),
                Stream::Stderr => read(&executed.output.stderr.bytes),
            },
        }
    }

    /// Returns the number of displays so far.
    #[must_use]
    pub fn display_count(&self) -> usize {
        let of_result = |result: Result<&FinishedExecution, &SandboxError>| {
            result.map_or(0, |executed| executed.displays().count())
        };
        self.with_result(of_result).unwrap_or_else(|| self.displays.borrow().len())
    }

    /// Returns a display. Fails if it does not exist.
    pub fn display(&self, index: u32) -> Result<types::Display, SandboxError> {
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        let none = || SandboxError::InvalidArgument(format!("`index`: there is no display {index}"));
        let of_result = |result: Result<&FinishedExecution, &SandboxError>| match result {
            Ok(executed) => executed.displays().nth(at).ok_or_else(none),
            Err(SandboxError::QuotaExceeded(text)) => Err(SandboxError::QuotaExceeded(text.clone())),
            Err(_) => Err(none()),
        };
        self.with_result(of_result).unwrap_or_else(|| {
            let display = self.displays.borrow().get(at).and_then(|message| decode_display(message));
            display.map(Into::into).ok_or_else(none)
        })
    }

    /// Waits until `poll` returns a value. Checks again after each change.
    pub async fn changed<R>(&self, poll: impl Fn() -> Option<R>) -> R {
        poll_fn(|cx| {
            self.register(cx.waker());
            poll().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    fn register(&self, waker: &Waker) {
        let mut wakers = self.wakers.borrow_mut();
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }

    /// Runs the tasks for observers until all have ended and the caller has dropped its handle.
    pub async fn serve_all(&self) {
        poll_fn(|cx| {
            self.register(cx.waker());
            self.serve(cx);
            let is_done = self.is_released.get() && self.task_count() == 0;
            if is_done { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Adds a task for an observer. [`serve`](Self::serve) runs it.
    pub fn spawn(&self, task: ObserverTask) {
        self.tasks.borrow_mut().push(task);
        self.wake();
    }

    /// Returns the number of tasks for observers that have not ended.
    #[must_use]
    pub fn task_count(&self) -> usize {
        self.tasks.borrow().len()
    }

    /// Runs the tasks for observers as far as they get.
    pub fn serve(&self, cx: &mut Context<'_>) {
        // A task is polled without a borrow, because it can make calls that reach this execution.
        let mut tasks = self.tasks.take();
        tasks.retain_mut(|task| task.as_mut().poll(cx).is_pending());
        let mut all = self.tasks.borrow_mut();
        tasks.append(&mut all);
        *all = tasks;
    }

    /// Wakes everything that waits for a change, and the execution itself.
    pub(crate) fn wake(&self) {
        self.wakers.take().into_iter().for_each(Waker::wake);
        wait::wake();
    }
}
