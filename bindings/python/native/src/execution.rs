//! The result of an execution, for Python.

use glovebox::{Display, Execution, FileEntry, FileKind};
use pyo3::{prelude::*, types::PyBytes};

use crate::error::IntoException;

/// A file's path, kind, size in bytes, and modification time in nanoseconds since 1970.
pub(crate) type Entry = (String, &'static str, u64, u64);

/// A display: true for a result, and the media type and bytes of each form.
type Shown<'py> = (bool, Vec<(String, Bound<'py, PyBytes>)>);

/// Converts a file entry.
pub(crate) fn entry(entry: FileEntry) -> Entry {
    let kind = match entry.kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
    };
    (entry.path, kind, entry.size_bytes, entry.modified_ns)
}

/// The outcome, output, resource use and changes of an execution. Rarely used fields are in `json`.
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

    /// The displays: true for a result, and the media type and bytes of each form.
    #[getter]
    fn displays<'py>(&self, py: Python<'py>) -> Vec<Shown<'py>> {
        let displays = self.displays.iter();
        let forms = |Display { forms, .. }: &Display| {
            forms.iter().map(|form| (form.media_type.clone(), PyBytes::new(py, &form.data))).collect()
        };
        displays.map(|display| (display.is_result, forms(display))).collect()
    }

    /// All of the execution except its displays, as JSON text.
    fn json(&self) -> PyResult<String> {
        serde_json::to_string(&self.execution).map_err(IntoException::exception)
    }

    /// Lists the workspace's files that match a pattern.
    fn list_files(&self, py: Python<'_>, pattern: &str) -> PyResult<Vec<Entry>> {
        let files = py.detach(|| self.execution.files().list(pattern)).map_err(IntoException::exception)?;
        Ok(files.into_iter().map(entry).collect())
    }

    /// Reads a file of the workspace.
    fn read_file<'py>(&self, py: Python<'py>, path: &str) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.execution.files().read(path)).map_err(IntoException::exception)?;
        Ok(PyBytes::new(py, &bytes))
    }
}
