//! The HTTP client for the engine, and listings of sessions and images.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use glovebox_sessions::SessionId;
use http::{Request, Response};
use restate_sdk::ingress::RequestExecutor;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{FleetClient, FleetError};
use crate::{
    FleetName, FleetSession,
    address::{IMAGE_PREFIX, SERVICE_PREFIX, image_service},
    node::STATE_KEY,
};

/// The timeout for a listing.
const WAIT: Duration = Duration::from_secs(30);

/// A page of a fleet's sessions, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FleetPage {
    /// The sessions. `is_running` is always `false`, because listings do not read it.
    pub sessions: Vec<FleetSession>,
    /// The name after which the next page starts; `None` on the last page.
    pub next: Option<FleetName>,
}

#[derive(Serialize)]
struct Query {
    query: String,
}

#[derive(Deserialize)]
struct Rows<T> {
    rows: Vec<T>,
}

#[derive(Deserialize)]
struct Row {
    service_key: String,
    value_utf8: String,
}

/// An image that sessions or nodes use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FleetImage {
    /// The image's identity, or its first 32 digits if no existing session was opened in the image.
    pub image: String,
    /// The number of existing sessions that were opened in the image.
    pub sessions: u64,
    /// The addresses of the nodes with the image.
    pub nodes: Vec<String>,
}

impl FleetImage {
    fn new(image: &str) -> Self {
        Self { image: image.to_owned(), ..Self::default() }
    }
}

#[derive(Deserialize)]
struct Deployments {
    deployments: Vec<Deployment>,
}

#[derive(Deserialize)]
struct Deployment {
    uri: Option<String>,
    services: Vec<Service>,
}

#[derive(Deserialize)]
struct Service {
    name: String,
}

#[derive(Deserialize)]
struct SessionCount {
    sessions: u64,
}

/// The fields of a stored state that a listing shows.
#[derive(Deserialize)]
struct StoredState {
    session: FleetSession,
}

impl FleetClient {
    /// Maximum number of sessions per page.
    pub const MAX_PAGE: usize = 1_000;

    /// Lists the sessions whose names come after `after`, in one scope or in all scopes. `limit` is clamped to the
    /// range from 1 to [`MAX_PAGE`](Self::MAX_PAGE).
    ///
    /// # Errors
    /// [`FleetError`] if the engine cannot be reached or sends an unexpected response.
    pub async fn list(
        &self,
        scope: Option<&SessionId>,
        after: Option<&FleetName>,
        limit: usize,
    ) -> Result<FleetPage, FleetError> {
        let limit = limit.clamp(1, Self::MAX_PAGE);
        // The names are safe to interpolate: they contain only letters, digits, `.`, `_`, `-` and `!`.
        let scope = in_scope(scope);
        let after = after.map(|after| format!(" AND service_key > '{after}'")).unwrap_or_default();
        let query = format!(
            "SELECT service_key, value_utf8 FROM state WHERE starts_with(service_name, '{SERVICE_PREFIX}') \
             AND key = '{STATE_KEY}'{scope}{after} ORDER BY service_key LIMIT {}",
            limit + 1
        );
        let mut rows: Vec<Row> = self.query(query).await?;
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| has_more).and_then(|last| last.service_key.parse().ok());
        let sessions = rows.into_iter().map(|row| {
            let stored: Result<StoredState, _> = serde_json::from_str(&row.value_utf8);
            stored.map(|stored| stored.session).map_err(|error| FleetError::Answer(error.to_string()))
        });
        Ok(FleetPage { sessions: sessions.collect::<Result<_, _>>()?, next })
    }

    /// Counts the sessions of a scope, or all sessions.
    ///
    /// # Errors
    /// [`FleetError`] if the engine cannot be reached or sends an unexpected response.
    pub async fn count(&self, scope: Option<&SessionId>) -> Result<u64, FleetError> {
        let query = format!(
            "SELECT COUNT(*) AS sessions FROM state WHERE starts_with(service_name, '{SERVICE_PREFIX}') \
             AND key = '{STATE_KEY}'{}",
            in_scope(scope)
        );
        let rows: Vec<SessionCount> = self.query(query).await?;
        Ok(rows.into_iter().map(|row| row.sessions).sum())
    }

    /// Lists the images that sessions and nodes use.
    ///
    /// # Errors
    /// [`FleetError`] if the engine cannot be reached or sends an unexpected response.
    pub async fn images(&self) -> Result<Vec<FleetImage>, FleetError> {
        let mut images: BTreeMap<String, FleetImage> = BTreeMap::new();
        let mut after = None;
        loop {
            let page = self.list(None, after.as_ref(), Self::MAX_PAGE).await?;
            for session in page.sessions {
                let image = session.image_sha256;
                images.entry(image_service(&image)).or_insert_with(|| FleetImage::new(&image)).sessions += 1;
            }
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        let url = format!("{}/deployments", self.admin);
        let deployments = self.http.ask::<Deployments>(&url, None::<&()>, WAIT).await?;
        let deployments =
            deployments.map_err(|(status, text)| FleetError::Answer(format!("status {status}: {text}")))?;
        for deployment in deployments.deployments {
            for service in deployment.services.iter().filter(|service| service.name.starts_with(IMAGE_PREFIX)) {
                let digest = service.name.strip_prefix(IMAGE_PREFIX).unwrap_or_default();
                let image = images.entry(service.name.clone()).or_insert_with(|| FleetImage::new(digest));
                image.nodes.extend(deployment.uri.clone());
            }
        }
        Ok(images.into_values().collect())
    }

    async fn query<T: DeserializeOwned>(&self, query: String) -> Result<Vec<T>, FleetError> {
        let url = format!("{}/query", self.admin);
        let answer = self.http.ask::<Rows<T>>(&url, Some(&Query { query }), WAIT).await?;
        answer.map(|rows| rows.rows).map_err(|(status, text)| FleetError::Answer(format!("status {status}: {text}")))
    }
}

/// Returns the SQL condition for a scope.
fn in_scope(scope: Option<&SessionId>) -> String {
    scope.map(|scope| format!(" AND starts_with(service_key, '{scope}!')")).unwrap_or_default()
}

/// The timeout for connecting to the engine.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// The timeout for a response.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(3_600);
/// Maximum size of a response in bytes: the engine's default limit on the size of messages.
pub(crate) const MAX_ANSWER_BYTES: usize = 32 << 20;

/// An HTTP client for the engine. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Http(reqwest::Client);

/// The reason why a request to the engine failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error(transparent)]
    Request(#[from] reqwest::Error),
    #[error("the response exceeds {MAX_ANSWER_BYTES} bytes")]
    TooLong,
}

impl Http {
    pub(crate) fn new() -> Result<Self, FleetError> {
        // Ignore the error: it means that a provider is already installed.
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
            Some(question) => {
                // Serialize here, because reqwest's `json` feature is off.
                let body = serde_json::to_vec(question).map_err(|error| FleetError::Invalid(error.to_string()))?;
                self.0.post(url).header(http::header::CONTENT_TYPE, "application/json").body(body)
            }
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
    pub(crate) async fn is_healthy(&self, url: &str) -> bool {
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

fn unreachable(url: &str, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> FleetError {
    FleetError::Unreachable { url: url.to_owned(), source: error.into() }
}

impl RequestExecutor for Http {
    type Error = HttpError;

    async fn execute(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        self.send(request.try_into()?).await
    }
}
