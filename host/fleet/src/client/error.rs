//! Why a fleet has no answer.

use glovebox::escaped;
use restate_sdk::ingress::ClientError;
use serde::Deserialize;

use crate::FleetName;

/// What the nodes answer with, by what is wrong. Numbers as in HTTP, which is how they reach the client.
pub(crate) mod status {
    /// The request cannot be carried out as it is.
    pub(crate) const INVALID: u16 = 400;
    /// There is no such session.
    pub(crate) const NOT_FOUND: u16 = 404;
    /// There is one of this name.
    pub(crate) const EXISTS: u16 = 409;
    /// There is nothing to go back to.
    pub(crate) const NO_UNDO: u16 = 410;
    /// It has another generation.
    pub(crate) const CHANGED: u16 = 412;
    /// It cannot be carried out, and will not be at another time.
    pub(crate) const FAILED: u16 = 500;
}

/// How a node begins to say that there is a session.
pub(crate) const EXISTS: &str = "there is a session";

/// A fleet has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// There is no session of this name.
    #[error("there is no session `{0}` in the fleet; open one first")]
    NotFound(FleetName),
    /// There is a session of this name.
    #[error("there is a session `{0}` in the fleet already; name another, or close that first")]
    Exists(FleetName),
    /// The session was set back already, or nothing was executed in it.
    #[error("session `{0}` has no state before its last that it could be set back to")]
    NoUndo(FleetName),
    /// The session has another generation than was expected. Nothing was run.
    #[error("session `{0}` has another generation than was expected; nothing was run, look at it and ask again")]
    Changed(FleetName),
    /// The request cannot be carried out.
    #[error("{0}")]
    Invalid(String),
    /// It was not carried out, for a reason that stays.
    #[error("the fleet could not carry it out: {0}")]
    Failed(String),
    /// No node is registered that has sessions.
    #[error("no node of the fleet is registered; start one with `glovebox fleet node`")]
    NoNode,
    /// The engine cannot be reached, or broke off: it may have been carried out.
    #[error("the engine of the fleet cannot be reached at `{url}`; look whether it runs", url = escaped(.url))]
    Unreachable {
        /// Where.
        url: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The engine's answer cannot be understood.
    #[error("the engine of the fleet answered with something unexpected: {0}")]
    Answer(String),
}

/// What the engine says of a failure.
#[derive(Deserialize)]
struct Failure {
    #[serde(default)]
    message: String,
}

impl FleetError {
    /// What a call through the ingress failed with.
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
        // The engine's own 404 is for a service that nobody has registered.
        let has_no_service = message.contains("not found") && message.contains("service");
        match response.status().as_u16() {
            status::NOT_FOUND if has_no_service => Self::NoNode,
            status::NOT_FOUND => Self::NotFound(name.clone()),
            // The engine's own is for what its operator has killed or cancelled.
            status::EXISTS if message.starts_with(EXISTS) => Self::Exists(name.clone()),
            status::NO_UNDO => Self::NoUndo(name.clone()),
            status::CHANGED => Self::Changed(name.clone()),
            status::INVALID => Self::Invalid(message),
            // A balancer before the engine, or the engine itself, for the moment.
            502..=504 => unreachable(message),
            _ => Self::Failed(message),
        }
    }
}
