//! The client of a fleet.

mod listing;

use std::time::Duration;

use glovebox::escaped;
use restate_sdk::{
    ingress::{CallResponse, Client, ClientError, RequestTarget},
    serde::{Deserialize, Json, PayloadMetadata, Serialize},
};

use crate::{ExecuteReply, ExecuteRequest, ExpectedGeneration, FleetName, FleetSession, FleetUrl, OpenRequest};

pub(crate) use listing::Http;
pub use listing::{FleetImage, FleetPage};

/// A client that requests executions from a fleet. Cheap to clone. Its futures need a Tokio runtime.
///
/// The engine runs the requests of one session one at a time, in the order in which it receives them. A response means
/// that the result is stored. After a broken connection, the request may have run. A request with a key can be retried,
/// and still runs only once.
///
/// ```no_run
/// use glovebox_fleet::{ExecuteRequest, FleetClient, OpenRequest};
///
/// # async fn ask() -> Result<(), Box<dyn std::error::Error>> {
/// let fleet = FleetClient::new(&"restate://127.0.0.1".parse()?)?;
/// let request = ExecuteRequest {
///     source: "n = globals().get('n', 0) + 1; print(n)".into(),
///     open: Some(OpenRequest::default()),
///     ..ExecuteRequest::default()
/// };
/// let executed = fleet.execute(&"notes".parse()?, request, Some("request-1")).await?;
/// println!("{}", executed.execution);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct FleetClient {
    ingress: Client<Http>,
    ingress_url: String,
    http: Http,
    admin: String,
}

impl std::fmt::Debug for FleetClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FleetClient").field("admin", &self.admin).finish_non_exhaustive()
    }
}

impl FleetClient {
    /// The timeout for a response: an hour. A request waits for earlier requests of the session and, if nodes have
    /// failed, for other nodes.
    pub const MAX_WAIT: Duration = listing::MAX_WAIT;

    /// Creates a client of the engine at this URL, without connecting.
    ///
    /// # Errors
    /// [`FleetError::Invalid`] if the URL is not a valid address, or another [`FleetError`] if no HTTP client can be
    /// created.
    pub fn new(url: &FleetUrl) -> Result<Self, FleetError> {
        let http = Http::new()?;
        let invalid =
            || FleetError::Invalid(format!("`{url}` is not a valid address of a fleet; use `restate://HOST`"));
        let base = url.ingress().parse().map_err(|_| invalid())?;
        let ingress = Client::new(base, http.clone()).map_err(|_| invalid())?;
        Ok(Self { ingress, ingress_url: url.ingress(), http, admin: url.admin() })
    }

    /// Runs a script in a session. Within an hour, another request with the same key returns the first response and
    /// runs nothing.
    ///
    /// # Errors
    /// [`FleetError`] if the request fails. A script that fails is not an error.
    pub async fn execute(
        &self,
        name: &FleetName,
        request: ExecuteRequest,
        key: Option<&str>,
    ) -> Result<ExecuteReply, FleetError> {
        self.call(name, "execute", request, key).await
    }

    /// Opens a session.
    ///
    /// # Errors
    /// [`FleetError::Exists`] if the name is taken, or another [`FleetError`] if the request fails.
    pub async fn open(&self, name: &FleetName, open: OpenRequest) -> Result<FleetSession, FleetError> {
        self.call(name, "open", open, None).await
    }

    /// Returns the description of a session, without waiting for a running execution.
    ///
    /// # Errors
    /// [`FleetError::NotFound`] if the session does not exist, or another [`FleetError`] if the request fails.
    pub async fn info(&self, name: &FleetName) -> Result<FleetSession, FleetError> {
        self.ask(name, "info").await
    }

    /// Cancels the running execution of a session. Returns `false` if nothing was running. The caller of the execution
    /// receives the outcome `cancelled`. With an execution's ID ([`ExecuteRequest::id`]), cancels only that execution.
    ///
    /// # Errors
    /// [`FleetError`] if the request fails.
    pub async fn cancel(&self, name: &FleetName, id: Option<&str>) -> Result<bool, FleetError> {
        self.call(name, "cancel", id.map(str::to_owned), None).await
    }

    /// Undoes the last execution of a session. A second undo in a row fails.
    ///
    /// # Errors
    /// [`FleetError::NotFound`] if the session does not exist, [`FleetError::NoUndo`] if it has nothing to undo, and
    /// [`FleetError::Changed`] if it is not in the expected state. Another [`FleetError`] if the request fails.
    pub async fn undo(
        &self,
        name: &FleetName,
        expected: Option<ExpectedGeneration>,
    ) -> Result<FleetSession, FleetError> {
        self.call(name, "undo", expected, None).await
    }

    /// Closes a session and deletes its stored data. Returns `false` if it did not exist. Exit handlers do not run.
    ///
    /// # Errors
    /// [`FleetError::Changed`] if the session is not in the expected state, or another [`FleetError`] if the request
    /// fails.
    pub async fn close(&self, name: &FleetName, expected: Option<ExpectedGeneration>) -> Result<bool, FleetError> {
        self.call(name, "close", expected, None).await
    }

    /// Calls a handler that takes no input.
    async fn ask<A>(&self, name: &FleetName, handler: &str) -> Result<A, FleetError>
    where
        Json<A>: Deserialize,
    {
        let request = self.ingress.request::<(), Json<A>>(target(name, handler), ());
        self.answer(name, request.call().await)
    }

    /// Calls a handler of a session.
    async fn call<Q, A>(&self, name: &FleetName, handler: &str, input: Q, key: Option<&str>) -> Result<A, FleetError>
    where
        Json<Q>: Serialize + PayloadMetadata,
        Json<A>: Deserialize,
    {
        let mut request = self.ingress.request::<Json<Q>, Json<A>>(target(name, handler), Json(input));
        if let Some(key) = key {
            request = request.idempotency_key(key);
        }
        self.answer(name, request.call().await)
    }

