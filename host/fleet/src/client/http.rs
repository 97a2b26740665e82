//! The HTTP client for the engine.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use restate_sdk::ingress::RequestExecutor;
use serde::{Serialize, de::DeserializeOwned};

use super::FleetError;

/// Timeout for connecting to the engine.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Timeout for an answer.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(3_600);
/// Maximum size of an answer in bytes: the engine's default limit on messages.
pub(crate) const MAX_ANSWER_BYTES: usize = 32 << 20;

/// An HTTP client for the engine. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Http(reqwest::Client);

/// A request to the engine failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error(transparent)]
    Request(#[from] reqwest::Error),
    #[error("its answer is longer than {MAX_ANSWER_BYTES} bytes")]
    TooLong,
}

impl Http {
    pub(crate) fn new() -> Result<Self, FleetError> {
        // A provider installed earlier stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .no_proxy()
            .tcp_nodelay(true)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIME)
            .timeout(MAX_WAIT)
            .user_agent(concat!("glovebox/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Self(client.map_err(|error| unreachable("", error))?))
    }

    /// Calls the engine's admin API with JSON. The inner error is the status and the body of an unsuccessful response.
    pub(crate) async fn ask<A: DeserializeOwned>(
        &self,
        url: &str,
        question: Option<&(impl Serialize + Sync)>,
        wait: Duration,
    ) -> Result<Result<A, (u16, String)>, FleetError> {
        let request = match question {
            Some(question) => self.0.post(url).json_of(question)?,
            None => self.0.get(url),
        };
        let request = request.header(http::header::ACCEPT, "application/json").timeout(wait);
        let request = request.build().map_err(|error| unreachable(url, error))?;
        let answer = self.send(request).await.map_err(|error| unreachable(url, error))?;
        if !answer.status().is_success() {
            return Ok(Err((answer.status().as_u16(), String::from_utf8_lossy(answer.body()).into_owned())));
        }
        serde_json::from_slice(answer.body()).map(Ok).map_err(|error| FleetError::Answer(error.to_string()))
    }

    /// Returns `true` if a GET of this URL succeeds.
    pub(crate) async fn is_well(&self, url: &str) -> bool {
        let answer = self.0.get(url).timeout(CONNECT_TIME).send().await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    async fn send(&self, request: reqwest::Request) -> Result<Response<Bytes>, HttpError> {
        let mut response = self.0.execute(request).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await? {
            if body.len() + piece.len() > MAX_ANSWER_BYTES {
                return Err(HttpError::TooLong);
            }
            body.extend_from_slice(&piece);
        }
        let mut answer = Response::new(body.into());
        (*answer.status_mut(), *answer.headers_mut()) = (status, headers);
        Ok(answer)
    }
}

/// Adds a JSON body, without reqwest's `json` feature.
trait JsonOf: Sized {
    fn json_of(self, value: &impl Serialize) -> Result<Self, FleetError>;
}

impl JsonOf for reqwest::RequestBuilder {
    fn json_of(self, value: &impl Serialize) -> Result<Self, FleetError> {
        let body = serde_json::to_vec(value).map_err(|error| FleetError::Invalid(error.to_string()))?;
        Ok(self.header(http::header::CONTENT_TYPE, "application/json").body(body))
    }
}

fn unreachable(url: &str, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> FleetError {
    FleetError::Unreachable { url: url.to_owned(), source: error.into() }
}

impl RequestExecutor for Http {
    type Error = HttpError;

    async fn execute(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        self.send(request.try_into()?).await
    }
}
