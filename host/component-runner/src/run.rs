//! Runs one call of an export, in a new instance and on a new thread.

use std::{
    future::{Future as _, poll_fn},
    io,
    panic::resume_unwind,
    pin::pin,
    sync::Arc,
    task::Poll,
    thread,
    time::{Duration, Instant},
};

use glovebox::CancelToken;
use wasmtime::{
    Store, UpdateDeadline,
    component::{ComponentExportIndex, InstancePre, Val},
};

use crate::{
    AppLimits, AppOutcome, RunError,
    outcome::{classify, stopped},
    store::StoreState,
    watch::{Running, Watch, Watched, Why},
};

/// Maximum time for a stopped run to end, in addition to the soft-limit reserve of its scripts. A run needs that long
/// only if its thread blocks in a write to a pipe that nothing reads.
const GRACE: Duration = Duration::from_secs(2);

/// Threads for blocking file operations. One application waits for one or two at a time.
const BLOCKING_THREADS: usize = 4;

/// Ticks until the next deadline. The epoch advances only to stop a run.
const NEXT_EPOCH: u64 = 1;

/// An export and the arguments of its call.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) function: ComponentExportIndex,
    pub(crate) arguments: Vec<Val>,
    pub(crate) result_count: usize,
}

/// A call with everything that it needs.
pub(crate) struct Job<S: Send + 'static> {
    pub(crate) instance: InstancePre<StoreState<S>>,
    /// Host memory of the instance in bytes, without linear memories and table elements.
    pub(crate) instance_bytes: u64,
    pub(crate) state: StoreState<S>,
    pub(crate) call: Call,
    pub(crate) limits: AppLimits,
    /// Deadline of the call, if it is earlier than `limits.timeout_ms`.
    pub(crate) deadline: Option<Instant>,
    /// Token of the caller.
    pub(crate) cancel: CancelToken,
    /// Token that stops the application's scripts, and the time that they have left to end.
    pub(crate) scripts: Option<(CancelToken, Duration)>,
}

/// Result and resource usage of a call.
#[derive(Debug)]
pub(crate) struct Done<S> {
    /// Values that the call returned, or the outcome that ended it.
    pub(crate) result: Result<Vec<Val>, AppOutcome>,
    pub(crate) fuel_consumed: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) duration: Duration,
    /// The sandbox. `None` if the thread was left behind.
    pub(crate) sandbox: Option<S>,
}

/// Report of the thread at its end.
struct Report<S> {
    result: Result<Vec<Val>, wasmtime::Error>,
    /// Reason of a stop that came before the end.
    stop: Option<Why>,
    fuel_left: u64,
    memory_bytes: u64,
    refused_bytes: Option<u64>,
    sandbox: S,
}

