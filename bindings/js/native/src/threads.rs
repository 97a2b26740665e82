//! The threads that guests run on.
//!
//! Node.js's own pool has four threads, which serve the files and name lookups of the whole process. A guest that waits
//! for a tool must not occupy one of them. This pool has as many threads as there is work, up to a limit. A guest that
//! waits for JavaScript's answer does not count. So the answer itself, such as a script in another sandbox, always
//! finds a thread.
//!
//! Waking a thread takes as long as a short script. So a thread that has finished its work polls for more work for a
//! moment before it sleeps.

use std::{
    collections::VecDeque,
    hint,
    sync::{
        Condvar, LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Maximum number of guests that run at once, without those that wait for JavaScript. Further work waits in order.
const MAX_RUNNING: usize = 64;
/// Time that a thread waits for more work before it ends.
const IDLE: Duration = Duration::from_secs(10);
/// Time that a thread polls for work before it sleeps. JavaScript that executes one script after another returns within
/// this time.
const LOOKING: Duration = Duration::from_micros(50);
/// Number of polls between two readings of the clock.
const LOOKS: u32 = 32;

type Work = Box<dyn FnOnce() + Send>;

struct PoolState {
    queue: VecDeque<Work>,
    threads: usize,
    /// Threads that sleep until there is work.
    idle: usize,
    /// Set while a thread polls for work. Only one thread polls at a time.
    is_looking: bool,
    /// Guests that wait for JavaScript.
    waiting: usize,
}

static STATE: Mutex<PoolState> =
    Mutex::new(PoolState { queue: VecDeque::new(), threads: 0, idle: 0, is_looking: false, waiting: 0 });
static QUEUED: Condvar = Condvar::new();
/// Set when there is work for the polling thread.
static HAS_WORK: AtomicBool = AtomicBool::new(false);
/// False with one processor, where a polling thread would keep the work from arriving.
static MAY_LOOK: LazyLock<bool> = LazyLock::new(|| thread::available_parallelism().is_ok_and(|count| count.get() > 1));

fn state() -> MutexGuard<'static, PoolState> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `work` on one of the threads.
pub(crate) fn run(work: Work) {
    let mut state = state();
    state.queue.push_back(work);
    HAS_WORK.store(true, Ordering::Release);
    attend(&mut state);
}

/// Marks a guest as waiting for JavaScript until it is dropped.
pub(crate) struct Waiting(());

impl Waiting {
    pub(crate) fn begin() -> Self {
        let mut state = state();
        state.waiting += 1;
        attend(&mut state);
        Self(())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        state().waiting -= 1;
    }
}

/// Ensures that a thread takes the queued work.
fn attend(state: &mut PoolState) {
    let taken = usize::from(state.is_looking);
    if state.queue.len() <= taken {
        return;
    }
    if state.queue.len() <= taken + state.idle {
        QUEUED.notify_one();
    } else if state.threads < MAX_RUNNING + state.waiting {
        // If the system cannot start a thread, the existing threads continue; the next queued work tries again.
        if thread::Builder::new().name("glovebox".into()).spawn(serve).is_ok() {
            state.threads += 1;
        }
    }
}

fn serve() {
    let mut held = state();
    let mut may_look = true;
    loop {
        if let Some(work) = held.queue.pop_front() {
            drop(held);
            work();
            held = state();
        } else if may_look && !held.is_looking && *MAY_LOOK {
            held.is_looking = true;
            HAS_WORK.store(false, Ordering::Release);
            drop(held);
            may_look = look();
            held = state();
            held.is_looking = false;
        } else {
            held.idle += 1;
            let waited = QUEUED.wait_timeout(held, IDLE).unwrap_or_else(PoisonError::into_inner);
            held = waited.0;
            held.idle -= 1;
            may_look = true;
            if waited.1.timed_out() && held.queue.is_empty() {
                break;
            }
        }
        if held.threads > MAX_RUNNING + held.waiting {
            break;
        }
    }
    held.threads -= 1;
    // This thread may have taken a notification that another thread needs.
    attend(&mut held);
}

/// Polls for work for a moment. Returns `true` if there is work.
fn look() -> bool {
    let begun = Instant::now();
    while begun.elapsed() < LOOKING {
        for _ in 0..LOOKS {
            if HAS_WORK.load(Ordering::Acquire) {
                return true;
            }
            hint::spin_loop();
        }
    }
    false
}
