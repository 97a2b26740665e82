//! Ctrl-C while the main thread runs a guest.
//!
//! Python's own handler only records a signal, and acts on it when the main thread is back in Python. But Python also
//! writes the signal's number to the file descriptor of `signal.set_wakeup_fd`. While a guest runs, this is our
//! descriptor, and a thread that reads it cancels the execution. So cancellation works with any handler, and costs no
//! thread per execution.

use std::{
    cell::Cell,
    io::Read,
    os::{fd::AsRawFd, unix::net::UnixStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use glovebox::CancelToken;
use pyo3::{intern, prelude::*, sync::PyOnceLock, types::PyBytes};

/// The number of SIGINT on every platform.
const INTERRUPT: u8 = 2;

/// The guest that the main thread runs.
#[derive(Default)]
struct Current {
    token: Option<CancelToken>,
    /// The previous descriptor, -1 if there was none. Signals that arrive meanwhile are forwarded to it.
    before: i32,
}

/// The socket of the thread that reads signal numbers, with the process that the thread belongs to.
struct Watcher {
    process: u32,
    /// The end to which Python writes.
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
                    // The reader of the previous descriptor may be gone or slow, as without this module.
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

/// True on the thread where Python handles signals.
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

/// Runs `work` on this thread without Python's lock. On the main thread, Ctrl-C cancels `token`, and an exception from
/// its handler is raised when the work has ended.
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
            // The thread of a process does not exist in its forked child.
            other => other.insert(Watcher::start()?),
        };
        (watcher.write.as_raw_fd(), Arc::clone(&watcher.current))
    };
    // Subinterpreters on the main thread receive no signals.
    let Ok(before) = set_wakeup_fd(py, descriptor) else { return Ok(py.detach(work)) };
    *locked(&current) = Current { token: Some(token.clone()), before };
    let result = py.detach(work);
    locked(&current).token = None;
    set_wakeup_fd(py, before)?;
    py.check_signals()?;
    Ok(result)
}