/// Runs a call and waits for its end.
pub(crate) fn run<S: Send + 'static>(job: Job<S>) -> Result<Done<S>, RunError> {
    let begin = Instant::now();
    let Job { limits, cancel, scripts, .. } = &job;
    let (limits, cancel, scripts) = (limits.clone(), cancel.clone(), scripts.clone());
    let deadline = begin.checked_add(Duration::from_millis(limits.timeout_ms));
    // A timeout that overflows `Instant` cannot be reached.
    let deadline = [deadline, job.deadline].into_iter().flatten().min();
    let deadline = deadline.unwrap_or_else(|| begin + Duration::from_secs(u64::from(u32::MAX)));
    let grace = GRACE + scripts.as_ref().map_or(Duration::ZERO, |(_, last_word)| *last_word);
    let engine = job.instance.engine().clone();

    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .map_err(RunError::Thread)?;
    let watch = Watch::new();
    let (running, epochs) = (watch.running(), Arc::clone(&watch));
    let stopping = Arc::clone(&watch);
    let _cancelled = cancel.on_cancel(move || stopping.stop(Why::Cancelled));
    let thread = thread::Builder::new()
        .name("glovebox-component-runner".into())
        .spawn(move || {
            carry_out(&runtime, job, running, &epochs);
            // Does not wait for background reads and writes.
            runtime.shutdown_background();
        })
        .map_err(RunError::Thread)?;
    let watched = watch.wait(deadline, grace, || {
        if let Some((scripts, _)) = &scripts {
            scripts.cancel();
        }
        engine.increment_epoch();
    });
    let duration = begin.elapsed();
    match watched {
        Watched::Reported(report) => {
            let result = match report.stop {
                // A stopped run was interrupted, whatever it returned.
                Some(why) => Err(stopped(why, &limits, duration)),
                None => report.result.map_err(|error| classify(&error, &limits, report.refused_bytes)),
            };
            Ok(Done {
                result,
                fuel_consumed: limits.fuel.saturating_sub(report.fuel_left),
                memory_bytes: report.memory_bytes,
                duration,
                sandbox: Some(report.sandbox),
            })
        }
        Watched::Stuck(why) => Ok(Done {
            result: Err(stopped(why, &limits, duration)),
            fuel_consumed: 0,
            memory_bytes: 0,
            duration,
            sandbox: None,
        }),
        // A panic in the host is not an outcome of the application.
        Watched::Lost => match thread.join() {
            Err(panic) => resume_unwind(panic),
            Ok(()) => Err(RunError::Thread(io::Error::other("it ended by itself"))),
        },
    }
}

/// An instance would exceed the memory limit.
#[derive(Debug, thiserror::Error)]
#[error("the application's instances exceed its memory limit")]
struct NoRoom;

/// The run was stopped during a wait.
#[derive(Debug, thiserror::Error)]
#[error("the application was stopped")]
struct Stopped;

/// Runs the call on its own thread.
fn carry_out<S: Send + 'static>(
    runtime: &tokio::runtime::Runtime,
    job: Job<S>,
    running: Running<Report<S>>,
    watch: &Arc<Watch<Report<S>>>,
) {
    let Job { instance, instance_bytes, mut state, call, limits, .. } = job;
    let has_room = state.limiter.reserve(instance_bytes);
    let mut store = Store::new(instance.engine(), state);
    store.limiter(|state| &mut state.limiter);
    store.set_hostcall_fuel(limits.lift_bytes);
    store.set_max_component_handles(limits.handles);
    store.set_epoch_deadline(NEXT_EPOCH);
    let epochs = Arc::clone(watch);
    store.epoch_deadline_callback(move |_| match epochs.stop_reason() {
        Some(_) => Ok(UpdateDeadline::Interrupt),
        // The epoch advanced to stop another run of the same engine.
        None => Ok(UpdateDeadline::Continue(NEXT_EPOCH)),
    });
    let result = store.set_fuel(limits.fuel).and_then(|()| {
        if !has_room {
            return Err(NoRoom.into());
        }
        runtime.block_on(async {
            let mut calling = pin!(enter(&mut store, &instance, &call));
            poll_fn(|context| match running.poll_stop(context) {
                Some(_) => Poll::Ready(Err(Stopped.into())),
                None => calling.as_mut().poll(context),
            })
            .await
        })
    });
    let stop = watch.stop_reason();
    let fuel_left = store.get_fuel().unwrap_or_default();
    let StoreState { limiter, sandbox, .. } = store.into_data();
    running.report(Report {
        result,
        stop,
        fuel_left,
        memory_bytes: limiter.memory_bytes(),
        refused_bytes: limiter.refused_bytes(),
        sandbox,
    });
}

async fn enter<S: Send + 'static>(
    store: &mut Store<StoreState<S>>,
    instance: &InstancePre<StoreState<S>>,
    call: &Call,
) -> wasmtime::Result<Vec<Val>> {
    let instance = instance.instantiate_async(&mut *store).await?;
    let function = instance
        .get_func(&mut *store, call.function)
        .ok_or_else(|| wasmtime::Error::msg("the exported function is missing in the component"))?;
    let mut results = vec![Val::Bool(false); call.result_count];
    function.call_async(store, &call.arguments, &mut results).await?;
    Ok(results)
}
