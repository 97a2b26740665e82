//! Ctrl-C: the first press cancels the running operation, and the second ends the process. In the REPL, a press stops
//! the running guest but not the loop.

use std::{
    ffi::c_int,
    fs, io,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use glovebox::CancelToken;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use crate::{program, terminal::note};

/// The exit code of an interrupted process, as in shells.
pub(crate) const EXIT_CODE: i32 = 130;

/// `true` after Ctrl-C. An interrupt affects the whole process, so this variable is global.
static PRESSED: AtomicBool = AtomicBool::new(false);
/// `true` while a guest is running.
static GUEST: AtomicBool = AtomicBool::new(false);
/// The operation that one press of Ctrl-C stops without ending the process.
static CURRENT_OPERATION: Mutex<Option<CancellableOperation>> = Mutex::new(None);

/// The time for a download to clean up. Compilation does not check for cancellation and needs no cleanup: the cache
/// stays valid if a process ends at any point.
const GRACE: Duration = Duration::from_millis(500);

/// The time for an operation to stop before another press ends the process. The engine unwinds a guest within a tenth
/// of this time.
const STOPPING: Duration = Duration::from_secs(2);

/// An operation that one press of Ctrl-C stops.
#[derive(Debug)]
struct CancellableOperation {
    token: CancelToken,
    cancelled_at: Option<Instant>,
}

/// Installs the handlers of SIGINT, SIGTERM and SIGHUP, and returns the token that SIGINT cancels. Signals that the
/// process ignores stay ignored. Call this once, after all blocking operations that do not check the token, such as
/// reading from a terminal.
pub(crate) fn install() -> anyhow::Result<CancelToken> {
    let token = CancelToken::new();
    let cancelled = token.clone();
    listen(move |signal| {
        if signal != SIGINT {
            exit(128 + signal);
        }
        if cancel_running() {
            return;
        }
        if PRESSED.swap(true, Ordering::SeqCst) {
            exit(EXIT_CODE);
        }
        cancelled.cancel();
        if !GUEST.load(Ordering::SeqCst) {
            thread::sleep(GRACE);
            if !GUEST.load(Ordering::SeqCst) {
                note("interrupted");
                exit(EXIT_CODE);
            }
        }
    })?;
    Ok(token)
}

/// Like [`install`], but for a server: SIGTERM and SIGHUP request a shutdown like SIGINT. The caller limits the
/// duration of the shutdown. A second signal ends the process.
#[cfg(feature = "full")]
pub(crate) fn install_for_server() -> anyhow::Result<CancelToken> {
    let token = CancelToken::new();
    let cancelled = token.clone();
    listen(move |signal| {
        if !cancelled.is_cancelled() {
            cancelled.cancel();
        } else if signal != SIGHUP {
            // A later SIGHUP does not end the process: the shell and the system can both send one when a terminal
            // closes.
            exit(128 + signal);
        }
    })?;
    Ok(token)
}

/// Installs the handlers, and passes each signal to `react` on a thread.
fn listen(react: impl FnMut(c_int) + Send + 'static) -> anyhow::Result<()> {
    let mut signals = interrupt_signals().context("cannot listen for Ctrl-C")?;
    let listening = thread::Builder::new().name("ctrl-c".into());
    listening.spawn(move || signals.forever().for_each(react)).context("cannot listen for Ctrl-C")?;
    Ok(())
}

/// Kills the programs that implement tools, and ends the process.
fn exit(code: i32) -> ! {
    program::kill_all();
    std::process::exit(code)
}

/// Installs the handlers of all signals that this process does not ignore. `nohup` starts a program with SIGHUP
/// ignored, and a shell script starts its background processes with SIGINT ignored.
fn interrupt_signals() -> io::Result<Signals> {
    // Bit N of the mask stands for signal N + 1.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let is_ignored = |signal: c_int| match mask {
        Some(mask) => mask & (1 << (signal - 1)) != 0,
        // Systems other than Linux do not report ignored signals, but `nohup` redirects standard error.
        None => signal == SIGHUP && !io::IsTerminal::is_terminal(&io::stderr()),
    };
    Signals::new([SIGINT, SIGTERM, SIGHUP].iter().filter(|signal| !is_ignored(**signal)))
}

/// Cancels the running operation. Returns `true` if the press needs no further action.
fn cancel_running() -> bool {
    match &mut *CURRENT_OPERATION.lock().unwrap_or_else(PoisonError::into_inner) {
        None => false,
        Some(CancellableOperation { token, cancelled_at }) => {
            token.cancel();
            cancelled_at.get_or_insert_with(Instant::now).elapsed() < STOPPING
        }
    }
}

/// Runs a guest. Ctrl-C then waits until the guest is unwound and its files are consistent.
pub(crate) fn run_guest<R>(guest: impl FnOnce() -> R) -> R {
    GUEST.store(true, Ordering::SeqCst);
    let result = guest();
    GUEST.store(false, Ordering::SeqCst);
    result
}

/// Runs a guest that Ctrl-C stops without ending the process.
#[cfg_attr(not(feature = "full"), expect(dead_code, reason = "only the REPL continues after Ctrl-C"))]
pub(crate) fn run_cancellable<R>(guest: impl FnOnce(&CancelToken) -> R) -> R {
    let set = |operation| *CURRENT_OPERATION.lock().unwrap_or_else(PoisonError::into_inner) = operation;
    let token = CancelToken::new();
    set(Some(CancellableOperation { token: token.clone(), cancelled_at: None }));
    let result = run_guest(|| guest(&token));
    set(None);
    result
}

/// Returns `true` if Ctrl-C was pressed.
pub(crate) fn is_pressed() -> bool {
    PRESSED.load(Ordering::SeqCst)
}
