//! Reading what requests bring along, within limits.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::Body,
    http::{HeaderMap, StatusCode, header},
};
use http_body_util::{BodyExt as _, Full};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use utoipa::ToSchema;

use super::Problem;

/// How much of the budget is taken at once.
const STEP_BYTES: usize = 16 << 10;

/// What all requests may hold together of what they bring along.
#[derive(Debug)]
pub(crate) struct BodyBudget {
    steps: Arc<Semaphore>,
    most_steps: usize,
    most_bytes: usize,
    time: Duration,
}

/// What counts against the budget until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Held(#[expect(dead_code, reason = "it is only kept")] Vec<OwnedSemaphorePermit>);

/// A request's body.
pub(crate) struct ReadBody {
    pub(crate) bytes: Vec<u8>,
    held: Held,
}

impl BodyBudget {
    /// `most_bytes`: of one request; `total_bytes`: of all; `time`: for reading one.
    pub(crate) fn new(most_bytes: usize, total_bytes: usize, time: Duration) -> Self {
        let steps = (total_bytes / STEP_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        Self { steps: Arc::new(Semaphore::new(steps)), most_steps: steps, most_bytes, time }
    }

    /// Reads a whole body.
    pub(crate) async fn read(&self, headers: &HeaderMap, body: Body) -> Result<ReadBody, Problem> {
        let announced =
            headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        if announced.is_some_and(|bytes| bytes > self.most_bytes) {
            return Err(self.too_large());
        }
        match tokio::time::timeout(self.time, self.read_all(body)).await {
            Ok(read) => read,
            Err(_) => {
                let seconds = self.time.as_secs();
                let detail = format!("the request did not come within {seconds} s; send it at once");
                Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", detail))
            }
        }
    }

    async fn read_all(&self, mut body: Body) -> Result<ReadBody, Problem> {
        let (mut bytes, mut held, mut room) = (Vec::new(), Vec::new(), 0);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Problem::invalid("the request's body broke off"))?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > self.most_bytes {
                return Err(self.too_large());
            }
            while room < bytes.len() + data.len() {
                let Ok(step) = Arc::clone(&self.steps).try_acquire_owned() else {
                    let detail = "the server has as many requests in memory as it may; try again in a moment";
                    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail);
                    return Err(Problem { retry_after: Some(1), ..problem });
                };
                held.push(step);
                room += STEP_BYTES;
            }
            bytes.extend_from_slice(&data);
        }
        Ok(ReadBody { bytes, held: Held(held) })
    }

    /// An answer, which counts against the budget until the client has it. It waits for room, which there is once slow clients have read
    /// theirs or were cut off.
    pub(crate) async fn answer(&self, bytes: Vec<u8>) -> Result<Body, Problem> {
        let most = self.most_steps;
        let steps = u32::try_from(bytes.len().div_ceil(STEP_BYTES).min(most)).unwrap_or(u32::MAX);
        let room = tokio::time::timeout(self.time, Arc::clone(&self.steps).acquire_many_owned(steps)).await;
        match room {
            Ok(Ok(held)) => Ok(Body::new(HeldBody { body: Full::from(bytes), _held: held })),
            _ => {
                let detail = "it was done, but the server has as many answers in memory as it may; read yours faster";
                Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail))
            }
        }
    }

    fn too_large(&self) -> Problem {
        let detail = format!("the request's body is over {} bytes; send less", self.most_bytes);
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
    }
}

impl ReadBody {
    /// The value that it is as JSON, and what to keep as long as that is there.
    pub(crate) fn json<T: DeserializeOwned>(self) -> Result<(T, Held), Problem> {
        if self.bytes.is_empty() {
            return Err(Problem::invalid("the request has no body; send a JSON object"));
        }
        let value = serde_json::from_slice(&self.bytes);
        value.map(|value| (value, self.held)).map_err(|error| Problem::invalid(format!("the request's body: {error}")))
    }

    /// The same, or the default where there is nothing.
    pub(crate) fn json_or_default<T: DeserializeOwned + Default>(self) -> Result<(T, Held), Problem> {
        if self.bytes.is_empty() { Ok((T::default(), self.held)) } else { self.json() }
    }
}

/// An answer, and what is held as long as it is not sent.
struct HeldBody {
    body: Full<axum::body::Bytes>,
    _held: OwnedSemaphorePermit,
}

impl http_body::Body for HeldBody {
    type Data = axum::body::Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Self::Data>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

/// Bytes in JSON: a string is their UTF-8, `{"base64": …}` any others.
#[derive(Clone, Debug, Default, ToSchema)]
#[schema(value_type = BytesForm)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

/// Bytes in JSON.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum BytesForm {
    /// Text, as UTF-8.
    Text(String),
    /// Any bytes.
    Base64 {
        /// In base64, with padding.
        base64: String,
    },
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use base64::{Engine as _, prelude::BASE64_STANDARD};
        use serde::de::Error;
        match BytesForm::deserialize(deserializer) {
            Ok(BytesForm::Text(text)) => Ok(Self(text.into_bytes())),
            Ok(BytesForm::Base64 { base64 }) => BASE64_STANDARD.decode(base64).map(Self).map_err(Error::custom),
            Err(_) => Err(Error::custom("bytes are a string, or an object `{\"base64\": \"…\"}`")),
        }
    }
}
