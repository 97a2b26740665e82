//! Converts the engine's errors to the classes in `src/errors.ts`.

use std::error::Error;

use glovebox::{
    AdvanceError, BuildError, EngineError, ExecuteError, Execution, FilesError, HibernateError, NotJson, PolicyError,
    ResumeError, SuspendError, SuspendedBytesError, internal::ErrorClass, with_causes,
};
use napi_derive::napi;
use serde_json::Error as JsonError;

use crate::execution::NativeExecution;

/// The class name and the constructor's arguments of an error, before their conversion to JavaScript values.
pub(crate) struct EngineFailure {
    class: ErrorClass,
    message: String,
    /// The execution whose files could not be committed.
    execution: Option<Box<Execution>>,
}

impl EngineFailure {
    fn new(class: ErrorClass, error: &dyn Error) -> Self {
        Self { class, message: with_causes(error), execution: None }
    }

    /// Converts the error of an execution that has no result.
    fn not_executed(error: &ExecuteError) -> Self {
        let mut failure = Self::new(ErrorClass::from(error), error);
        if let ExecuteError::Commit { execution, .. } = error {
            failure.execution = Some(execution.clone());
        }
        failure
    }

    pub(crate) fn panicked() -> Self {
        let message = "the engine panicked; this is a bug in Glovebox".to_owned();
        Self { class: ErrorClass::Unavailable, message, execution: None }
    }

    fn suspension(message: &str) -> Self {
        Self { class: ErrorClass::Suspension, message: message.to_owned(), execution: None }
    }

    /// Creates the error for an execution that was suspended in a session and is resumed outside one.
    pub(crate) fn suspended_in_session() -> Self {
        Self::suspension(
            "the execution was suspended in a session; resume it in the session that `resumeSuspendedSession` restores",
        )
    }
}

/// The class name and the constructor's arguments of an error, as JavaScript receives them.
#[napi(object, object_from_js = false)]
pub struct NativeFailure {
    /// The class name.
    pub class: String,
    /// The error message.
    pub message: String,
    /// The execution whose files could not be committed.
    pub execution: Option<NativeExecution>,
}

impl From<EngineFailure> for NativeFailure {
    fn from(EngineFailure { class, message, execution }: EngineFailure) -> Self {
        let execution = execution.map(|execution| NativeExecution::from(*execution));
        Self { class: format!("{class:?}Error"), message, execution }
    }
}

/// Assigns a class to each error type. The errors in a variant after `except` keep their own classes.
macro_rules! failures {
    ($($error:ident $(, except $session:ident)? => $class:ident;)*) => {$(
        impl From<$error> for EngineFailure {
            fn from(error: $error) -> Self {
                $(if let $error::$session(error) = &error {
                    return Self::not_executed(error);
                })?
                Self::new(ErrorClass::$class, &error)
            }
        }
    )*};
}

failures! {
    EngineError => Unavailable;
    PolicyError => Policy;
    NotJson => Policy;
    JsonError => Policy;
    FilesError, except Session => Files;
    HibernateError, except Session => Session;
    ResumeError, except Session => Session;
}

impl From<BuildError> for EngineFailure {
    fn from(error: BuildError) -> Self {
        Self::new(ErrorClass::from(&error), &error)
    }
}

impl From<ExecuteError> for EngineFailure {
    fn from(error: ExecuteError) -> Self {
        Self::not_executed(&error)
    }
}

impl From<AdvanceError> for EngineFailure {
    fn from(error: AdvanceError) -> Self {
        match error {
            AdvanceError::Execute(error) => Self::not_executed(&error),
            AdvanceError::Panicked => Self::panicked(),
            error => Self::new(ErrorClass::Policy, &error),
        }
    }
}

/// Replaces the engine's messages about running and ended executions, because they name Rust functions.
impl From<SuspendError> for EngineFailure {
    fn from(error: SuspendError) -> Self {
        match error {
            SuspendError::Running => Self::suspension(
                "the script no longer waits for answers; call `answer()` to wait until it ends or needs more answers",
            ),
            SuspendError::Ended => Self::suspension("the execution has ended; get its result with `answer()`"),
            error => Self::new(ErrorClass::Suspension, &error),
        }
    }
}

impl From<SuspendedBytesError> for EngineFailure {
    fn from(error: SuspendedBytesError) -> Self {
        match error {
            SuspendedBytesError::KeyMissing => Self::suspension(
                "the suspended execution is sealed with a key; resume it from Rust, from the shell or over HTTP",
            ),
            error => Self::new(ErrorClass::Suspension, &error),
        }
    }
}
