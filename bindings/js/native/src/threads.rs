//! The thread pool that guests run on.
//!
//! Node.js's own pool has four threads, which serve file access and name lookups for the whole process. A guest that
//! waits for a tool must not occupy one of them. This pool has a thread for each concurrent job, up to a limit. Guests
//! that wait for an answer from JavaScript do not count against the limit: producing the answer may itself need a
//! thread, for a script in another sandbox.
//!
//! Waking a thread takes as long as a short script. So an idle thread polls briefly for more work before it sleeps.

use std::{
    cell::RefCell,
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

use glovebox::CancelToken;
use napi::{
    Status,
    bindgen_prelude::{Either3, FnArgs, Function, ToNapiValue},
    threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode},
};

use crate::error::{EngineFailure, NativeFailure};

/// Maximum number of guests that run concurrently, excluding those that wait for JavaScript. Further work is queued in
/// order.
const MAX_RUNNING: usize = 64;
/// Time that a thread waits for more work before it exits.
const IDLE: Duration = Duration::from_secs(10);
/// Time that a thread polls for work before it sleeps. Long enough for a JavaScript loop that runs scripts back to back
/// to submit its next script.
const LOOKING: Duration = Duration::from_micros(50);
/// Number of polls between two clock reads.
const LOOKS: u32 = 32;

type Work = Box<dyn FnOnce() + Send>;

struct PoolState {
    queue: VecDeque<Work>,
    threads: usize,
    /// Number of threads that sleep until work arrives.
    idle: usize,
    /// `true` while a thread polls for work. Only one thread polls at a time.
    is_looking: bool,
    /// Number of guests that wait for JavaScript.
    waiting: usize,
}

static STATE: Mutex<PoolState> =
    Mutex::new(PoolState { queue: VecDeque::new(), threads: 0, idle: 0, is_looking: false, waiting: 0 });
static QUEUED: Condvar = Condvar::new();
/// Set when there is work for the polling thread.
static HAS_WORK: AtomicBool = AtomicBool::new(false);
/// False on a single processor, where a polling thread would delay the thread that submits work.
static MAY_LOOK: LazyLock<bool> = LazyLock::new(|| thread::available_parallelism().is_ok_and(|count| count.get() > 1));

fn state() -> MutexGuard<'static, PoolState> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `work` on a pool thread.
pub(crate) fn run(work: Work) {
    let mut state = state();
    state.queue.push_back(work);
    HAS_WORK.store(true, Ordering::Release);
    attend(&mut state);
}

/// Counts a guest as waiting for JavaScript until dropped.
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

/// Ensures that a thread will take the queued work.
fn attend(state: &mut PoolState) {
    let taken = usize::from(state.is_looking);
    if state.queue.len() <= taken {
        return;
    }
    if state.queue.len() <= taken + state.idle {
        QUEUED.notify_one();
    } else if state.threads < MAX_RUNNING + state.waiting {
        // If the system cannot start a thread, existing threads take the work, and the next submission tries again.
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
    // This thread may have consumed a notification that another thread needs.
    attend(&mut held);
}

/// Polls briefly for work. Returns `true` if work has arrived.
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

/// Reports a job's events to JavaScript's thread, in order. Node.js stays alive while a teller exists.
pub(crate) struct Teller<T: ToNapiValue + 'static>(Arc<ThreadsafeFunction<Event<T>, (), Args<T>, Status, false>>);

impl<T: ToNapiValue> Clone for Teller<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: ToNapiValue> Teller<T> {
    fn tell(&self, event: Event<T>) {
        // The call fails while the environment is torn down, when no listener is left.
        let _ = self.0.call(event, ThreadsafeFunctionCallMode::NonBlocking);
    }
}

type ProgressListener = (Box<dyn Fn(String)>, CancelToken);

thread_local! {
    /// The progress listener of this thread's job.
    static TOLD: RefCell<Option<ProgressListener>> = const { RefCell::new(None) };
}

/// The engine's progress reporter: it reports to the callback of this thread's job.
pub(crate) struct Progress;

impl glovebox::Progress for Progress {
    fn message(&self, text: &str) {
        TOLD.with_borrow(|told| {
            if let Some((tell, _)) = told {
                tell(text.to_owned());
            }
        });
    }

    fn cancelled(&self) -> bool {
        TOLD.with_borrow(|told| told.as_ref().is_some_and(|(_, token)| token.is_cancelled()))
    }
}

/// Runs `work` on another thread. The last call of `callback` receives the result or the error.
pub(crate) fn start<T: ToNapiValue + Send + 'static>(
    callback: &Callback<'_, T>,
    work: impl FnOnce(&Teller<T>) -> Result<T, EngineFailure> + Send + 'static,
) -> napi::Result<()> {
    let function = callback.build_threadsafe_function::<Event<T>>();
    let teller = Teller(Arc::new(function.build_callback(|ctx| Ok(ctx.value.args()))?));
    run(Box::new(move || {
        let event = match catch_unwind(AssertUnwindSafe(|| work(&teller))) {
            Ok(Ok(value)) => Event::Done(value),
            Ok(Err(failure)) => Event::Failed(failure),
            Err(_) => Event::Failed(EngineFailure::panicked()),
        };
        teller.tell(event);
    }));
    Ok(())
}

/// Like `start`, but for work that is slow the first time: reports progress to `callback`, and `token` cancels it.
pub(crate) fn start_long<T: ToNapiValue + Send + 'static>(
    callback: &Callback<'_, T>,
    token: CancelToken,
    work: impl FnOnce() -> Result<T, EngineFailure> + Send + 'static,
) -> napi::Result<()> {
    start(callback, move |teller| {
        let teller = teller.clone();
        TOLD.set(Some((Box::new(move |text| teller.tell(Event::Progress(text))), token)));
        let result = catch_unwind(AssertUnwindSafe(work));
        TOLD.set(None);
        result.unwrap_or_else(|_| Err(EngineFailure::panicked()))
    })
}
