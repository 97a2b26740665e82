//! Executions whose tool calls JavaScript answers, and their suspension.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use glovebox::{
    CancelToken, ExecuteError, Request, Started, Step, Stream, SuspendError, Suspended, ToolAnswer,
    internal::{OutputRelay, tool_answer},
};
use napi::bindgen_prelude::Buffer;
use napi_derive::napi;

use crate::{
    error::EngineFailure,
    execution::{Event, ExecutionEvents, NativePort, timeout},
    threads::{Callback, start},
};

/// An answer to a tool call.
#[napi(object, object_to_js = false)]
pub struct NativeAnswer {
    /// The ID of the call.
    pub call: u32,
    /// `returned`, `denied` or `failed`.
    pub kind: String,
    /// The result as JSON text, or the message of the failure.
    pub text: String,
}

impl From<NativeAnswer> for ToolAnswer {
    fn from(NativeAnswer { call, kind, text }: NativeAnswer) -> Self {
        Self { id: call.into(), answer: tool_answer(&kind, text) }
    }
}

/// A suspended execution, and the options of the request that resumes it.
#[napi(object, object_to_js = false)]
pub struct NativeSuspended {
    /// The bytes of the suspended execution.
    pub state: Buffer,
    /// Milliseconds after which the execution is cancelled.
    pub timeout_ms: Option<f64>,
    /// True if JavaScript has an output listener.
    pub is_heard: bool,
}

/// A `NativeSuspended` in types that can be sent to another thread.
pub(crate) struct SuspendedInput {
    state: Vec<u8>,
    timeout: Option<Duration>,
    is_heard: bool,
    token: CancelToken,
}

impl SuspendedInput {
    pub(crate) fn new(NativeSuspended { state, timeout_ms, is_heard }: NativeSuspended, token: CancelToken) -> Self {
        Self { state: state.to_vec(), timeout: timeout(timeout_ms), is_heard, token }
    }

    /// Reads the bytes of the suspended execution.
    pub(crate) fn suspended(&self) -> Result<Suspended, EngineFailure> {
        Ok(Suspended::from_bytes(&self.state, None)?)
    }
}

/// An execution that the caller advances from one wait to the next.
#[derive(Default)]
pub(crate) struct SteppedExecution {
    /// The execution; `None` before the start and after JavaScript has received the result.
    started: Mutex<Option<Arc<Started>>>,
    output: Arc<OutputRelay>,
}

impl SteppedExecution {
    fn started(&self) -> MutexGuard<'_, Option<Arc<Started>>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a request with `start`. Returns when the script has ended or waits for answers.
    pub(crate) fn start(
        &self,
        mut request: Request<'_>,
        is_heard: bool,
        events: &ExecutionEvents,
        start: impl FnOnce(Request<'_>) -> Result<Started, ExecuteError>,
    ) -> Result<Event, EngineFailure> {
        if is_heard {
            // The listener owns only the relay, not the execution, so that the execution ends when JavaScript drops it.
            let output = Arc::clone(&self.output);
            request = request.on_output(move |stream, bytes| output.pass_on(stream, bytes));
        }
        let started = start(request)?;
        *self.started() = Some(Arc::new(started));
        self.advance(Vec::new(), events)
    }

    /// Restarts a suspended execution with `start`. Returns when the script waits for the same calls.
    pub(crate) fn resume(
        &self,
        suspended: &Suspended,
        input: &SuspendedInput,
        events: &ExecutionEvents,
        start: impl FnOnce(Request<'_>) -> Result<Started, ExecuteError>,
    ) -> Result<Event, EngineFailure> {
        let mut request = suspended.request().cancel(&input.token);
        if let Some(timeout) = input.timeout {
            request = request.cancel_after(timeout);
        }
        self.start(request, input.is_heard, events, start)
    }

    /// Passes answers to the script. Returns when the script has ended or waits for further answers.
    fn advance(&self, answers: Vec<ToolAnswer>, events: &ExecutionEvents) -> Result<Event, EngineFailure> {
        let Some(started) = self.started().clone() else { return Err(SuspendError::Ended.into()) };
        let receiver = events.clone();
        let relayed = self.output.begin_step(move |stream, bytes| receiver.output(stream, bytes));
        let step = started.advance(answers, None);
        drop(relayed);
        match step? {
            Step::NeedsTools(calls) => Ok(Event::Waits(calls)),
            Step::Done(execution) => {
                // Drops the handles first. They share the execution, so `unwrap_or_clone` would otherwise copy it.
                drop(started);
                *self.started() = None;
                Ok(Event::Done(Arc::unwrap_or_clone(execution).into()))
            }
            // Unreachable: only a wait with a timeout can end while the script runs.
            Step::Running => Err(EngineFailure::panicked()),
        }
    }

    fn suspend(&self) -> Result<Vec<u8>, EngineFailure> {
        let Some(started) = self.started().clone() else { return Err(SuspendError::Ended.into()) };
        Ok(started.suspend()?.to_bytes(None))
    }

    fn output(&self, stream: Stream) -> String {
        let bytes = self.started().as_ref().map(|started| started.read_output(stream, 0, u64::MAX));
        String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
    }
}

/// A started execution. The execution is cancelled when JavaScript drops it.
#[napi]
pub struct NativeStarted(Arc<SteppedExecution>);

impl NativeStarted {
    /// Runs the first step on another thread.
    pub(crate) fn begin(
        port: &NativePort,
        execution: u32,
        work: impl FnOnce(&SteppedExecution, &ExecutionEvents) -> Result<Event, EngineFailure> + Send + 'static,
    ) -> Self {
        let stepped = Arc::new(SteppedExecution::default());
        let first = Arc::clone(&stepped);
        port.start(execution, move |events| work(&first, events));
        Self(stepped)
    }
}

#[napi]
impl NativeStarted {
    /// Standard output so far, as text. Empty after the script has ended.
    #[napi(getter)]
    pub fn stdout(&self) -> String {
        self.0.output(Stream::Stdout)
    }

    /// Standard error so far, as text. Empty after the script has ended.
    #[napi(getter)]
    pub fn stderr(&self) -> String {
        self.0.output(Stream::Stderr)
    }

    /// Passes answers to the script. The last event contains the result, or the calls that the script waits for.
    #[napi]
    pub fn advance(&self, answers: Vec<NativeAnswer>, port: &NativePort, execution: u32) {
        let stepped = Arc::clone(&self.0);
        let answers: Vec<ToolAnswer> = answers.into_iter().map(Into::into).collect();
        port.start(execution, move |events| stepped.advance(answers, events));
    }

    /// Suspends the execution, and returns it as bytes.
    #[napi]
    pub fn suspend(&self, callback: Callback<'_, Buffer>) -> napi::Result<()> {
        let stepped = Arc::clone(&self.0);
        start(&callback, move |_| Ok(stepped.suspend()?.into()))
    }
}
