//! The input and result of an execution for Python: requests, cancellation tokens, and tools implemented in Python.

use std::time::Duration;

use glovebox::{
    CancelToken, Display, ExecuteError, Execution, FileEntry, JsonText, Request, SourceKind, Started, Tool, ToolError,
    internal::tool_answer, with_causes,
};
use pyo3::{
    prelude::*,
    pybacked::{PyBackedBytes, PyBackedStr},
    types::PyBytes,
};

use crate::{
    error::{IntoException, not_committed},
    interrupt::{Event, deliver, interruptible, run_attended},
    started::PyStarted,
};

/// A file's path, kind, size in bytes, and modification time in nanoseconds since 1970.
pub(crate) type Entry = (String, &'static str, u64, u64);

/// A display: `true` for a result, and the media type and bytes of each form.
type DisplayTuple<'py> = (bool, Vec<(String, Bound<'py, PyBytes>)>);

pub(crate) fn entry(entry: FileEntry) -> Entry {
    (entry.path, entry.kind.name(), entry.size_bytes, entry.modified_ns)
}

/// An execution's outcome, output, resource use and changes. Rarely used fields are only in `json`.
#[pyclass(frozen, module = "glovebox_sandbox._native", name = "Execution")]
pub(crate) struct PyExecution {
    execution: Execution,
    displays: Vec<Display>,
}

impl From<Execution> for PyExecution {
    fn from(mut execution: Execution) -> Self {
        let displays = std::mem::take(&mut execution.displays);
        Self { execution, displays }
    }
}

#[pymethods]
impl PyExecution {
    #[getter]
    fn ok(&self) -> bool {
        self.execution.is_success()
    }

    #[getter]
    fn stdout(&self) -> String {
        self.execution.stdout.text()
    }

    #[getter]
    fn stderr(&self) -> String {
        self.execution.stderr.text()
    }

    #[getter]
    fn stdout_bytes(&self) -> &[u8] {
        &self.execution.stdout.bytes
    }

    #[getter]
    fn stderr_bytes(&self) -> &[u8] {
        &self.execution.stderr.bytes
    }

    #[getter]
    fn fuel_consumed(&self) -> u64 {
        self.execution.fuel_consumed
    }

    #[getter]
    fn value(&self) -> Option<(&str, Option<&str>)> {
        self.execution.value.as_ref().map(|value| (&*value.repr, value.json.as_deref()))
    }

    /// Returns the displays: `true` for a result, and the media type and bytes of each form.
    #[getter]
    fn displays<'py>(&self, py: Python<'py>) -> Vec<DisplayTuple<'py>> {
        let displays = self.displays.iter();
        let forms = |Display { forms, .. }: &Display| {
            forms.iter().map(|form| (form.media_type.clone(), PyBytes::new(py, &form.data))).collect()
        };
        displays.map(|display| (display.is_result, forms(display))).collect()
    }

    /// Returns the whole execution except its displays, as JSON text.
    fn json(&self) -> PyResult<String> {
        serde_json::to_string(&self.execution).map_err(IntoException::exception)
    }

    /// Lists the workspace files that match a pattern.
    fn list_files(&self, py: Python<'_>, pattern: &str) -> PyResult<Vec<Entry>> {
        let files = py.detach(|| self.execution.files().list(pattern)).map_err(IntoException::exception)?;
        Ok(files.into_iter().map(entry).collect())
    }

    /// Reads a workspace file. `path` is relative to `/app`.
    fn read_file<'py>(&self, py: Python<'py>, path: &str) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.execution.files().read(path)).map_err(IntoException::exception)?;
        Ok(PyBytes::new(py, &bytes))
    }
}

/// The input of one execution: source, name, kind of source, standard input, context as JSON text, timeout in
/// milliseconds, output listener and cancellation token.
#[derive(FromPyObject)]
pub(crate) struct Input(
    PyBackedStr,
    Option<PyBackedStr>,
    Option<PyBackedStr>,
    Option<PyBackedBytes>,
    Option<PyBackedStr>,
    Option<u64>,
    Option<Py<PyAny>>,
    Option<Py<PyCancelToken>>,
);

impl Input {
    pub(crate) fn request<'a>(&'a self, token: &'a CancelToken) -> PyResult<Request<'a>> {
        let Self(source, name, kind, stdin, context, timeout_ms, _, _) = self;
        let mut request = Request::new(source).cancel(token);
        if let Some(name) = name {
            request = request.name(name);
        }
        if let Some(kind) = kind {
            request = request.kind(match &**kind {
                "script" => SourceKind::Script,
                "module" => SourceKind::Module,
                _ => SourceKind::Detect,
            });
        }
        if let Some(stdin) = stdin {
            request = request.stdin(stdin);
        }
        if let Some(context) = context {
            request = request.context_text(JsonText::new(&**context).map_err(IntoException::exception)?);
        }
        if let Some(timeout_ms) = timeout_ms {
            request = request.cancel_after(Duration::from_millis(*timeout_ms));
        }
        Ok(request)
    }

