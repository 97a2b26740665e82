//! Platform services for executions: time, random numbers, cancellation, output and fuel budgets.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, TryRecvError},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use glovebox_core::{
    Limits, LinearMemory, Moment, Platform, WakeReason, Watch,
    journal::{Recording, SuspendRefusal, SuspendedCalls},
};
use glovebox_runtimes::Progress;
use glovebox_wasi::{Stop, Stream};

use crate::{
    CancelToken,
    exec::{
        request::{OnDisplay, OnOutput, StdinSource},
        suspend::Suspension,
    },
    tools::ThreadRunner,
};

/// The context of a guest's current execution.
pub(crate) type ExecutionCtx = glovebox_core::ExecutionCtx<EnginePlatform>;

/// Polling interval while a guest waits for its standard input.
const STDIN_POLL: Duration = Duration::from_millis(5);

/// The host state of one execution. By default, there is no listener, no caller holds the token, and only the
/// execution's own limit restricts its fuel.
#[derive(Default)]
pub(crate) struct EnginePlatform {
    pub(crate) cancel: CancelToken,
    /// The fuel budget that the execution draws on.
    pub(crate) budget: Budget,
    /// Fuel that the execution used before the guest was entered.
    pub(crate) used_fuel: u64,
    pub(crate) on_output: Option<OnOutput>,
    pub(crate) on_display: Option<OnDisplay>,
    /// The function that provides standard input. Taken when it is called.
    pub(crate) stdin: Option<StdinSource>,
    /// Set if the caller can suspend the execution.
    pub(crate) suspension: Option<Arc<Suspension>>,
    /// The listener that can cancel the preparation of an image.
    pub(crate) progress: Option<Arc<dyn Progress + Send + Sync>>,
}

impl EnginePlatform {
    /// Creates the host state of an execution that `cancel` cancels.
    pub(crate) fn new(cancel: CancelToken) -> Self {
        Self { cancel, ..Self::default() }
    }

    /// Starts the clock of an execution.
    pub(crate) fn begin(self, timeout: Duration) -> ExecutionCtx {
        self.begin_at(Stopwatch(Instant::now()), timeout)
    }

    /// Returns the context of an execution that started at `begun`.
    pub(crate) fn begin_at(self, begun: Stopwatch, timeout: Duration) -> ExecutionCtx {
        ExecutionCtx::new(self, begun, timeout)
    }

    /// Returns a context for an idle instance, which runs no execution.
    pub(crate) fn idle() -> ExecutionCtx {
        Self::default().begin(Duration::ZERO)
    }

    /// Drops the listeners and the standard input. A retained guest would otherwise keep alive all values that the
    /// listeners and the input own, for example the guest's own session.
    pub(crate) fn forget_listeners(&mut self) {
        (self.on_output, self.on_display, self.stdin) = (None, None, None);
    }
}

impl Platform for EnginePlatform {
    type Watch = Stopwatch;
    type Tools = ThreadRunner;

    fn wait(&self, watch: &Stopwatch, until: Duration, heeds_cancellation: bool, is_ready: impl Fn() -> bool) {
        self.cancel.wait(watch.instant(until), heeds_cancellation, is_ready);
    }

    fn realtime_ns(&self) -> u64 {
        realtime_ns()
    }

    fn moment(&self, watch: &Stopwatch) -> Moment {
        let is_preparation_cancelled = || self.progress.as_ref().is_some_and(|progress| progress.cancelled());
        Moment { elapsed: watch.elapsed(), is_cancelled: self.cancel.is_cancelled() || is_preparation_cancelled() }
    }

