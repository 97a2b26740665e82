//! The input of an execution from Python.

use std::time::Duration;

use glovebox::{CancelToken, ExecuteError, Execution, JsonText, Request, SourceKind, with_causes};
use pyo3::{
    prelude::*,
    pybacked::{PyBackedBytes, PyBackedStr},
    types::PyBytes,
};

use crate::{
    attended::{Event, attended},
    error::{IntoException, not_committed},
    execution::PyExecution,
    interrupt::interruptible,
    token::PyCancelToken,
};

/// The input of one execution: source, name, kind of source, standard input, context as JSON text, milliseconds until
/// the execution is cancelled, output listener, token.
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

    /// Executes the request on this thread, or on a thread of its own if a listener receives the output.
    pub(crate) fn execute(
        &self,
        py: Python<'_>,
        run: impl FnOnce(Request<'_>) -> Result<Execution, ExecuteError> + Send,
    ) -> PyResult<PyExecution> {
        let token = self.7.as_ref().map(|token| token.get().0.clone()).unwrap_or_default();
        let request = self.request(&token)?;
        let executed = match &self.6 {
            None => interruptible(py, &token, move || run(request))?,
            Some(listener) => {
                let attend = |event| match event {
                    Event::Output(stream, bytes) => {
                        let is_stderr = matches!(stream, glovebox::Stream::Stderr);
                        listener.call1(py, (is_stderr, PyBytes::new(py, &bytes))).map(drop)
                    }
                    Event::Progress(_) => Ok(()),
                };
                attended(py, &token, attend, move |events| {
                    run(request.on_output(move |stream, bytes| {
                        // The send fails while the execution is being cancelled. No listener is left then.
                        let _ = events.send(Event::Output(stream, bytes.to_vec()));
                    }))
                })?
            }
        };
        match executed {
            Ok(execution) => Ok(execution.into()),
            Err(error) => {
                let said = with_causes(&error);
                match error {
                    ExecuteError::Commit { execution, .. } => {
                        Err(not_committed(py, &said, PyExecution::from(*execution)))
                    }
                    error => Err(error.exception()),
                }
            }
        }
    }
}
