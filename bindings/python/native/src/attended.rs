//! Runs work on a thread of its own, while the caller's thread serves Python: it runs callbacks and handles Ctrl-C.
//!
//! Python code never runs on a guest's stack: interpreters from 3.14 on check the stack pointer against the thread's
//! own stack.

use std::{
    cell::RefCell,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread,
    time::Duration,
};

use glovebox::{CancelToken, Stream};
use pyo3::{exceptions::PyRuntimeError, prelude::*};

/// Polling interval for signals.
const POLL: Duration = Duration::from_millis(50);

/// An event of the work, for the caller's thread.
pub(crate) enum Event {
    Output(Stream, Vec<u8>),
    /// A slow step began.
    Progress(String),
}

thread_local! {
    /// The event channel and the cancellation token of this thread's work.
    static TOLD: RefCell<Option<(Sender<Event>, CancelToken)>> = const { RefCell::new(None) };
}

/// The engine's progress reporter: it reports to the event channel of this thread's work.
pub(crate) struct Progress;

impl glovebox::Progress for Progress {
    fn message(&self, text: &str) {
        TOLD.with_borrow(|told| {
            if let Some((events, _)) = told {
                // The send fails if the caller no longer listens. The event is then irrelevant.
                let _ = events.send(Event::Progress(text.to_owned()));
            }
        });
    }

    fn cancelled(&self) -> bool {
        TOLD.with_borrow(|told| told.as_ref().is_some_and(|(_, token)| token.is_cancelled()))
    }
}

/// Runs `work` on another thread, and calls `attend` with its events on this thread. An exception from `attend` or a
/// signal cancels `token`, and is raised when the work has ended.
pub(crate) fn attended<T: Send>(
    py: Python<'_>,
    token: &CancelToken,
    mut attend: impl FnMut(Event) -> PyResult<()>,
    work: impl FnOnce(Sender<Event>) -> T + Send,
) -> PyResult<T> {
    let (events, mut told) = mpsc::channel();
    let ends = token.clone();
    let work = move || {
        TOLD.set(Some((events.clone(), ends)));
        work(events)
    };
    thread::scope(|scope| {
        let worker = thread::Builder::new().name("glovebox".into()).spawn_scoped(scope, work)?;
        let mut raised = Ok(());
        loop {
            let told = &mut told;
            let event = py.detach(move || told.recv_timeout(POLL));
            let heeded = match event {
                Err(RecvTimeoutError::Disconnected) => break,
                _ if raised.is_err() => Ok(()),
                Ok(event) => attend(event),
                Err(RecvTimeoutError::Timeout) => py.check_signals(),
            };
            if heeded.is_err() {
                token.cancel();
                raised = heeded;
            }
        }
        let result = py.detach(|| worker.join());
        raised?;
        result.map_err(|_| PyRuntimeError::new_err("the engine panicked; this is a bug of Glovebox"))
    })
}