    /// Returns the token that cancels the execution.
    fn token(&self) -> CancelToken {
        let Self(.., token) = self;
        cancel_token(token.as_ref())
    }

    /// Starts the input as a request that can be suspended. Each step receives the output listener.
    pub(crate) fn start(
        &self,
        py: Python<'_>,
        start: impl FnOnce(Request<'_>) -> Result<Started, ExecuteError> + Send,
    ) -> PyResult<PyStarted> {
        let token = self.token();
        let request = self.request(&token)?.suspendable(true);
        let Self(.., listener, _) = self;
        PyStarted::begin(py, token.clone(), request, listener.is_some(), start)
    }

    /// Executes the input as a request: on this thread, or on another thread if a listener receives the output.
    pub(crate) fn execute(
        &self,
        py: Python<'_>,
        run: impl FnOnce(Request<'_>) -> Result<Execution, ExecuteError> + Send,
    ) -> PyResult<PyExecution> {
        let token = self.token();
        let request = self.request(&token)?;
        let Self(.., listener, _) = self;
        let executed = match listener {
            None => interruptible(py, &token, move || run(request))?,
            Some(listener) => {
                let attend = |event| deliver(py, listener, event);
                run_attended(py, &token, attend, move |events| {
                    run(request.on_output(move |stream, bytes| {
                        // Cannot fail: `run_attended` receives until its work has ended.
                        let _ = events.send(Event::Output(stream, bytes.to_vec()));
                    }))
                })?
            }
        };
        match executed {
            Ok(execution) => Ok(execution.into()),
            Err(error) => {
                let message = with_causes(&error);
                match error {
                    ExecuteError::Commit { execution, .. } => {
                        Err(not_committed(py, &message, PyExecution::from(*execution)))
                    }
                    error => Err(error.exception()),
                }
            }
        }
    }
}

/// A tool: name, description, schema as JSON text, and function. The function receives the arguments as JSON text and
/// the call's token, and returns the arguments of [`tool_answer`]. Without a function, the caller of `start` answers
/// the calls.
#[derive(FromPyObject)]
pub(crate) struct ToolInput(String, String, String, Option<Py<PyAny>>);

impl ToolInput {
    pub(crate) fn tool(self) -> PyResult<Tool> {
        let Self(name, description, schema, answer) = self;
        let schema = serde_json::from_str(&schema).map_err(IntoException::exception)?;
        let tool = Tool::new(name, description).schema(schema);
        let Some(answer) = answer else { return Ok(tool.stepped()) };
        let handler = move |call: &glovebox::ToolCall, arguments: String| {
            let answered = Python::try_attach(|py| {
                let token = PyCancelToken(call.cancel.clone());
                let (kind, text) = answer.call1(py, (arguments, token))?.extract::<(PyBackedStr, PyBackedStr)>(py)?;
                Ok(tool_answer(&kind, text.to_string()))
            });
            match answered {
                Some(Ok(answer)) => answer,
                Some(Err(error)) => Err(raised(&error)),
                None => Err(ToolError::new("the process is exiting")),
            }
        };
        Ok(tool.text_handler(handler))
    }
}

/// Converts an exception from a tool's function. The package's Python code catches every `Exception`, so only another
/// `BaseException`, such as `KeyboardInterrupt`, reaches this function.
fn raised(error: &PyErr) -> ToolError {
    ToolError::new(Python::attach(|py| error.value(py).to_string()))
}

/// Returns the token that Python passed, or a new one.
pub(crate) fn cancel_token(token: Option<&Py<PyCancelToken>>) -> CancelToken {
    token.map(|token| token.get().0.clone()).unwrap_or_default()
}

/// A cancellation token for any number of executions. Any thread can cancel it.
#[pyclass(frozen, module = "glovebox_sandbox._native", name = "CancelToken")]
pub(crate) struct PyCancelToken(pub(crate) CancelToken);

#[pymethods]
impl PyCancelToken {
    #[new]
    fn new() -> Self {
        Self(CancelToken::new())
    }

    fn cancel(&self, py: Python<'_>) {
        py.detach(|| self.0.cancel());
    }

    #[getter]
    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}
