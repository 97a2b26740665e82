//! One thread per engine that moves its epoch on while guests run.

use std::sync::{
    Arc, Condvar, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};
use std::thread;
use std::time::Duration;

/// How often running guests look at their deadline and cancellation. Short against any useful timeout, long against
/// what a look costs (about 0.1 µs).
pub(crate) const TICK: Duration = Duration::from_millis(2);

/// How many idle ticks pass before the thread sleeps. Waking it costs a system call, which a run of short executions
/// should not pay each time.
const IDLE_TICKS: u32 = 50;

/// Moves a Wasmtime engine's epoch on, every [`TICK`] while a guest runs and not otherwise. The thread starts with the
/// first guest and ends with the engine, which it only holds weakly.
#[derive(Debug, Default)]
pub(crate) struct Ticker(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    running: AtomicUsize,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    started: bool,
    is_paused: bool,
    ended: bool,
}

/// A guest is running while this lives.
#[derive(Debug)]
pub(crate) struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Ticker {
    /// Marks a guest as running, and sees to it that the epoch moves.
    ///
    /// Fails when the thread cannot be started: without it no deadline would hold.
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
        // A guest that came between the look above and the lock saw `is_paused` unset: look again under the lock.
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
