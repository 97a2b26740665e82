//! Executions whose tool calls Python answers, and their suspension.

use std::{sync::Arc, time::Duration};

use glovebox::{
    AdvanceError, CancelToken, ExecuteError, Request, Started, Step, Stream, Suspended, ToolAnswer, ToolRequest,
    internal::{OutputRelay, tool_answer},
    with_causes,
};
use pyo3::{
    prelude::*,
    pybacked::{PyBackedBytes, PyBackedStr},
    types::PyBytes,
};

use crate::{
    error::{IntoException, ProcessOwned, not_committed},
    execution::{PyCancelToken, PyExecution, cancel_token},
    interrupt::{Event, deliver, interruptible, run_attended},
};

/// A waiting tool call: ID, name of the tool, and arguments as JSON text.
pub(crate) type WaitingCall = (u64, String, String);

fn waiting(ToolRequest { id, name, arguments, .. }: ToolRequest) -> WaitingCall {
    (id, name, arguments)
}

/// Reads a suspended execution.
pub(crate) fn suspended(py: Python<'_>, state: &PyBackedBytes) -> PyResult<Suspended> {
    py.detach(|| Suspended::from_bytes(state, None)).map_err(IntoException::exception)
}

/// Returns the calls that a suspended execution waits for.
pub(crate) fn waiting_calls(suspended: &Suspended) -> Vec<WaitingCall> {
    suspended.tool_requests().into_iter().map(waiting).collect()
}

/// The input of a resumed execution: the bytes of the suspended execution, timeout in milliseconds, `true` if the steps
/// receive an output listener, and cancellation token.
#[derive(FromPyObject)]
pub(crate) struct SuspendedInput(PyBackedBytes, Option<u64>, bool, Option<Py<PyCancelToken>>);

impl SuspendedInput {
    /// Restarts the suspended execution. Its first step repeats the script until it waits for the same calls.
    pub(crate) fn start(
        &self,
        py: Python<'_>,
        start: impl FnOnce(Request<'_>) -> Result<Started, ExecuteError> + Send,
    ) -> PyResult<PyStarted> {
        let Self(state, timeout_ms, is_heard, token) = self;
        let token = cancel_token(token.as_ref());
        let suspended = suspended(py, state)?;
        let mut request = suspended.request().cancel(&token);
        if let Some(timeout_ms) = timeout_ms {
            request = request.cancel_after(Duration::from_millis(*timeout_ms));
        }
        PyStarted::begin(py, token.clone(), request, *is_heard, start)
    }
}

/// An execution that the caller advances from one wait to the next. The execution is cancelled when Python drops it.
#[pyclass(frozen, module = "glovebox_sandbox._native", name = "Started")]
pub(crate) struct PyStarted {
    started: ProcessOwned<Started>,
    /// The cancellation token of the request. Ctrl-C cancels it.
    token: CancelToken,
    /// The output to pass to the next step's listener. Empty if there is no listener.
    output: Arc<OutputRelay>,
}

impl PyStarted {
    /// Starts a request. If `is_heard` is true, keeps its output for the listener of [`advance`](Self::advance).
    pub(crate) fn begin(
        py: Python<'_>,
        token: CancelToken,
        mut request: Request<'_>,
        is_heard: bool,
        start: impl FnOnce(Request<'_>) -> Result<Started, ExecuteError> + Send,
    ) -> PyResult<Self> {
        let output = Arc::<OutputRelay>::default();
        if is_heard {
            let output = Arc::clone(&output);
            request = request.on_output(move |stream, bytes| output.pass_on(stream, bytes));
        }
        let started = interruptible(py, &token, move || start(request))?.map_err(IntoException::exception)?;
        Ok(Self { started: ProcessOwned::new(started), token, output })
    }
}

#[pymethods]
impl PyStarted {
    /// Passes answers to the script, and waits until it ends or needs more answers. Returns the execution or the
    /// waiting calls. An answer is the ID of the call, `returned`, `failed` or `denied`, and the result as JSON text or
    /// the text of the failure.
    ///
    /// `listener` is called on this thread with new output. It is an argument rather than a field, because Python's
    /// garbage collector cannot see references in fields.
    #[pyo3(signature = (answers, listener))]
    fn advance(
        &self,
        py: Python<'_>,
        answers: Vec<(u64, PyBackedStr, String)>,
        listener: Option<Py<PyAny>>,
    ) -> PyResult<(Option<PyExecution>, Vec<WaitingCall>)> {
        let started = self.started.get()?;
        let answers: Vec<ToolAnswer> =
            answers.into_iter().map(|(id, kind, text)| ToolAnswer { id, answer: tool_answer(&kind, text) }).collect();
        let step = match listener {
            None => interruptible(py, &self.token, move || started.advance(answers, None))?,
            Some(listener) => {
                let output = &self.output;
                let attend = |event| deliver(py, &listener, event);
                run_attended(py, &self.token, attend, move |events| {
                    let _step = output.begin_step(move |stream, bytes| {
                        // Cannot fail: `run_attended` receives until the step has ended.
                        let _ = events.send(Event::Output(stream, bytes.to_vec()));
                    });
                    started.advance(answers, None)
                })?
            }
        };
        match step {
            Ok(Step::Done(execution)) => Ok((Some(Arc::unwrap_or_clone(execution).into()), Vec::new())),
            Ok(Step::NeedsTools(calls)) => Ok((None, calls.into_iter().map(waiting).collect())),
            // Unreachable: only a wait with a timeout can end while the script runs.
            Ok(Step::Running) => Ok((None, Vec::new())),
            Err(error) => {
                if let AdvanceError::Execute(cause) = &error
                    && let ExecuteError::Commit { execution, .. } = &**cause
                {
                    let execution = PyExecution::from((**execution).clone());
                    return Err(not_committed(py, &with_causes(&error), execution));
                }
                Err(error.exception())
            }
        }
    }

    /// Suspends the execution, and returns it as bytes.
    fn suspend<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let started = self.started.get()?;
        let bytes = py.detach(|| started.suspend().map(|suspended| suspended.to_bytes(None)));
        Ok(PyBytes::new(py, &bytes.map_err(IntoException::exception)?))
    }

    /// Returns the output that the script has written to a stream so far.
    fn output<'py>(&self, py: Python<'py>, is_stderr: bool) -> PyResult<Bound<'py, PyBytes>> {
        let stream = if is_stderr { Stream::Stderr } else { Stream::Stdout };
        let started = self.started.get()?;
        let bytes = py.detach(|| started.read_output(stream, 0, u64::MAX));
        Ok(PyBytes::new(py, &bytes))
    }
}
