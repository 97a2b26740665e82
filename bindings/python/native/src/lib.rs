//! The native module of the Python package `glovebox-sandbox`: `glovebox_sandbox._native`.
//!
//! The module is private to the package, whose Python code defines the public API. Script values are passed as JSON
//! text, which only the Python code converts.
//!
//! | module | contents |
//! |---|---|
//! | `interrupt` | Ctrl-C handling while a guest runs; guests on a separate thread while the caller runs callbacks |
//! | `sandbox` | the engine, sandboxes and sessions |
//! | `execution` | the input of an execution, with its tools and its cancellation token, and its result |
//! | `started` | executions whose tool calls Python answers, their output and their suspension |
//! | `error` | the conversion of the engine's errors to the package's exceptions |

mod error;
mod execution;
mod interrupt;
mod sandbox;
mod started;

use std::{ffi::OsString, path::PathBuf};

use pyo3::prelude::*;

/// Runs a `glovebox` command line and exits the process.
#[pyfunction]
fn command(py: Python<'_>, args: Vec<OsString>, program: PathBuf) {
    // Releases the GIL, so that Python's other threads do not deadlock with this thread.
    py.detach(|| std::process::exit(glovebox_cli::command(args, program)))
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<sandbox::PyEngine>()?;
    module.add_class::<sandbox::PySandbox>()?;
    module.add_class::<sandbox::PySession>()?;
    module.add_class::<started::PyStarted>()?;
    module.add_class::<execution::PyExecution>()?;
    module.add_class::<execution::PyCancelToken>()?;
    module.add_function(wrap_pyfunction!(command, module)?)
}
