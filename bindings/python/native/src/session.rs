//! A session, for Python.

use glovebox::{CheckpointId, ExecuteError, HibernateOptions, IfExists, JsonText, Session, SessionOptions};
use pyo3::{
    prelude::*,
    pybacked::{PyBackedBytes, PyBackedStr},
    types::PyBytes,
};

use crate::{
    error::{IntoException, forked},
    execution::{Entry, Input, PyExecution, entry},
};

/// An interpreter that persists between executions.
#[pyclass(frozen, module = "glovebox_sandbox._native", name = "Session")]
pub(crate) struct PySession {
    session: Session,
    process: u32,
}

impl PySession {
    pub(crate) fn new(session: Session, process: u32) -> Self {
        Self { session, process }
    }

    /// Returns the session. Fails in a forked child, which has none of the session's threads.
    fn here(&self) -> PyResult<&Session> {
        if self.process == std::process::id() { Ok(&self.session) } else { Err(forked()) }
    }

    /// Runs an operation of the session without Python's lock.
    fn ask<T: Send, E: IntoException + Send>(
        &self,
        py: Python<'_>,
        ask: impl FnOnce(&Session) -> Result<T, E> + Send,
    ) -> PyResult<T> {
        let session = self.here()?;
        py.detach(|| ask(session)).map_err(IntoException::exception)
    }
}

#[pymethods]
impl PySession {
    #[getter]
    fn id(&self) -> &str {
        self.session.id()
    }

    #[getter]
    fn ended(&self) -> PyResult<Option<String>> {
        Ok(self.here()?.ended())
    }

    fn execute(&self, py: Python<'_>, input: Input) -> PyResult<PyExecution> {
        let session = self.here()?;
        input.execute(py, |request| session.run(request))
    }

    fn get_variable(&self, py: Python<'_>, name: &str) -> PyResult<Option<(String, Option<String>)>> {
        let value = self.ask(py, |session| session.get_variable(name))?;
        Ok(value.map(|value| (value.repr, value.json)))
    }

    fn set_variable(&self, py: Python<'_>, name: &str, json: &str) -> PyResult<()> {
        let json = JsonText::new(json).map_err(IntoException::exception)?;
        self.ask(py, |session| session.set_variable_text(name, &json))
    }

    fn list_files(&self, py: Python<'_>, pattern: &str) -> PyResult<Vec<Entry>> {
        let files = self.ask(py, |session| session.files().list(pattern))?;
        Ok(files.into_iter().map(entry).collect())
    }

    fn read_file<'py>(&self, py: Python<'py>, path: &str) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.ask(py, |session| session.files().read(path))?;
        Ok(PyBytes::new(py, &bytes))
    }

    fn write_file(&self, py: Python<'_>, path: &str, contents: PyBackedBytes) -> PyResult<()> {
        self.ask(py, |session| session.files().write(path, &contents, IfExists::Replace))
    }

    fn delete_file(&self, py: Python<'_>, path: &str, recursive: bool) -> PyResult<()> {
        self.ask(py, |session| if recursive { session.files().delete_all(path) } else { session.files().delete(path) })
    }

    #[pyo3(signature = (id, context))]
    fn fork(&self, py: Python<'_>, id: Option<String>, context: Option<PyBackedStr>) -> PyResult<Self> {
        let mut options = SessionOptions::default();
        options.id = id;
        if let Some(context) = context {
            options.context = Some(JsonText::new(&*context).map_err(IntoException::exception)?);
        }
        let session = self.ask(py, |session| session.fork_with(options))?;
        Ok(Self::new(session, self.process))
    }

    fn checkpoint(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.ask(py, Session::checkpoint)?.0)
    }

    /// The checkpoints, as JSON text.
    fn checkpoints(&self, py: Python<'_>) -> PyResult<String> {
        let checkpoints = self.ask(py, Session::checkpoints)?;
        serde_json::to_string(&checkpoints).map_err(IntoException::exception)
    }

    #[pyo3(signature = (checkpoint))]
    fn undo(&self, py: Python<'_>, checkpoint: Option<u64>) -> PyResult<u64> {
        let undone = self.ask(py, |session| match checkpoint {
            None => session.undo(),
            Some(id) => session.undo_to(CheckpointId(id)).map(|()| CheckpointId(id)),
        })?;
        Ok(undone.0)
    }

    fn hibernate<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.ask(py, |session| session.hibernate(&HibernateOptions::default()))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The session's description, as JSON text.
    fn info(&self) -> PyResult<String> {
        serde_json::to_string(&self.here()?.info()).map_err(IntoException::exception)
    }

    /// Ends the session. Has no effect on a session that has ended.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.ask(py, |session| match session.close() {
            Err(ExecuteError::SessionEnded { .. }) => Ok(()),
            closed => closed,
        })
    }
}
