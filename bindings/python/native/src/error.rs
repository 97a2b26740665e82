//! Converts the engine's errors to the exceptions in `glovebox_sandbox.errors`.

use std::error::Error;

use glovebox::{
    AdvanceError, BuildError, EngineError, ExecuteError, FilesError, HibernateError, NotJson, PolicyError, ResumeError,
    SuspendError, SuspendedBytesError, with_causes,
};
use pyo3::{exceptions::PyRuntimeError, intern, prelude::*};

/// An exception class. Its name in Python is the variant's name followed by `Error`.
#[derive(Clone, Copy, Debug)]
enum Class {
    Policy,
    Unavailable,
    Session,
    Files,
    Commit,
    Suspension,
}

impl Class {
    fn exception(self, message: &str) -> PyErr {
        Python::attach(|py| self.with(py, (message,)))
    }

    fn with<'py>(self, py: Python<'py>, arguments: impl pyo3::call::PyCallArgs<'py>) -> PyErr {
        let made = || {
            let errors = py.import(intern!(py, "glovebox_sandbox.errors"))?;
            errors.getattr(format!("{self:?}Error"))?.call1(arguments)
        };
        made().map_or_else(|error| error, PyErr::from_value)
    }
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
                Class::$class.exception(&with_causes(&self))
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
        let class = match &self {
            Self::Runtime(glovebox::RuntimeError::Manifest(_)) => Class::Policy,
            Self::Runtime(_) => Class::Unavailable,
            _ => Class::Policy,
        };
        class.exception(&with_causes(&self))
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
        ExecuteError::SessionEnded { .. }
        | ExecuteError::SessionBusy { .. }
        | ExecuteError::WorkspaceBusy
        | ExecuteError::NoCheckpoint { .. }
        | ExecuteError::Variable { .. }
        | ExecuteError::TooManySessions { .. } => Class::Session,
        // The engine's message names Rust functions.
        ExecuteError::OtherSession { in_session: true } => {
            return Class::Suspension.exception(
                "the execution was suspended in a session; restore the session with `resume_suspended_session`, and \
                 call its `resume_suspended`",
            );
        }
        ExecuteError::OtherSession { in_session: false } => {
            return Class::Suspension
                .exception("the execution was suspended outside a session; resume it with `Sandbox.resume_suspended`");
        }
        ExecuteError::OtherImage { .. } | ExecuteError::Diverged { .. } => Class::Suspension,
        ExecuteError::Commit { .. } => Class::Files,
        ExecuteError::Instantiate { .. }
        | ExecuteError::System { .. }
        | ExecuteError::TypeScript { .. }
        | ExecuteError::Driver(_)
        | ExecuteError::Unrestorable { .. } => Class::Unavailable,
        _ => Class::Policy,
    };
    class.exception(&with_causes(error))
}

impl IntoException for AdvanceError {
    fn exception(self) -> PyErr {
        match self {
            Self::Execute(error) => not_executed(&error),
            Self::Panicked => PyRuntimeError::new_err("the engine panicked; this is a bug in Glovebox"),
            error => Class::Policy.exception(&with_causes(&error)),
        }
    }
}

impl IntoException for SuspendError {
    fn exception(self) -> PyErr {
        match self {
            // The engine's messages for these two variants name Rust functions.
            Self::Running => Class::Suspension.exception(
                "the script no longer waits for answers; call `answer()` to wait until it ends or needs more answers",
            ),
            Self::Ended => Class::Suspension.exception("the execution has ended; get its result with `answer()`"),
            error => Class::Suspension.exception(&with_causes(&error)),
        }
    }
}

impl IntoException for SuspendedBytesError {
    fn exception(self) -> PyErr {
        match self {
            Self::KeyMissing => Class::Suspension.exception(
                "the suspended execution is sealed with a key; resume it from Rust or with `glovebox resume`",
            ),
            error => Class::Suspension.exception(&with_causes(&error)),
        }
    }
}

/// Creates the exception for a script whose files could not be committed to the host.
pub(crate) fn not_committed<'py>(py: Python<'py>, message: &str, execution: impl IntoPyObject<'py>) -> PyErr {
    Class::Commit.with(py, (message, execution))
}

fn forked() -> PyErr {
    Class::Unavailable
        .exception("this sandbox was created before the process forked, and its threads do not exist in the child; create a new sandbox")
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
