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
    budget::Budget,
    entropy,
    request::{OnOutput, StdinSource},
    stopwatch::Stopwatch,
    timestamp,
    tools::ThreadRunner,
};

/// The current execution of a guest of the engine's.
pub(crate) type ExecutionCtx = glovebox_core::ExecutionCtx<EnginePlatform>;

/// How often a guest that waits for its standard input is looked at.
const STDIN_POLL: Duration = Duration::from_millis(5);

/// What the host provides for one execution. By default it has no token, no listener, and no budget beside its own limit.
#[derive(Default)]
pub(crate) struct EnginePlatform {
    pub(crate) cancel: CancelToken,
    /// What its fuel is taken from.
    pub(crate) budget: Budget,
    /// Fuel that was used before the guest is entered.
    pub(crate) used_fuel: u64,
    pub(crate) on_output: Option<OnOutput>,
    /// Read when the guest reads its standard input.
    pub(crate) stdin: Option<StdinSource>,
    /// While an image is made: whether to give up.
    pub(crate) progress: Option<Arc<dyn Progress + Send + Sync>>,
}

impl EnginePlatform {
    /// Cancelled by this token.
    pub(crate) fn new(cancel: CancelToken) -> Self {
        Self { cancel, ..Self::default() }
    }

    /// Begins an execution now.
    pub(crate) fn begin(self, timeout: Duration) -> ExecutionCtx {
        ExecutionCtx::new(self, Stopwatch(Instant::now()), timeout)
    }

    /// No execution: the state of an instance that waits for one.
    pub(crate) fn over() -> ExecutionCtx {
        Self::default().begin(Duration::ZERO)
    }

    /// Drops the listener. A guest that stays would hold it too, with whatever it holds: its own session, say.
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

    /// A blocked reader cannot be stopped. It is left behind, on its thread.
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
