//! Handles Ctrl-C while the main thread runs a guest.
//!
//! Python's own C handler only records a signal; the signal's Python handler runs when the main thread is back in
//! Python. Python also writes the signal's number to the file descriptor of `signal.set_wakeup_fd`. While a guest runs,
//! this module sets that descriptor, and a thread that reads from it cancels the execution. Cancellation thus works
//! with any Python handler and needs no thread per execution.

use std::{
    cell::Cell,
    io::Read,
    os::{fd::AsRawFd, unix::net::UnixStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread,
    time::Duration,
};

use glovebox::{CancelToken, Stream, internal::ThreadProgress};
use pyo3::{exceptions::PyRuntimeError, intern, prelude::*, sync::PyOnceLock, types::PyBytes};

/// The number of SIGINT, which is 2 on every supported platform.
const INTERRUPT: u8 = 2;

/// The execution that is running on the main thread.
#[derive(Default)]
struct Current {
    token: Option<CancelToken>,
    /// The previous wakeup descriptor, or -1. Signals received during the execution are forwarded to it.
    before: i32,
}

/// The socket of the thread that reads signal numbers, and the process that started the thread.
struct Watcher {
    process: u32,
    /// The end that Python writes to.
    write: UnixStream,
    current: Arc<Mutex<Current>>,
}

static WATCHER: Mutex<Option<Watcher>> = Mutex::new(None);

thread_local! {
    static IS_MAIN: Cell<Option<bool>> = const { Cell::new(None) };
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watcher {
    fn start() -> PyResult<Self> {
        let (mut read, write) = UnixStream::pair()?;
        write.set_nonblocking(true)?;
        let current = Arc::new(Mutex::new(Current::default()));
        let shared = Arc::clone(&current);
        let watch = move || {
            let mut bytes = [0; 64];
            while let Ok(count @ 1..) = read.read(&mut bytes) {
                let signals = bytes.get(..count).unwrap_or_default();
                let current = locked(&shared);
                let Some(token) = &current.token else { continue };
                if signals.contains(&INTERRUPT) {
                    token.cancel();
                }
                let before = current.before;
                drop(current);
                if before >= 0 {
                    // A failure is ignored: the reader of the previous descriptor may be gone or slow.
                    let _ = Python::try_attach(|py| forward(py, before, signals));
                }
            }
        };
        thread::Builder::new().name("glovebox-signals".into()).spawn(watch)?;
        Ok(Self { process: std::process::id(), write, current })
    }
}

fn forward(py: Python<'_>, descriptor: i32, signals: &[u8]) -> PyResult<()> {
    let signals = PyBytes::new(py, signals);
    py.import(intern!(py, "os"))?.call_method1(intern!(py, "write"), (descriptor, signals)).map(drop)
}

fn set_wakeup_fd(py: Python<'_>, descriptor: i32) -> PyResult<i32> {
    static FUNCTION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    FUNCTION.import(py, "signal", "set_wakeup_fd")?.call1((descriptor,))?.extract()
}

/// Returns `true` on the thread where Python handles signals.
fn is_main(py: Python<'_>) -> PyResult<bool> {
    if let Some(is_main) = IS_MAIN.get() {
        return Ok(is_main);
    }
    let threading = py.import(intern!(py, "threading"))?;
    let current = threading.call_method0(intern!(py, "current_thread"))?;
    let is_main = current.is(&threading.call_method0(intern!(py, "main_thread"))?);
    IS_MAIN.set(Some(is_main));
    Ok(is_main)
}

/// Runs `work` on this thread without the GIL. On the main thread, Ctrl-C cancels `token`, and an exception from the
/// signal handler is raised when `work` has ended.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    token: &CancelToken,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    if !is_main(py)? {
        return Ok(py.detach(work));
    }
    let (descriptor, current) = {
        let mut watcher = locked(&WATCHER);
        let watcher = match &mut *watcher {
            Some(watcher) if watcher.process == std::process::id() => watcher,
            // A forked child does not inherit the watcher's thread.
            other => other.insert(Watcher::start()?),
        };
        (watcher.write.as_raw_fd(), Arc::clone(&watcher.current))
    };
    // A subinterpreter on the main thread receives no signals.
    let Ok(before) = set_wakeup_fd(py, descriptor) else { return Ok(py.detach(work)) };
    *locked(&current) = Current { token: Some(token.clone()), before };
    let result = py.detach(work);
    locked(&current).token = None;
    set_wakeup_fd(py, before)?;
    py.check_signals()?;
    Ok(result)
}

// The rest of this module runs work on a separate thread, while the calling thread runs Python callbacks and handles
// Ctrl-C.
//
// Python code never runs on a guest's stack, because Python 3.14 and later compare the stack pointer with the bounds of
// the thread's own stack.

/// Polling interval for signals.
const POLL: Duration = Duration::from_millis(50);

/// An event that the calling thread handles.
pub(crate) enum Event {
    Output(Stream, Vec<u8>),
    /// The description of a slow step that has begun.
    Progress(String),
}

/// Passes output to a Python listener, which is called with `True` for standard error, and the bytes.
pub(crate) fn deliver(py: Python<'_>, listener: &Py<PyAny>, event: Event) -> PyResult<()> {
    match event {
        Event::Output(stream, bytes) => {
            let is_stderr = matches!(stream, Stream::Stderr);
            listener.call1(py, (is_stderr, PyBytes::new(py, &bytes))).map(drop)
        }
        Event::Progress(_) => Ok(()),
    }
}

/// Runs `work` on another thread, and calls `attend` with its events on this thread. An exception from `attend` or from
/// a signal handler cancels `token`, and is raised when `work` has ended.
pub(crate) fn run_attended<T: Send>(
    py: Python<'_>,
    token: &CancelToken,
    mut attend: impl FnMut(Event) -> PyResult<()>,
    work: impl FnOnce(Sender<Event>) -> T + Send,
) -> PyResult<T> {
    let (events, mut receiver) = mpsc::channel();
    let ends = token.clone();
    let work = move || {
        let progress = events.clone();
        let report = move |text: &str| {
            // Cannot fail: the calling thread receives until this thread has ended.
            let _ = progress.send(Event::Progress(text.to_owned()));
        };
        ThreadProgress::listen(report, ends, || work(events))
    };
    thread::scope(|scope| {
        let worker = thread::Builder::new().name("glovebox".into()).spawn_scoped(scope, work)?;
        let mut raised = Ok(());
        loop {
            let receiver = &mut receiver;
            let event = py.detach(move || receiver.recv_timeout(POLL));
            let handled = match event {
                Err(RecvTimeoutError::Disconnected) => break,
                _ if raised.is_err() => Ok(()),
                Ok(event) => attend(event),
                Err(RecvTimeoutError::Timeout) => py.check_signals(),
            };
            if handled.is_err() {
                token.cancel();
                raised = handled;
            }
        }
        let result = py.detach(|| worker.join());
        raised?;
        result.map_err(|_| PyRuntimeError::new_err("the engine panicked; this is a bug in Glovebox"))
    })
}
