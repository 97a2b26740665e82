//! Converts the engine's errors to the exceptions in `glovebox_sandbox.errors`.

use std::error::Error;

use glovebox::{
    AdvanceError, BuildError, EngineError, ExecuteError, FilesError, HibernateError, NotJson, PolicyError, ResumeError,
    SuspendError, SuspendedBytesError, internal::ErrorClass, with_causes,
};
use pyo3::{exceptions::PyRuntimeError, intern, prelude::*};

/// Creates an exception of the package.
fn exception(class: ErrorClass, message: &str) -> PyErr {
    Python::attach(|py| exception_with(py, class, (message,)))
}

fn exception_with<'py>(py: Python<'py>, class: ErrorClass, arguments: impl pyo3::call::PyCallArgs<'py>) -> PyErr {
    let made = || {
        let errors = py.import(intern!(py, "glovebox_sandbox.errors"))?;
        errors.getattr(format!("{class:?}Error"))?.call1(arguments)
    };
    made().map_or_else(|error| error, PyErr::from_value)
}

/// An error that can be converted to an exception of the package.
pub(crate) trait IntoException: Error + Sized {
    fn exception(self) -> PyErr;
}

/// Assigns a class to each error type. The errors in a variant after `except` keep their own classes.
macro_rules! exceptions {
    ($($error:ty $(, except $session:ident)? => $class:ident;)*) => {$(
        impl IntoException for $error {
            fn exception(self) -> PyErr {
                $(if let Self::$session(error) = self {
                    return error.exception();
                })?
                exception(ErrorClass::$class, &with_causes(&self))
            }
        }
    )*};
}

exceptions! {
    EngineError => Unavailable;
    PolicyError => Policy;
    NotJson => Policy;
    serde_json::Error => Policy;
    FilesError, except Session => Files;
    HibernateError, except Session => Session;
    ResumeError, except Session => Session;
}

impl IntoException for BuildError {
    fn exception(self) -> PyErr {
        exception((&self).into(), &with_causes(&self))
    }
}

impl IntoException for ExecuteError {
    fn exception(self) -> PyErr {
        not_executed(&self)
    }
}

/// Converts the error of an execution that has no result.
fn not_executed(error: &ExecuteError) -> PyErr {
    let class = match error {
        // The engine's message names Rust functions.
        ExecuteError::OtherSession { in_session: true } => {
            return exception(
                ErrorClass::Suspension,
                "the execution was suspended in a session; restore the session with `resume_suspended_session`, and \
                 call its `resume_suspended`",
            );
        }
        ExecuteError::OtherSession { in_session: false } => {
            return exception(
                ErrorClass::Suspension,
                "the execution was suspended outside a session; resume it with `Sandbox.resume_suspended`",
            );
        }
        ExecuteError::Commit { .. } => ErrorClass::Files,
        error => error.into(),
    };
    exception(class, &with_causes(error))
}

impl IntoException for AdvanceError {
    fn exception(self) -> PyErr {
        match self {
            Self::Execute(error) => not_executed(&error),
            Self::Panicked => PyRuntimeError::new_err("the engine panicked; this is a bug in Glovebox"),
            error => exception(ErrorClass::Policy, &with_causes(&error)),
        }
    }
}

impl IntoException for SuspendError {
    fn exception(self) -> PyErr {
        match self {
            // The engine's messages for these two variants name Rust functions.
            Self::Running => exception(
                ErrorClass::Suspension,
                "the script no longer waits for answers; call `answer()` to wait until it ends or needs more answers",
            ),
            Self::Ended => exception(ErrorClass::Suspension, "the execution has ended; get its result with `answer()`"),
            error => exception(ErrorClass::Suspension, &with_causes(&error)),
        }
    }
}

impl IntoException for SuspendedBytesError {
    fn exception(self) -> PyErr {
        match self {
            Self::KeyMissing => exception(
                ErrorClass::Suspension,
                "the suspended execution is sealed with a key; resume it from Rust or with `glovebox resume`",
            ),
            error => exception(ErrorClass::Suspension, &with_causes(&error)),
        }
    }
}

/// Creates the exception for a script whose files could not be committed to the host.
pub(crate) fn not_committed<'py>(py: Python<'py>, message: &str, execution: impl IntoPyObject<'py>) -> PyErr {
    exception_with(py, ErrorClass::Commit, (message, execution))
}

fn forked() -> PyErr {
    exception(
        ErrorClass::Unavailable,
        "this sandbox was created before the process forked, and its threads do not exist in the child; create a new sandbox",
    )
}

/// A value that owns threads. It is unusable in a forked child, because a child does not inherit threads.
pub(crate) struct ProcessOwned<T> {
    pub(crate) value: T,
    process: u32,
}

impl<T> ProcessOwned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value, process: std::process::id() }
    }

    /// Returns the value. Fails in a forked child.
    pub(crate) fn get(&self) -> PyResult<&T> {
        if self.process == std::process::id() { Ok(&self.value) } else { Err(forked()) }
    }
}