    fn fill_random(&mut self, into: &mut [u8]) {
        fill_random(into);
    }

    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        if let Some(listener) = &mut self.on_output {
            listener(stream, bytes);
        }
    }

    fn display(&mut self, message: &[u8]) {
        if let Some(listener) = &mut self.on_display {
            listener(message);
        }
    }

    /// Reads standard input on a separate thread. A blocked reader cannot be stopped, so its thread can outlive the
    /// execution.
    fn stdin<M: LinearMemory + ?Sized>(
        ctx: &mut ExecutionCtx,
        fuel_left: u64,
        memory: &mut M,
    ) -> Result<Option<Vec<u8>>, Stop> {
        let Some(source) = ctx.platform.stdin.take() else { return Ok(None) };
        let (sender, read) = mpsc::sync_channel(1);
        let reader = thread::Builder::new().name("stdin".into());
        if reader.spawn(move || sender.send(source())).is_err() {
            return Ok(None);
        }
        loop {
            match read.try_recv() {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(TryRecvError::Disconnected) => return Ok(None),
                Err(TryRecvError::Empty) => {}
            }
            if ctx.sleep(STDIN_POLL, fuel_left, memory)? == WakeReason::Interrupted {
                return Ok(None);
            }
        }
    }

    fn skip_stdin(&mut self) {
        self.stdin = None;
    }

    fn fuel_limit(&self, allowed: u64) -> u64 {
        self.budget.fuel_within_budget(allowed)
    }

    fn used_fuel(&self) -> u64 {
        self.used_fuel
    }

    fn spend(&self, fuel: u64) {
        self.budget.spend(fuel);
    }

    fn wants_suspension(&self) -> bool {
        self.suspension.as_ref().is_some_and(|suspension| suspension.is_wanted())
    }

    fn begin_suspension(&self, calls: Option<&SuspendedCalls>) -> bool {
        self.suspension.as_ref().is_some_and(|suspension| suspension.begin(calls))
    }

    fn suspended(&self, recording: Result<Recording, SuspendRefusal>) {
        if let Some(suspension) = &self.suspension {
            suspension.finish(recording);
        }
    }

    fn on_difference(&self, difference: &str) {
        if let Some(suspension) = &self.suspension {
            suspension.differ(difference);
        }
    }

    fn on_continuation(&self) {
        if let Some(suspension) = &self.suspension {
            suspension.set_continued();
        }
    }
}

/// A fuel budget shared by consecutive executions. The default is unlimited: only the limit of each execution applies.
#[derive(Clone, Debug, Default)]
pub struct Budget(Option<Arc<AtomicU64>>);

impl Budget {
    /// Creates a budget without fuel.
    pub fn empty() -> Self {
        Self(Some(Arc::default()))
    }

    /// Sets the remaining fuel. Must not be called during an execution that uses the budget.
    pub fn renew(&self, fuel: u64) {
        if let Some(left) = &self.0 {
            left.store(fuel, Ordering::SeqCst);
        }
    }

    /// Empties the budget and returns the fuel that remained.
    pub fn take(&self) -> u64 {
        self.0.as_ref().map_or(0, |left| left.swap(0, Ordering::SeqCst))
    }

    /// Returns the fuel that an execution may use: the lower of its limit `fuel` and the remaining budget.
    pub(crate) fn fuel_within_budget(&self, fuel: u64) -> u64 {
        self.0.as_ref().map_or(fuel, |left| left.load(Ordering::SeqCst).min(fuel))
    }

    pub(crate) fn spend(&self, fuel: u64) {
        if let Some(left) = &self.0 {
            left.store(left.load(Ordering::SeqCst).saturating_sub(fuel), Ordering::SeqCst);
        }
    }
}

/// The cancellation token and fuel budget of one session. By default the budget is unlimited and no caller holds the
/// token.
#[derive(Clone, Debug, Default)]
pub struct SessionScope {
    /// Cancels the session's work outside requests: access to variables, exit handlers and rollbacks.
    pub cancel: CancelToken,
    /// The fuel budget for all work in the session.
    pub budget: Budget,
    /// The token of the latest call into the session. Cancelled if a component drops that call.
    pub call: CallToken,
}

/// The token of one call into a session. Cancels guest code that accesses a variable or runs exit handlers, but not a
/// rollback. The token is a child of the session's token.
#[derive(Clone, Debug, Default)]
pub struct CallToken(Arc<Mutex<Option<CancelToken>>>);

impl CallToken {
    fn token(&self) -> MutexGuard<'_, Option<CancelToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the token.
    pub fn set(&self, token: &CancelToken) {
        let earlier = self.token().replace(token.clone());
        drop(earlier);
    }
}

impl SessionScope {
    /// Returns a context for work that no call can cancel, such as a rollback.
    pub(crate) fn one_shot_ctx(&self, limits: &Limits) -> ExecutionCtx {
        self.ctx(self.cancel.clone(), limits)
    }

