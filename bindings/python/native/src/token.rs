//! A cancellation token, for Python.

use glovebox::CancelToken;
use pyo3::prelude::*;

/// Cancels the executions that use it, from any thread.
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
