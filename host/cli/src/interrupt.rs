//! Ctrl-C: the first asks whatever runs to stop, the second ends the process.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use anyhow::Context;
use glovebox::CancelToken;
use signal_hook::{consts::SIGINT, iterator::Signals};

use crate::terminal::note;

/// The exit code of a process that was interrupted, as shells have it.
pub(crate) const EXIT_CODE: i32 = 130;

/// A process is interrupted as a whole, so that this may be asked from anywhere.
static PRESSED: AtomicBool = AtomicBool::new(false);
/// Whether a guest runs.
static GUEST: AtomicBool = AtomicBool::new(false);

/// How long fetching gets to undo what it began. Compiling does not look up while it is at it, and has nothing to undo:
/// the cache is safe from a process that ends at any point.
const GRACE: Duration = Duration::from_millis(500);

/// Takes over SIGINT, and gives back what it cancels. To be called once, after everything that may block without
/// looking (reading a terminal).
pub(crate) fn install() -> anyhow::Result<CancelToken> {
    let token = CancelToken::new();
    let cancelled = token.clone();
    let mut signals = Signals::new([SIGINT]).context("cannot listen for Ctrl-C")?;
    thread::Builder::new()
        .name("ctrl-c".into())
        .spawn(move || {
            for _ in signals.forever() {
                if PRESSED.swap(true, Ordering::SeqCst) {
                    std::process::exit(EXIT_CODE);
                }
                cancelled.cancel();
                if !GUEST.load(Ordering::SeqCst) {
                    thread::sleep(GRACE);
                    if !GUEST.load(Ordering::SeqCst) {
                        note("interrupted");
                        std::process::exit(EXIT_CODE);
                    }
                }
            }
        })
        .context("cannot listen for Ctrl-C")?;
    Ok(token)
}

/// Runs a guest: Ctrl-C then waits for it to be unwound, and for its files to be brought to a consistent end.
pub(crate) fn guarded<R>(guest: impl FnOnce() -> R) -> R {
    GUEST.store(true, Ordering::SeqCst);
    let result = guest();
    GUEST.store(false, Ordering::SeqCst);
    result
}

/// Whether Ctrl-C was pressed.
pub(crate) fn is_pressed() -> bool {
    PRESSED.load(Ordering::SeqCst)
}
