//! The thread pool on which guests run.
//!
//! Node.js's own pool has four threads, which serve file access and name lookups for the whole process. A guest that
//! waits for a tool must not occupy one of them. This pool has a thread for each concurrent job, up to a limit. Guests
//! that wait for an answer from JavaScript do not count towards the limit: the answer may itself need a thread, for a
//! script in another sandbox.
//!
//! Waking a thread takes as long as a short script, so an idle thread polls briefly for more work before it sleeps.

use std::{
    collections::VecDeque,
    hint,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use glovebox::{CancelToken, internal::ThreadProgress};
use napi::{
    Status,
    bindgen_prelude::{Either3, FnArgs, Function, ToNapiValue},
    threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode},
};

use crate::error::{EngineFailure, NativeFailure};

/// Maximum number of guests that run concurrently, excluding guests that wait for JavaScript. Further work is queued in
/// order.
const MAX_RUNNING: usize = 64;
/// The time for which a thread waits for more work before it exits.
const IDLE: Duration = Duration::from_secs(10);
/// The time for which a thread polls for work before it sleeps. A JavaScript loop that runs one script after another
/// submits its next script within this time.
const POLL_TIME: Duration = Duration::from_micros(50);
/// The number of polls between two clock reads.
const POLLS_PER_CLOCK_READ: u32 = 32;

type Work = Box<dyn FnOnce() + Send>;

struct PoolState {
    queue: VecDeque<Work>,
    threads: usize,
    /// The number of threads that sleep until work arrives.
    idle: usize,
    /// `true` while a thread polls for work. Only one thread polls at a time.
    is_polling: bool,
    /// The number of guests that wait for JavaScript.
    waiting: usize,
}

static STATE: Mutex<PoolState> =
    Mutex::new(PoolState { queue: VecDeque::new(), threads: 0, idle: 0, is_polling: false, waiting: 0 });
static QUEUED: Condvar = Condvar::new();
/// Tells the polling thread that there is work.
static HAS_WORK: AtomicBool = AtomicBool::new(false);
/// Enables polling, except on a single processor, where a polling thread would delay the thread that submits work.
static MAY_POLL: LazyLock<bool> = LazyLock::new(|| thread::available_parallelism().is_ok_and(|count| count.get() > 1));

fn state() -> MutexGuard<'static, PoolState> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `work` on a pool thread.
pub(crate) fn run(work: Work) {
    let mut state = state();
    state.queue.push_back(work);
    HAS_WORK.store(true, Ordering::Release);
    ensure_thread(&mut state);
}

/// A guard that counts a guest as waiting for JavaScript until it is dropped.
pub(crate) struct WaitGuard(());

impl WaitGuard {
    pub(crate) fn begin() -> Self {
        let mut state = state();
        state.waiting += 1;
        ensure_thread(&mut state);
        Self(())
    }
}

impl Drop for WaitGuard {
    fn drop(&mut self) {
        state().waiting -= 1;
    }
}

/// Ensures that a thread takes the queued work: wakes an idle thread, or starts a new one.
fn ensure_thread(state: &mut PoolState) {
    let taken = usize::from(state.is_polling);
    if state.queue.len() <= taken {
        return;
    }
    if state.queue.len() <= taken + state.idle {
        QUEUED.notify_one();
    } else if state.threads < MAX_RUNNING + state.waiting {
        // If the system cannot start a thread, an existing thread takes the work later, and the next submission tries
        // again.
        if thread::Builder::new().name("glovebox".into()).spawn(serve).is_ok() {
            state.threads += 1;
        }
    }
}

fn serve() {
    let mut held = state();
    let mut may_poll = true;
    loop {
        if let Some(work) = held.queue.pop_front() {
            drop(held);
            work();
            held = state();
        } else if may_poll && !held.is_polling && *MAY_POLL {
            held.is_polling = true;
            HAS_WORK.store(false, Ordering::Release);
            drop(held);
            may_poll = poll_for_work();
            held = state();
            held.is_polling = false;
        } else {
            held.idle += 1;
            let waited = QUEUED.wait_timeout(held, IDLE).unwrap_or_else(PoisonError::into_inner);
            held = waited.0;
            held.idle -= 1;
            may_poll = true;
            if waited.1.timed_out() && held.queue.is_empty() {
                break;
            }
        }
        if held.threads > MAX_RUNNING + held.waiting {
            break;
        }
    }
    held.threads -= 1;
    // This thread may have consumed a notification that another thread needs.
    ensure_thread(&mut held);
}

/// Polls briefly for work. Returns `true` if work has arrived.
fn poll_for_work() -> bool {
    let begun = Instant::now();
    while begun.elapsed() < POLL_TIME {
        for _ in 0..POLLS_PER_CLOCK_READ {
            if HAS_WORK.load(Ordering::Acquire) {
                return true;
            }
            hint::spin_loop();
        }
    }
    false
}

/// The second argument of the callback, after the number of the event.
type Payload<T> = Either3<T, String, NativeFailure>;
type Args<T> = FnArgs<(u32, Payload<T>)>;

/// JavaScript's callback for the events of a job.
pub(crate) type Callback<'a, T> = Function<'a, Args<T>, ()>;

/// An event of a job. The numbers are defined in `src/native/module.ts`.
enum Event<T> {
    Done(T),
    Failed(EngineFailure),
    Progress(String),
}

impl<T: ToNapiValue> Event<T> {
    fn args(self) -> Args<T> {
        let (number, payload) = match self {
            Self::Done(value) => (0, Either3::A(value)),
            Self::Failed(failure) => (1, Either3::C(failure.into())),
            Self::Progress(text) => (4, Either3::B(text)),
        };
        (number, payload).into()
    }
}

/// A sender that passes a job's events to JavaScript's thread in order. Node.js stays alive while a sender exists.
pub(crate) struct EventSender<T: ToNapiValue + 'static>(Arc<ThreadsafeFunction<Event<T>, (), Args<T>, Status, false>>);

impl<T: ToNapiValue> Clone for EventSender<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: ToNapiValue> EventSender<T> {
    fn send(&self, event: Event<T>) {
        // The call fails only while the environment is torn down. No listener is left then.
        let _ = self.0.call(event, ThreadsafeFunctionCallMode::NonBlocking);
    }
}

/// Runs `work` and converts a panic to a failure.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T, EngineFailure>) -> Result<T, EngineFailure> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(EngineFailure::panicked()))
}

/// Runs `work` on another thread. The last call to `callback` receives the result or the error.
pub(crate) fn start<T: ToNapiValue + Send + 'static>(
    callback: &Callback<'_, T>,
    work: impl FnOnce(&EventSender<T>) -> Result<T, EngineFailure> + Send + 'static,
) -> napi::Result<()> {
    let function = callback.build_threadsafe_function::<Event<T>>();
    let sender = EventSender(Arc::new(function.build_callback(|ctx| Ok(ctx.value.args()))?));
    run(Box::new(move || {
        sender.send(caught(|| work(&sender)).map_or_else(Event::Failed, Event::Done));
    }));
    Ok(())
}

/// Like `start`, but for work that is slow the first time. Reports progress to `callback`. `token` cancels the work.
pub(crate) fn start_long<T: ToNapiValue + Send + 'static>(
    callback: &Callback<'_, T>,
    token: CancelToken,
    work: impl FnOnce() -> Result<T, EngineFailure> + Send + 'static,
) -> napi::Result<()> {
    start(callback, move |sender| {
        let sender = sender.clone();
        let report = move |text: &str| sender.send(Event::Progress(text.to_owned()));
        ThreadProgress::listen(report, token, || caught(work))
    })
}