    /// Returns a context for a call into the guest that does not run a script.
    pub(crate) fn call_ctx(&self, limits: &Limits) -> ExecutionCtx {
        let call = self.call.token().clone();
        self.ctx(call.unwrap_or_else(|| self.cancel.clone()), limits)
    }

    fn ctx(&self, cancel: CancelToken, limits: &Limits) -> ExecutionCtx {
        let mut platform = EnginePlatform::new(cancel);
        platform.budget = self.budget.clone();
        platform.begin(limits.timeout())
    }
}

/// The start of a time measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(pub(crate) Instant);

impl Watch for Stopwatch {
    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

impl Stopwatch {
    /// Returns a stopwatch that started `by` earlier.
    pub(crate) fn started_earlier(self, by: Duration) -> Self {
        Self(self.0.checked_sub(by).unwrap_or(self.0))
    }

    /// Returns the time from the start to `instant`, or zero if `instant` is earlier.
    pub(crate) fn at(self, instant: Instant) -> Duration {
        instant.saturating_duration_since(self.0)
    }

    /// Converts a time since the start to an `Instant`. Returns the current time if the result cannot be represented.
    pub(crate) fn instant(self, at: Duration) -> Instant {
        self.0.checked_add(at).unwrap_or_else(Instant::now)
    }
}

/// Fills `into` with random bytes from the operating system.
///
/// Every supported system provides random bytes once it has booted. If the call fails, the process aborts: scripts
/// derive keys and tokens from these bytes, and predictable bytes would be worse than none.
pub(crate) fn fill_random(into: &mut [u8]) {
    if let Err(error) = getrandom::fill(into) {
        tracing::error!(%error, "cannot get random numbers from the operating system");
        std::process::abort();
    }
}

/// Returns a unique session ID: 128 random bits in hexadecimal.
pub fn random_id() -> String {
    let mut random = [0; 16];
    fill_random(&mut random);
    format!("{:032x}", u128::from_le_bytes(random))
}

/// The interval at which unmetered guests check their deadline and cancellation. Short compared with any useful
/// timeout, but long compared with the cost of a check (about 0.1 µs).
const TICK: Duration = Duration::from_millis(2);

/// The number of idle ticks before the ticker thread ends: enough that a series of short executions shares one thread.
const IDLE_TICKS: u32 = 50;

/// A thread that advances a Wasmtime engine's epoch every [`TICK`] while an unmetered guest runs. A guest starts the
/// thread if the thread is not running. The thread ends after [`IDLE_TICKS`] without a guest, or when the engine is
/// dropped.
#[derive(Debug, Default)]
pub(crate) struct Ticker(Arc<Mutex<TickerState>>);

#[derive(Debug, Default)]
struct TickerState {
    /// The number of running guests.
    running: usize,
    has_thread: bool,
}

fn lock(state: &Mutex<TickerState>) -> MutexGuard<'_, TickerState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A guard that marks a guest as running.
#[derive(Debug)]
pub(crate) struct RunningGuard(Arc<Mutex<TickerState>>);

impl Drop for RunningGuard {
    fn drop(&mut self) {
        lock(&self.0).running -= 1;
    }
}

impl Ticker {
    /// Marks a guest as running until the guard is dropped, and ensures that the epoch advances.
    ///
    /// Fails if the thread cannot be started, because no deadline would be enforced.
    pub(crate) fn running(&self, engine: &wasmtime::Engine) -> std::io::Result<RunningGuard> {
        let mut state = lock(&self.0);
        if !state.has_thread {
            let (shared, weak) = (Arc::clone(&self.0), engine.weak());
            thread::Builder::new()
                .name("glovebox-ticker".into())
                .stack_size(64 << 10)
                .spawn(move || tick(&shared, &weak))?;
            state.has_thread = true;
        }
        state.running += 1;
        Ok(RunningGuard(Arc::clone(&self.0)))
    }
}

fn tick(shared: &Mutex<TickerState>, engine: &wasmtime::EngineWeak) {
    let mut idle = 0;
    loop {
        thread::sleep(TICK);
        let Some(engine) = engine.upgrade() else { return };
        engine.increment_epoch();
        let mut state = lock(shared);
        idle = if state.running == 0 { idle + 1 } else { 0 };
        if idle >= IDLE_TICKS {
            state.has_thread = false;
            return;
        }
    }
}

/// Returns the host's time in nanoseconds since 1970.
pub(crate) fn realtime_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
