//! Time, cancellation, output and fuel, as the engine provides them to executions.

use std::{
    sync::{
        Arc,
        mpsc::{self, TryRecvError},
    },
    thread,
    time::{Duration, Instant},
};

use glovebox_core::{LinearMemory, Moment, Platform, Watch as _, Woken};
use glovebox_runtimes::Progress;
use glovebox_wasi::{Stop, Stream};

use crate::{
    CancelToken,
    exec::{
        budget::Budget,
        entropy,
        request::{OnOutput, StdinSource},
        stopwatch::Stopwatch,
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
        entropy::fill(into);
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
