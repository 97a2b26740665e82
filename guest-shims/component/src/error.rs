//! Conversion of errors for the caller.

use glovebox_core::{
    Refusal,
    contract::{not_resumable, quoted},
    hibernate::ResumeError,
};
use glovebox_interpreters::DriverError;

use crate::bindings::types::SandboxError;

/// Returns the error for a variable that could not be read or set.
pub(crate) fn refused_variable(name: &str, refusal: Refusal) -> SandboxError {
    match refusal {
        Refusal::Guest(reason) => SandboxError::Variable(format!("`{}`: {reason}", quoted(name))),
        Refusal::Driver(error) => error.into(),
    }
}

impl From<ResumeError> for SandboxError {
    fn from(error: ResumeError) -> Self {
        Self::NotResumable(not_resumable(&error))
    }
}

impl From<DriverError> for SandboxError {
    /// The image and its driver do not match, because the component was woven incorrectly.
    fn from(error: DriverError) -> Self {
        Self::Unavailable(format!("the guest could not be run: {error}"))
    }
}
