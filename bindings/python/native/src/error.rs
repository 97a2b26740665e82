//! Converts the engine's errors to the exceptions in `glovebox_sandbox.errors`.

use std::error::Error;

use glovebox::{
    BuildError, EngineError, ExecuteError, FilesError, HibernateError, NotJson, PolicyError, ResumeError, with_causes,
};
use pyo3::{intern, prelude::*};

/// The exception class of an error.
#[derive(Clone, Copy)]
enum Class {
    Policy,
    Unavailable,
    Session,
    Files,
    Commit,
}

impl Class {
    fn name(self) -> &'static str {
        match self {
            Self::Policy => "PolicyError",
            Self::Unavailable => "UnavailableError",
            Self::Session => "SessionError",
            Self::Files => "FilesError",
            Self::Commit => "CommitError",
        }
    }

    fn exception(self, message: &str) -> PyErr {
        Python::attach(|py| self.with(py, (message,)))
    }

    fn with<'py>(self, py: Python<'py>, arguments: impl pyo3::call::PyCallArgs<'py>) -> PyErr {
        let made = || {
            let errors = py.import(intern!(py, "glovebox_sandbox.errors"))?;
            errors.getattr(self.name())?.call1(arguments)
        };
        made().map_or_else(|error| error, PyErr::from_value)
    }
}

/// Converts an error to an exception of the package.
pub(crate) trait IntoException: Error + Sized {
    fn exception(self) -> PyErr;
}

impl IntoException for EngineError {
    fn exception(self) -> PyErr {
        Class::Unavailable.exception(&with_causes(&self))
    }
}

impl IntoException for PolicyError {
    fn exception(self) -> PyErr {
        Class::Policy.exception(&with_causes(&self))
    }
}

impl IntoException for NotJson {
    fn exception(self) -> PyErr {
        Class::Policy.exception(&with_causes(&self))
    }
}

impl IntoException for serde_json::Error {
    fn exception(self) -> PyErr {
        Class::Policy.exception(&with_causes(&self))
    }
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
        let class = match self {
            Self::SessionEnded { .. }
            | Self::SessionBusy { .. }
            | Self::WorkspaceBusy
            | Self::NoCheckpoint { .. }
            | Self::Variable { .. }
            | Self::TooManySessions { .. } => Class::Session,
            Self::Commit { .. } => Class::Files,
            Self::Instantiate { .. }
            | Self::System { .. }
            | Self::TypeScript { .. }
            | Self::Driver(_)
            | Self::Unrestorable { .. } => Class::Unavailable,
            _ => Class::Policy,
        };
        class.exception(&with_causes(&self))
    }
}

impl IntoException for FilesError {
    fn exception(self) -> PyErr {
        match self {
            Self::Session(error) => error.exception(),
            error => Class::Files.exception(&with_causes(&error)),
        }
    }
}

impl IntoException for HibernateError {
    fn exception(self) -> PyErr {
        match self {
            Self::Session(error) => error.exception(),
            error => Class::Session.exception(&with_causes(&error)),
        }
    }
}

impl IntoException for ResumeError {
    fn exception(self) -> PyErr {
        match self {
            Self::Session(error) => error.exception(),
            error => Class::Session.exception(&with_causes(&error)),
        }
    }
}

/// Creates the exception for a script whose files could not be committed to the host.
pub(crate) fn not_committed<'py>(py: Python<'py>, said: &str, execution: impl IntoPyObject<'py>) -> PyErr {
    Class::Commit.with(py, (said, execution))
}

/// Creates the exception for a sandbox or session from another process.
pub(crate) fn forked() -> PyErr {
    Class::Unavailable
        .exception("this sandbox was created before the process forked, and its threads do not exist in the child; create a new sandbox")
}
