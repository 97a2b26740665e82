//! Asks a fleet for executions.

mod error;
mod http;
mod listing;

use std::time::Duration;

use restate_sdk::{
    ingress::{CallResponse, Client, ClientError, RequestTarget},
    serde::{Deserialize, Json, PayloadMetadata, Serialize},
};

pub use self::{
    error::FleetError,
    listing::{FleetImage, FleetPage},
};
pub(crate) use self::{
    error::{EXISTS, status},
    http::Http,
};
use crate::{ExecuteRequest, Executed, Expected, FleetName, FleetSession, FleetUrl, OpenRequest};

/// Asks a fleet for executions. Cheap to clone; its futures need a runtime of tokio.
///
/// What is asked of one session is done one after another, in the order in which it arrives at the engine. What was answered is stored. A request that
/// breaks off may have been carried out: with a key it can be asked again, and is carried out once.
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
    /// For how long an answer is waited for: an hour. What is asked of a session waits for its turn, and where nodes are gone, for others.
    pub const MAX_WAIT: Duration = http::MAX_WAIT;

    /// A client of the engine at this URL. Nothing is asked of it yet.
    ///
    /// # Errors
    /// Where no client over HTTP can be made.
    pub fn new(url: &FleetUrl) -> Result<Self, FleetError> {
        let http = Http::new()?;
        let base =
            url.ingress().parse().map_err(|_| FleetError::Answer("the URL of the ingress cannot be read".into()))?;
        let ingress = Client::new(base, http.clone()).map_err(|error| FleetError::Answer(error.to_string()))?;
        Ok(Self { ingress, ingress_url: url.ingress(), http, admin: url.admin() })
    }

    /// Runs a script in a session. With a key, the same again is not run again and answered the same, for an hour.
    ///
    /// # Errors
    /// [`FleetError`]. What the script does is never an error.
    pub async fn execute(
        &self,
        name: &FleetName,
        request: ExecuteRequest,
        key: Option<&str>,
    ) -> Result<Executed, FleetError> {
        self.call(name, "execute", request, key).await
    }

    /// Opens a session.
    ///
    /// # Errors
    /// [`FleetError::Exists`] where there is one of this name, and others.
    pub async fn open(&self, name: &FleetName, open: OpenRequest) -> Result<FleetSession, FleetError> {
        self.call(name, "open", open, None).await
    }

    /// What a session is. It does not wait for what is being executed.
    ///
    /// # Errors
    /// [`FleetError::NotFound`], and others.
    pub async fn info(&self, name: &FleetName) -> Result<FleetSession, FleetError> {
        self.ask(name, "info").await
    }

    /// Stops what is being executed in a session; whether something was. Whoever asked for it is answered that it was cancelled. With the id of
    /// an execution ([`ExecuteRequest::id`]) only that one is stopped.
    ///
    /// # Errors
    /// [`FleetError`].
    pub async fn cancel(&self, name: &FleetName, id: Option<&str>) -> Result<bool, FleetError> {
        self.call(name, "cancel", id.map(str::to_owned), None).await
    }

    /// Sets a session back to before its last execution: once, not twice in succession.
    ///
    /// # Errors
    /// [`FleetError::NotFound`], [`FleetError::NoUndo`], [`FleetError::Changed`] where it is not in the state that is expected, and others.
    pub async fn undo(&self, name: &FleetName, expected: Option<Expected>) -> Result<FleetSession, FleetError> {
        self.call(name, "undo", expected, None).await
    }

    /// Ends a session and removes what is stored of it; whether there was one. Its exit handlers do not run.
    ///
    /// # Errors
    /// [`FleetError::Changed`] where it is not in the state that is expected, and others.
    pub async fn close(&self, name: &FleetName, expected: Option<Expected>) -> Result<bool, FleetError> {
        self.call(name, "close", expected, None).await
    }

    /// Asks something of a session that needs no input.
    async fn ask<A>(&self, name: &FleetName, handler: &str) -> Result<A, FleetError>
    where
        Json<A>: Deserialize,
    {
        let request = self.ingress.request::<(), Json<A>>(target(name, handler), ());
        self.answer(name, request.call().await)
    }

    /// Asks something of a session.
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
