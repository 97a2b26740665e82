//! Monitors a run on another thread and stops it.
//!
//! An application executes its own code, waits in a WASI call, or blocks its thread in a host function. To stop an
//! application, the monitor advances the epoch, which interrupts the application's own code. The monitor also cancels
//! the application's scripts, and wakes the task, which then drops a pending WASI call. The epoch advances only to
//! stop a run. The thread that requested the run monitors it, so no further thread is needed.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    task::{Context, Waker},
    time::{Duration, Instant},
};

/// The interval between epoch advances while a run is being stopped. A single advance has no effect if the application
/// extends its epoch deadline at the same time.
const NUDGE: Duration = Duration::from_millis(2);

/// The reason for stopping a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    Cancelled,
    Time,
}

/// The state shared by the run's thread and the monitoring thread.
#[derive(Debug)]
pub(crate) struct Watch<R> {
    state: Mutex<WatchState<R>>,
    changed: Condvar,
}

#[derive(Debug)]
struct WatchState<R> {
    stop: Option<StopReason>,
    /// The waker of the task while the task waits in a WASI call.
    waker: Option<Waker>,
    report: Option<R>,
    /// `true` once the thread has ended, with or without a report.
    is_over: bool,
}

/// The result of monitoring a run.
#[derive(Debug)]
pub(crate) enum MonitorOutcome<R> {
    /// The run ended with this report.
    Reported(R),
    /// The thread ended without a report: it panicked.
    Lost,
    /// The stopped run did not end, because its thread is blocked in a system call.
    Stuck(StopReason),
}

/// The handle for the run's thread. Dropping the handle marks the run as over, even after a panic.
#[derive(Debug)]
pub(crate) struct RunningThread<R>(Arc<Watch<R>>);

impl<R> Drop for RunningThread<R> {
    fn drop(&mut self) {
        self.0.state().is_over = true;
        self.0.changed.notify_all();
    }
}

impl<R> RunningThread<R> {
    /// Returns the reason if the run was stopped. Otherwise registers the task, so that a stop wakes it.
    pub(crate) fn poll_stop(&self, context: &Context<'_>) -> Option<StopReason> {
        let mut state = self.0.state();
        if state.stop.is_none() {
            state.waker = Some(context.waker().clone());
        }
        state.stop
    }

    /// Reports the result and marks the run as over.
    pub(crate) fn report(self, report: R) {
        self.0.state().report = Some(report);
    }
}

impl<R> Watch<R> {
    pub(crate) fn new() -> Arc<Self> {
        let state = WatchState { stop: None, waker: None, report: None, is_over: false };
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Returns the handle for the run's thread.
    pub(crate) fn thread_handle(self: &Arc<Self>) -> RunningThread<R> {
        RunningThread(Arc::clone(self))
    }

    fn state(&self) -> MutexGuard<'_, WatchState<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the reason if the run was stopped.
    pub(crate) fn stop_reason(&self) -> Option<StopReason> {
        self.state().stop
    }

    /// Stops the run, from any thread. Later reasons are ignored.
    pub(crate) fn stop(&self, why: StopReason) {
        let mut state = self.state();
        state.stop.get_or_insert(why);
        let waker = state.waker.take();
        drop(state);
        self.changed.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Waits until the run ends, and stops it at `deadline`. Once the run is stopped for any reason, calls `cut`
    /// repeatedly until the run ends or `grace` has passed.
    pub(crate) fn wait(&self, deadline: Instant, grace: Duration, cut: impl Fn()) -> MonitorOutcome<R> {
        let mut give_up = None;
        loop {
            let mut state = self.state();
            let wait = match state.stop {
                None => deadline.saturating_duration_since(Instant::now()),
                Some(_) => NUDGE,
            };
            let unchanged = |state: &mut WatchState<R>| !state.is_over && (state.stop.is_none() || give_up.is_some());
            (state, _) =
                self.changed.wait_timeout_while(state, wait, unchanged).unwrap_or_else(PoisonError::into_inner);
            if state.is_over {
                return state.report.take().map_or(MonitorOutcome::Lost, MonitorOutcome::Reported);
            }
            let stop = state.stop;
            drop(state);
            let Some(why) = stop else {
                if Instant::now() >= deadline {
                    self.stop(StopReason::Time);
                }
                continue;
            };
            cut();
            if Instant::now() >= *give_up.get_or_insert_with(|| Instant::now() + grace) {
                return MonitorOutcome::Stuck(why);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, Barrier},
        thread,
        time::{Duration, Instant},
    };

    use super::{MonitorOutcome, StopReason, Watch};

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn watch_ends_on_a_report_or_panic() {
        let watch = Watch::new();
        watch.thread_handle().report(7);
        assert!(matches!(
            watch.wait(Instant::now() + LONG, LONG, || panic!("the run has already ended")),
            MonitorOutcome::Reported(7)
        ));
        let watch = Watch::<u8>::new();
        let running = watch.thread_handle();
        let panicking = thread::spawn(move || {
            let _running = running;
            panic!("expected by the test");
        });
        assert!(panicking.join().is_err());
        assert!(matches!(
            watch.wait(Instant::now() + LONG, LONG, || panic!("the run has already ended")),
            MonitorOutcome::Lost
        ));
    }

    #[test]
    fn late_work_is_interrupted_until_it_ends() {
        for (deadline, why) in [(Duration::ZERO, StopReason::Time), (LONG, StopReason::Cancelled)] {
            let watch = Watch::new();
            let (running, cuts) = (watch.thread_handle(), Arc::new(Barrier::new(2)));
            if why == StopReason::Cancelled {
                watch.stop(StopReason::Cancelled);
                watch.stop(StopReason::Time);
            }
            let seen = Arc::clone(&cuts);
            let thread = thread::spawn(move || {
                // The run ends only after two calls to `cut`.
                seen.wait();
                seen.wait();
                running.report(());
            });
            let cut = std::cell::Cell::new(0);
            let watched = watch.wait(Instant::now() + deadline, LONG, || {
                if cut.replace(cut.get() + 1) < 2 {
                    cuts.wait();
                }
            });
            assert!(matches!(watched, MonitorOutcome::Reported(())));
            assert_eq!(watch.stop_reason(), Some(why));
            thread.join().unwrap();
        }
    }

    #[test]
    fn uninterruptible_work_is_abandoned() {
        let watch = Watch::<()>::new();
        let _running = watch.thread_handle();
        let watched = watch.wait(Instant::now(), Duration::ZERO, || {});
        assert!(matches!(watched, MonitorOutcome::Stuck(StopReason::Time)));
    }
}
