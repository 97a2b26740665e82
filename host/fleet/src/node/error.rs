//! Errors of starting a node and of running a step.

use glovebox::{BuildError, escaped};
use glovebox_sessions::StoreError;
use restate_sdk::errors::{HandlerError, TerminalError};

use crate::client::status;

/// A node failed to start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// Nodes cannot use this policy.
    #[error(transparent)]
    Policy(#[from] super::config::NodePolicyError),
    /// A runtime cannot be prepared.
    #[error(transparent)]
    Runtime(#[from] BuildError),
    /// The identity key is malformed.
    #[error("the identity key is invalid; write the engine's public key as the engine shows it, `publickeyv1_…`")]
    IdentityKey,
    /// The node cannot listen on its address.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address to listen on.
        address: std::net::SocketAddr,
        /// Cause.
        source: std::io::Error,
    },
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine rejected the registration.
    #[error("the fleet's engine did not register the node: {0}")]
    Refused(String),
    /// Nodes of another version are registered at this address.
    #[error(
        "nodes of another version are registered at `{url}` and may still have work; give nodes of this version their own address (--advertise)",
        url = escaped(.0)
    )]
    OtherVersion(String),
    /// A call to the engine failed.
    #[error(transparent)]
    Engine(#[from] crate::FleetError),
}

/// A step of an execution failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum StepError {
    /// A transient error. The engine retries the step, here or on another node.
    #[error("{0}")]
    Later(String),
    /// A permanent error, which the caller receives.
    #[error("{1}")]
    Never(u16, String),
}

impl StepError {
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::Never(status::INVALID, message.into())
    }

    /// Converts the error for the engine.
    pub(super) fn into_handler_error(self) -> HandlerError {
        match self {
            // The engine logs the message.
            Self::Later(message) => std::io::Error::other(message).into(),
            Self::Never(code, message) => TerminalError::new_with_code(code, message).into(),
        }
    }

    /// An error of the sandbox that is the same on every node.
    pub(super) fn failed(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Never(status::FAILED, glovebox::with_causes(error))
    }
}

impl From<StoreError> for StepError {
    fn from(error: StoreError) -> Self {
        Self::Later(glovebox::with_causes(&error))
    }
}
