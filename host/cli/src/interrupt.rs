//! Ctrl-C: the first asks whatever runs to stop, the second ends the process. In a loop that reads and runs, it stops what
//! runs and leaves the loop alone.

use std::{
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

/// The exit code of a process that was interrupted, as shells have it.
pub(crate) const EXIT_CODE: i32 = 130;

/// A process is interrupted as a whole, so that this may be asked from anywhere.
static PRESSED: AtomicBool = AtomicBool::new(false);
/// Whether a guest runs.
static GUEST: AtomicBool = AtomicBool::new(false);
/// What one press stops, without ending the process.
static STOPPABLE: Mutex<Option<Stoppable>> = Mutex::new(None);

/// How long fetching gets to undo what it began. Compiling does not look up while it is at it, and has nothing to undo:
/// the cache is safe from a process that ends at any point.
const GRACE: Duration = Duration::from_millis(500);

/// How long something that was asked to stop gets before another press ends the process: the engine needs a tenth of it.
const STOPPING: Duration = Duration::from_secs(2);

/// Something that one press stops.
#[derive(Debug)]
struct Stoppable {
    token: CancelToken,
    asked: Option<Instant>,
}

/// Takes over SIGINT, and gives back what it cancels. To be called once, after everything that may block without
/// looking (reading a terminal).
pub(crate) fn install() -> anyhow::Result<CancelToken> {
    let token = CancelToken::new();
    let cancelled = token.clone();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot listen for Ctrl-C")?;
    thread::Builder::new()
        .name("ctrl-c".into())
        .spawn(move || {
            for signal in signals.forever() {
                if signal != SIGINT {
                    // As without us, but for the programs that answer tools.
                    program::kill_all();
                    std::process::exit(128 + signal);
                }
                if stops() {
                    continue;
                }
                if PRESSED.swap(true, Ordering::SeqCst) {
                    program::kill_all();
                    std::process::exit(EXIT_CODE);
                }
                cancelled.cancel();
                if !GUEST.load(Ordering::SeqCst) {
                    thread::sleep(GRACE);
                    if !GUEST.load(Ordering::SeqCst) {
                        note("interrupted");
                        program::kill_all();
                        std::process::exit(EXIT_CODE);
                    }
                }
            }
        })
        .context("cannot listen for Ctrl-C")?;
    Ok(token)
}

/// Asks what runs to stop, and says whether that is all that is to be done about a press.
fn stops() -> bool {
    match &mut *STOPPABLE.lock().unwrap_or_else(PoisonError::into_inner) {
        None => false,
        Some(Stoppable { token, asked }) => {
            token.cancel();
            asked.get_or_insert_with(Instant::now).elapsed() < STOPPING
        }
    }
}

/// Runs a guest: Ctrl-C then waits for it to be unwound, and for its files to be brought to a consistent end.
pub(crate) fn guarded<R>(guest: impl FnOnce() -> R) -> R {
    GUEST.store(true, Ordering::SeqCst);
    let result = guest();
    GUEST.store(false, Ordering::SeqCst);
    result
}

/// Runs a guest that Ctrl-C stops without ending the process.
pub(crate) fn stoppable<R>(guest: impl FnOnce(&CancelToken) -> R) -> R {
    let set = |stoppable| *STOPPABLE.lock().unwrap_or_else(PoisonError::into_inner) = stoppable;
    let token = CancelToken::new();
    set(Some(Stoppable { token: token.clone(), asked: None }));
    let result = guarded(|| guest(&token));
    set(None);
    result
}

/// Whether Ctrl-C was pressed.
pub(crate) fn is_pressed() -> bool {
    PRESSED.load(Ordering::SeqCst)
}
