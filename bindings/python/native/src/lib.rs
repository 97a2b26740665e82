//! The native module of the Python package `glovebox-sandbox`: `glovebox_sandbox._native`.
//!
//! It is private to the package, whose Python says what users see. Values cross as strings, bytes and JSON text, so that there is one
//! place that turns them into Python's: `glovebox_sandbox`.
//!
//! | module | what is in it |
//! |---|---|
//! | `attended` | work on another thread while the caller's attends to Python's callbacks and signals |
//! | `interrupt` | Ctrl-C while the caller's own thread runs a guest |
//! | `engine`, `sandbox`, `session`, `execution`, `token` | the classes |
//! | `input`, `tool` | what Python gives for an execution, and for a tool |
//! | `error` | the package's exceptions for the engine's errors |

mod attended;
mod engine;
mod error;
mod execution;
mod input;
mod interrupt;
mod sandbox;
mod session;
mod token;
mod tool;

use std::{ffi::OsString, path::PathBuf};

use pyo3::prelude::*;

/// Does what a command line of `glovebox` says, and ends the process.
#[pyfunction]
fn command(py: Python<'_>, args: Vec<OsString>, program: PathBuf) {
    // Threads of the interpreter must not be left waiting for this one, nor it for them.
    py.detach(|| std::process::exit(glovebox_cli::command(args, program)))
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<engine::PyEngine>()?;
    module.add_class::<sandbox::PySandbox>()?;
    module.add_class::<session::PySession>()?;
    module.add_class::<execution::PyExecution>()?;
    module.add_class::<token::PyCancelToken>()?;
    module.add_function(wrap_pyfunction!(command, module)?)
}
