//! A thread per engine that advances the engine's epoch while guests run.

use std::sync::{
    Arc, Condvar, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};
use std::thread;
use std::time::Duration;

/// Interval at which running guests check their deadline and cancellation. Short compared with any useful timeout, long
/// compared with the cost of a check (about 0.1 µs).
const TICK: Duration = Duration::from_millis(2);

/// Number of idle ticks before the thread sleeps. Waking it costs a system call, which a series of short executions
/// should not pay each time.
const IDLE_TICKS: u32 = 50;

/// Advances a Wasmtime engine's epoch every [`TICK`], but only while a guest runs. The thread starts with the first
/// guest. It holds the engine weakly, and ends with it.
#[derive(Debug, Default)]
pub(crate) struct Ticker(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    running: AtomicUsize,
    state: Mutex<TickerState>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct TickerState {
    started: bool,
    is_paused: bool,
    ended: bool,
}

/// Guard that marks a guest as running.
#[derive(Debug)]
pub(crate) struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Ticker {
    /// Marks a guest as running, and ensures that the epoch advances.
    ///
    /// Fails if the thread cannot be started: without it no deadline would be enforced.
    pub(crate) fn running(&self, engine: &wasmtime::Engine) -> std::io::Result<Running> {
        self.0.running.fetch_add(1, Ordering::SeqCst);
        let running = Running(Arc::clone(&self.0));
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.started {
            let (shared, weak) = (Arc::clone(&self.0), engine.weak());
            thread::Builder::new()
                .name("glovebox-ticker".into())
                .stack_size(64 << 10)
                .spawn(move || tick(&shared, &weak))?;
            state.started = true;
        }
        if state.is_paused {
            state.is_paused = false;
            self.0.wake.notify_one();
        }
        Ok(running)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
        self.0.wake.notify_one();
    }
}

fn tick(shared: &Shared, engine: &wasmtime::EngineWeak) {
    let mut idle = 0;
    loop {
        thread::sleep(TICK);
        let Some(engine) = engine.upgrade() else { return };
        engine.increment_epoch();
        idle = if shared.running.load(Ordering::SeqCst) == 0 { idle + 1 } else { 0 };
        if idle < IDLE_TICKS {
            continue;
        }
        drop(engine);
        let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        // A guest that started between the check above and the lock saw `is_paused` unset: check again under the lock.
        if shared.running.load(Ordering::SeqCst) == 0 {
            state.is_paused = true;
        }
        while state.is_paused && !state.ended {
            state = shared.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.ended {
            return;
        }
        idle = 0;
    }
}
