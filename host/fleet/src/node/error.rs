//! Why a node could not begin, or a step of an execution could not be made.

use glovebox::{BuildError, StoreError, escaped};
use restate_sdk::errors::{HandlerError, TerminalError};

use crate::client::status;

/// A node could not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// Its policy cannot be a node's.
    #[error(transparent)]
    Policy(#[from] super::config::NodePolicyError),
    /// A runtime cannot be had.
    #[error(transparent)]
    Runtime(#[from] BuildError),
    /// The key of the engine is none.
    #[error("the key of the engine is not one; write it as the engine shows it, `publickeyv1_…`")]
    IdentityKey,
    /// It cannot listen.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: std::net::SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine did not take it.
    #[error("the engine of the fleet did not register the node: {0}")]
    Refused(String),
    /// Another version of nodes is registered at this address.
    #[error(
        "another version of nodes is registered at `{url}`, and may still have work; give the nodes of this version an address of their own (--advertise)",
        url = escaped(.0)
    )]
    OtherVersion(String),
    /// The engine has no answer.
    #[error(transparent)]
    Engine(#[from] crate::FleetError),
}

/// A step of an execution could not be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum StepError {
    /// It will be possible at another time, or elsewhere: the engine has it tried again.
    #[error("{0}")]
    Later(String),
    /// It will never be possible: whoever asked is told.
    #[error("{1}")]
    Never(u16, String),
}

impl StepError {
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::Never(status::INVALID, message.into())
    }

    /// What the engine is told.
    pub(super) fn into_handler_error(self) -> HandlerError {
        match self {
            // The engine logs it.
            Self::Later(message) => std::io::Error::other(message).into(),
            Self::Never(code, message) => TerminalError::new_with_code(code, message).into(),
        }
    }

    /// An error of the sandbox, which would be the same elsewhere.
    pub(super) fn failed(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Never(status::FAILED, glovebox::with_causes(error))
    }
}

impl From<StoreError> for StepError {
    fn from(error: StoreError) -> Self {
        Self::Later(glovebox::with_causes(&error))
    }
}
