//! What went wrong, as the caller is told.

use glovebox_core::{LimitError, PolicyError, RequestError};
use glovebox_interpreters::DriverError;

use crate::bindings::types::{SandboxError, TooLarge};

/// The most bytes of what the caller gave that an error repeats.
const MAX_REPEATED_BYTES: usize = 4_096;

/// The beginning of what the caller gave, to be repeated.
pub(crate) fn clipped(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_REPEATED_BYTES)).unwrap_or(text)
}

/// A key of ours in the contract's spelling.
pub(crate) fn key(name: &str) -> String {
    name.replace('_', "-")
}

impl From<RequestError> for SandboxError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::SourceTooLarge { bytes, most } => Self::SourceTooLarge(TooLarge { bytes, most }),
            RequestError::StdinTooLarge { bytes, most } => Self::StdinTooLarge(TooLarge { bytes, most }),
            RequestError::Name(_) => Self::InvalidArgument(error.to_string()),
        }
    }
}

impl From<PolicyError> for SandboxError {
    fn from(error: PolicyError) -> Self {
        Self::InvalidPolicy(match error {
            PolicyError::Limit(LimitError { key: name, value, least, most }) => {
                format!("`limits.{}` is {value}; it must be between {least} and {most}", key(name))
            }
            PolicyError::Session(text) => key(&text),
            PolicyError::Env { key, reason } => format!("`env`: `{}`: {reason}", clipped(&key)),
            error @ (PolicyError::Arg { .. }
            | PolicyError::TooLarge { .. }
            | PolicyError::Syntax(_)
            | PolicyError::Mount { .. }) => error.to_string(),
        })
    }
}

impl From<DriverError> for SandboxError {
    /// The image and its driver do not fit: the component was not woven as it should be.
    fn from(error: DriverError) -> Self {
        Self::Unavailable(format!("the guest could not be run: {error}"))
    }
}
