//! Converts the engine's errors to the classes in `src/errors.ts`.

use std::error::Error;

use glovebox::{
    BuildError, EngineError, ExecuteError, Execution, FilesError, HibernateError, NotJson, PolicyError, ResumeError,
    with_causes,
};
use napi_derive::napi;

use crate::execution::NativeExecution;

/// An error class of the package and its arguments, before conversion on JavaScript's thread.
pub(crate) struct EngineFailure {
    class: &'static str,
    message: String,
    /// The execution whose files could not be committed.
    execution: Option<Box<Execution>>,
}

impl EngineFailure {
    fn new(class: &'static str, error: &dyn Error) -> Self {
        Self { class, message: with_causes(error), execution: None }
    }

    pub(crate) fn panicked() -> Self {
        let message = "the engine panicked; this is a bug in Glovebox".to_owned();
        Self { class: "UnavailableError", message, execution: None }
    }
}

/// An error class of the package and its arguments, as JavaScript receives them.
#[napi(object, object_from_js = false)]
pub struct NativeFailure {
    /// The class name.
    pub class: &'static str,
    /// The error message.
    pub message: String,
    /// The execution whose files could not be committed.
    pub execution: Option<NativeExecution>,
}

impl From<EngineFailure> for NativeFailure {
    fn from(EngineFailure { class, message, execution }: EngineFailure) -> Self {
        Self { class, message, execution: execution.map(|execution| NativeExecution::from(*execution)) }
    }
}

impl From<EngineError> for EngineFailure {
    fn from(error: EngineError) -> Self {
        Self::new("UnavailableError", &error)
    }
}

impl From<PolicyError> for EngineFailure {
    fn from(error: PolicyError) -> Self {
        Self::new("PolicyError", &error)
    }
}

impl From<NotJson> for EngineFailure {
    fn from(error: NotJson) -> Self {
        Self::new("PolicyError", &error)
    }
}

impl From<serde_json::Error> for EngineFailure {
    fn from(error: serde_json::Error) -> Self {
        Self::new("PolicyError", &error)
    }
}

impl From<BuildError> for EngineFailure {
    fn from(error: BuildError) -> Self {
        let class = match &error {
            BuildError::Runtime(glovebox::RuntimeError::Manifest(_)) => "PolicyError",
            BuildError::Runtime(_) => "UnavailableError",
            _ => "PolicyError",
        };
        Self::new(class, &error)
    }
}

impl From<ExecuteError> for EngineFailure {
    fn from(error: ExecuteError) -> Self {
        let class = match error {
            ExecuteError::SessionEnded { .. }
            | ExecuteError::SessionBusy { .. }
            | ExecuteError::WorkspaceBusy
            | ExecuteError::NoCheckpoint { .. }
            | ExecuteError::Variable { .. }
            | ExecuteError::TooManySessions { .. } => "SessionError",
            ExecuteError::Commit { .. } => "CommitError",
            ExecuteError::Instantiate { .. }
            | ExecuteError::System { .. }
            | ExecuteError::TypeScript { .. }
            | ExecuteError::Driver(_)
            | ExecuteError::Unrestorable { .. } => "UnavailableError",
            _ => "PolicyError",
        };
        let mut failure = Self::new(class, &error);
        if let ExecuteError::Commit { execution, .. } = error {
            failure.execution = Some(execution);
        }
        failure
    }
}

impl From<FilesError> for EngineFailure {
    fn from(error: FilesError) -> Self {
        match error {
            FilesError::Session(error) => (*error).into(),
            error => Self::new("FilesError", &error),
        }
    }
}

impl From<HibernateError> for EngineFailure {
    fn from(error: HibernateError) -> Self {
        match error {
            HibernateError::Session(error) => error.into(),
            error => Self::new("SessionError", &error),
        }
    }
}

impl From<ResumeError> for EngineFailure {
    fn from(error: ResumeError) -> Self {
        match error {
            ResumeError::Session(error) => error.into(),
            error => Self::new("SessionError", &error),
        }
    }
}