    fn answer<A>(
        &self,
        name: &FleetName,
        answered: Result<CallResponse<Http, Json<A>>, ClientError>,
    ) -> Result<A, FleetError>
    where
        Json<A>: Deserialize,
    {
        let body = answered.and_then(CallResponse::into_body);
        body.map(|Json(answer)| answer).map_err(|error| FleetError::of(name, &self.ingress_url, &error))
    }
}

fn target(name: &FleetName, handler: &str) -> RequestTarget {
    RequestTarget::object(name.service(), name.to_string(), handler)
}

/// The error codes of the nodes. They reach the client as HTTP status codes.
pub(crate) mod status {
    /// The request is invalid.
    pub(crate) const INVALID: u16 = 400;
    /// The session does not exist.
    pub(crate) const NOT_FOUND: u16 = 404;
    /// The name is taken.
    pub(crate) const EXISTS: u16 = 409;
    /// The session has nothing to undo.
    pub(crate) const NO_UNDO: u16 = 410;
    /// The session is not in the expected state.
    pub(crate) const CHANGED: u16 = 412;
    /// The suspended execution needs another image, or its state exceeds a limit.
    pub(crate) const NOT_RESUMABLE: u16 = 422;
    /// The resumed execution behaved differently than before its suspension.
    pub(crate) const DIVERGED: u16 = 424;
    /// The request failed permanently: a retry would fail too.
    pub(crate) const FAILED: u16 = 500;
}

/// The prefix of error messages with the code [`status::EXISTS`].
pub(crate) const EXISTS: &str = "there is a session";

/// The reason why a request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// No session has this name.
    #[error("there is no session `{0}` in the fleet; open it first")]
    NotFound(FleetName),
    /// A session with this name already exists.
    #[error("session `{0}` already exists in the fleet; choose another name or close it first")]
    Exists(FleetName),
    /// The last execution was already undone, or the session has not executed anything.
    #[error("session `{0}` has nothing to undo")]
    NoUndo(FleetName),
    /// The session is not in the expected state. Nothing was run.
    #[error("session `{0}` is not in the expected state, so nothing ran; read its state and try again")]
    Changed(FleetName),
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The suspended execution needs another image, or its state exceeds a limit of the nodes. Nothing was run.
    #[error("{0}")]
    NotResumable(String),
    /// The resumed execution behaved differently than before its suspension. The session is unchanged.
    #[error("{0}")]
    Diverged(String),
    /// The request failed permanently: a retry would fail too.
    #[error("the fleet could not execute the request: {0}")]
    Failed(String),
    /// No node is registered with the engine.
    #[error("no fleet node is registered; start one with `glovebox fleet node`")]
    NoNode,
    /// The connection to the engine failed, or the engine is overloaded. The request may have run.
    #[error("cannot reach the fleet's engine at `{url}`; check that it is running", url = escaped(.url))]
    Unreachable {
        /// The engine's URL.
        url: String,
        /// The cause of the failure.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The engine's response is malformed.
    #[error("the fleet's engine sent an unexpected response: {0}")]
    Answer(String),
}

/// The body of an error response from the engine.
#[derive(serde::Deserialize)]
struct FailureAnswer {
    #[serde(default)]
    message: String,
}

impl FleetError {
    /// Converts an error from an ingress call.
    fn of(name: &FleetName, url: &str, error: &ClientError) -> Self {
        let unreachable = |source: String| Self::Unreachable { url: url.to_owned(), source: source.into() };
        let Some(response) = error.response() else {
            let source = std::error::Error::source(error).map_or_else(|| error.to_string(), glovebox::with_causes);
            return unreachable(source);
        };
        if response.status().is_success() {
            return Self::Answer(glovebox::with_causes(error));
        }
        let failure: Option<FailureAnswer> = serde_json::from_slice(response.body()).ok();
        let message = failure.map(|failure| failure.message).filter(|message| !message.is_empty());
        let message = message.unwrap_or_else(|| error.to_string());
        // The engine's own 404 means that the service is not registered.
        let has_no_service = message.contains("not found") && message.contains("service");
        match response.status().as_u16() {
            status::NOT_FOUND if has_no_service => Self::NoNode,
            status::NOT_FOUND => Self::NotFound(name.clone()),
            // The engine also responds with 409 if an operator killed or cancelled the request.
            status::EXISTS if message.starts_with(EXISTS) => Self::Exists(name.clone()),
            status::NO_UNDO => Self::NoUndo(name.clone()),
            status::CHANGED => Self::Changed(name.clone()),
            status::INVALID => Self::Invalid(message),
            status::NOT_RESUMABLE => Self::NotResumable(message),
            status::DIVERGED => Self::Diverged(message),
            // The engine, or a load balancer in front of it, is overloaded or temporarily unavailable.
            429 | 502..=504 => unreachable(message),
            _ => Self::Failed(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_failures_allow_a_repeated_request() {
        let name: FleetName = "notes".parse().unwrap();
        let error = |status: u16| {
            let mut response = http::Response::new(bytes::Bytes::from_static(br#"{"message": "busy"}"#));
            *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
            let (status, response) = (response.status(), Box::new(response));
            FleetError::of(&name, "http://engine", &ClientError::Status { status, response })
        };
        for status in [429, 502, 503, 504] {
            assert!(matches!(error(status), FleetError::Unreachable { .. }), "{status}");
        }
        for status in [500, 501, 505] {
            assert!(matches!(error(status), FleetError::Failed(_)), "{status}");
        }
    }
}
