//! Errors of the client.

use glovebox::escaped;
use restate_sdk::ingress::ClientError;
use serde::Deserialize;

use crate::FleetName;

/// Error codes of the nodes, which reach the client as HTTP status codes.
pub(crate) mod status {
    /// The request is invalid.
    pub(crate) const INVALID: u16 = 400;
    /// No such session.
    pub(crate) const NOT_FOUND: u16 = 404;
    /// The name is taken.
    pub(crate) const EXISTS: u16 = 409;
    /// The session has nothing to undo.
    pub(crate) const NO_UNDO: u16 = 410;
    /// The session is not in the expected state.
    pub(crate) const CHANGED: u16 = 412;
    /// The request failed permanently: a retry would fail too.
    pub(crate) const FAILED: u16 = 500;
}

/// The start of the message of [`status::EXISTS`].
pub(crate) const EXISTS: &str = "there is a session";

/// A request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// No session has this name.
    #[error("there is no session `{0}` in the fleet; open one first")]
    NotFound(FleetName),
    /// A session has this name already.
    #[error("session `{0}` already exists in the fleet; choose another name or close it first")]
    Exists(FleetName),
    /// The last execution was undone already, or nothing was executed in the session.
    #[error("session `{0}` has nothing to undo")]
    NoUndo(FleetName),
    /// The session is not in the expected state. Nothing was run.
    #[error("session `{0}` is not in the expected state, so nothing was run; read its state and try again")]
    Changed(FleetName),
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The request failed permanently: a retry would fail too.
    #[error("the fleet could not carry out the request: {0}")]
    Failed(String),
    /// No node is registered with the engine.
    #[error("no node of the fleet is registered; start one with `glovebox fleet node`")]
    NoNode,
    /// The connection to the engine failed. The request may have run.
    #[error("cannot reach the fleet's engine at `{url}`; check that it is running", url = escaped(.url))]
    Unreachable {
        /// The engine's URL.
        url: String,
        /// The cause of the failure.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The engine's answer is malformed.
    #[error("the fleet's engine sent an unexpected answer: {0}")]
    Answer(String),
}

/// The body of an engine error.
#[derive(Deserialize)]
struct Failure {
    #[serde(default)]
    message: String,
}

impl FleetError {
    /// Converts the error of an ingress call.
    pub(super) fn of(name: &FleetName, url: &str, error: &ClientError) -> Self {
        let unreachable = |source: String| Self::Unreachable { url: url.to_owned(), source: source.into() };
        let Some(response) = error.response() else {
            let source = std::error::Error::source(error).map_or_else(|| error.to_string(), glovebox::with_causes);
            return unreachable(source);
        };
        if response.status().is_success() {
            return Self::Answer(glovebox::with_causes(error));
        }
        let failure: Option<Failure> = serde_json::from_slice(response.body()).ok();
        let message = failure.map(|failure| failure.message).filter(|message| !message.is_empty());
        let message = message.unwrap_or_else(|| error.to_string());
        // The engine's own 404 means that the service is not registered.
        let has_no_service = message.contains("not found") && message.contains("service");
        match response.status().as_u16() {
            status::NOT_FOUND if has_no_service => Self::NoNode,
            status::NOT_FOUND => Self::NotFound(name.clone()),
            // The engine's own 409: the operator killed or cancelled it.
            status::EXISTS if message.starts_with(EXISTS) => Self::Exists(name.clone()),
            status::NO_UNDO => Self::NoUndo(name.clone()),
            status::CHANGED => Self::Changed(name.clone()),
            status::INVALID => Self::Invalid(message),
            // A temporary failure of the engine or of a balancer in front of it.
            502..=504 => unreachable(message),
            _ => Self::Failed(message),
        }
    }
}
