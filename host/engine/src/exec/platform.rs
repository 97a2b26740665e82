//! Time, random numbers, cancellation, output and fuel, as the engine provides them to executions.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, TryRecvError},
    },
    thread,
    time::{Duration, Instant},
};

use glovebox_core::{Limits, LinearMemory, Moment, Platform, Watch, Woken};
use glovebox_runtimes::Progress;
use glovebox_wasi::{Stop, Stream};

use crate::{
    CancelToken,
    exec::{
        request::{OnOutput, StdinSource},
        timestamp,
    },
    tools::ThreadRunner,
};

/// The current execution of a guest of this engine.
pub(crate) type ExecutionCtx = glovebox_core::ExecutionCtx<EnginePlatform>;

/// Polling interval while a guest waits for its standard input.
const STDIN_POLL: Duration = Duration::from_millis(5);

/// Host state of one execution. By default it has no listener, a token that no caller holds, and no budget beside the
/// execution's own limit.
#[derive(Default)]
pub(crate) struct EnginePlatform {
    pub(crate) cancel: CancelToken,
    /// Fuel budget that the execution shares.
    pub(crate) budget: Budget,
    /// Fuel that was used before the guest is entered.
    pub(crate) used_fuel: u64,
    pub(crate) on_output: Option<OnOutput>,
    /// Source of standard input, read at the guest's first read.
    pub(crate) stdin: Option<StdinSource>,
    /// Progress of preparing an image, which can request cancellation.
    pub(crate) progress: Option<Arc<dyn Progress + Send + Sync>>,
}

impl EnginePlatform {
    /// Creates a platform that `cancel` cancels.
    pub(crate) fn new(cancel: CancelToken) -> Self {
        Self { cancel, ..Self::default() }
    }

    /// Starts an execution now.
    pub(crate) fn begin(self, timeout: Duration) -> ExecutionCtx {
        ExecutionCtx::new(self, Stopwatch(Instant::now()), timeout)
    }

    /// Returns the context of an idle instance, without an execution.
    pub(crate) fn over() -> ExecutionCtx {
        Self::default().begin(Duration::ZERO)
    }

    /// Drops the listener and the standard input. Otherwise a retained guest would keep them alive, with everything
    /// they own, such as the guest's own session.
    pub(crate) fn forget_listener(&mut self) {
        (self.on_output, self.stdin) = (None, None);
    }
}

impl Platform for EnginePlatform {
    type Watch = Stopwatch;
    type Tools = ThreadRunner;

    fn wait(&self, watch: &Stopwatch, until: Duration, heeds_cancellation: bool, is_ready: impl Fn() -> bool) {
        self.cancel.wait(watch.instant(until), heeds_cancellation, is_ready);
    }

    fn realtime_ns(&self) -> u64 {
        timestamp::realtime_ns()
    }

    fn moment(&self, watch: &Stopwatch) -> Moment {
        let has_given_up = || self.progress.as_ref().is_some_and(|progress| progress.cancelled());
        Moment { elapsed: watch.elapsed(), is_cancelled: self.cancel.is_cancelled() || has_given_up() }
    }

    fn fill_random(&mut self, into: &mut [u8]) {
        fill_random(into);
    }

    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        if let Some(listener) = &mut self.on_output {
            listener(stream, bytes);
        }
    }

    /// Reads standard input on a thread of its own. A blocked reader cannot be stopped, so its thread is left behind.
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
            if ctx.sleep(STDIN_POLL, fuel_left, memory)? == Woken::Asked {
                return Ok(None);
            }
        }
    }

    fn fuel_limit(&self, allowed: u64) -> u64 {
        self.budget.within(allowed)
    }

    fn used_fuel(&self) -> u64 {
        self.used_fuel
    }

    fn spend(&self, fuel: u64) {
        self.budget.spend(fuel);
    }
}

/// Fuel that several executions share, one after the other. The default is unlimited: only the limit of each execution
/// applies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget(Option<Arc<AtomicU64>>);

impl Budget {
    /// Returns a budget without fuel.
    pub(crate) fn empty() -> Self {
        Self(Some(Arc::default()))
    }

    /// Sets the remaining fuel. Must not be called during an execution that uses the budget. Executions that share a
    /// budget run one after the other.
    pub(crate) fn renew(&self, fuel: u64) {
        if let Some(left) = &self.0 {
            left.store(fuel, Ordering::SeqCst);
        }
    }

    /// Empties the budget, and returns the remaining fuel.
    pub(crate) fn take(&self) -> u64 {
        self.0.as_ref().map_or(0, |left| left.swap(0, Ordering::SeqCst))
    }

    /// Returns the fuel that one execution with the limit `fuel` may use.
    pub(crate) fn within(&self, fuel: u64) -> u64 {
        self.0.as_ref().map_or(fuel, |left| left.load(Ordering::SeqCst).min(fuel))
    }

    /// Subtracts used fuel.
    pub(crate) fn spend(&self, fuel: u64) {
        if let Some(left) = &self.0 {
            left.store(left.load(Ordering::SeqCst).saturating_sub(fuel), Ordering::SeqCst);
        }
    }
}

/// The token and the budget of one session. The default budget is unlimited, and no caller holds the default token.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionScope {
    /// Cancels work of the session outside any request: access to variables, exit handlers, rollbacks.
    pub(crate) cancel: CancelToken,
    /// Fuel budget for all work of the session.
    pub(crate) budget: Budget,
}

impl SessionScope {
    /// Returns a context for a call into the guest that does not run a script.
    pub(crate) fn one_shot_ctx(&self, limits: &Limits) -> ExecutionCtx {
        let mut platform = EnginePlatform::new(self.cancel.clone());
        platform.budget = self.budget.clone();
        platform.begin(limits.timeout())
    }
}

/// The start of a measured time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(pub(crate) Instant);

impl Watch for Stopwatch {
    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

impl Stopwatch {
    /// Returns the time from the start to `instant`.
    pub(crate) fn at(self, instant: Instant) -> Duration {
        instant.saturating_duration_since(self.0)
    }

    /// Returns the system's instant for a time since the start. A time too far away to be represented gives the current
    /// instant.
    pub(crate) fn instant(self, at: Duration) -> Instant {
        self.0.checked_add(at).unwrap_or_else(Instant::now)
    }
}

/// Fills `into` from the operating system.
///
/// This works on every supported system once it has booted. If it ever fails, the process aborts: scripts make keys and
/// tokens from these numbers, and guessable numbers would be worse than none.
pub(crate) fn fill_random(into: &mut [u8]) {
    if let Err(error) = getrandom::fill(into) {
        tracing::error!(%error, "the operating system could not provide random numbers");
        std::process::abort();
    }
}

/// Returns a unique id for a session: 128 random bits in hexadecimal.
pub(crate) fn random_id() -> String {
    let mut random = [0; 16];
    fill_random(&mut random);
    format!("{:032x}", u128::from_le_bytes(random))
}
