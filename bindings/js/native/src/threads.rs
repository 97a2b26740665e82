//! The threads that guests run on.
//!
//! Node.js's own pool has four threads, for files and names of all the process: a guest that waits for a tool must not hold one. Here there
//! are as many as there is work, up to a limit. A guest that waits for JavaScript's answer is not counted, so that what the answer takes, such
//! as a script in another sandbox, always finds a thread.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

/// How many guests run at once that do not wait for JavaScript. Further work waits in its order.
const MAX_RUNNING: usize = 64;
/// How long a thread waits for more work before it ends.
const IDLE: Duration = Duration::from_secs(10);

type Work = Box<dyn FnOnce() + Send>;

struct State {
    queue: VecDeque<Work>,
    threads: usize,
    idle: usize,
    /// Guests that wait for JavaScript.
    waiting: usize,
}

static STATE: Mutex<State> = Mutex::new(State { queue: VecDeque::new(), threads: 0, idle: 0, waiting: 0 });
static QUEUED: Condvar = Condvar::new();

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does `work` on one of the threads.
pub(crate) fn run(work: Work) {
    let mut state = state();
    state.queue.push_back(work);
    attend(&mut state);
}

/// A guest waits for JavaScript while this lives.
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

/// Sees to it that somebody takes what is queued.
fn attend(state: &mut State) {
    if state.queue.len() <= state.idle {
        QUEUED.notify_one();
    } else if state.threads < MAX_RUNNING + state.waiting {
        // Where the system has no thread to give, those that there are go on: the next work that is queued tries again.
        if thread::Builder::new().name("glovebox".into()).spawn(serve).is_ok() {
            state.threads += 1;
        }
    }
}

fn serve() {
    let mut held = state();
    loop {
        if let Some(work) = held.queue.pop_front() {
            drop(held);
            work();
            held = state();
        } else {
            held.idle += 1;
            let waited = QUEUED.wait_timeout(held, IDLE).unwrap_or_else(PoisonError::into_inner);
            held = waited.0;
            held.idle -= 1;
            if waited.1.timed_out() && held.queue.is_empty() {
                break;
            }
        }
        if held.threads > MAX_RUNNING + held.waiting {
            break;
        }
    }
    held.threads -= 1;
    // A notification may have come to this one.
    attend(&mut held);
}
