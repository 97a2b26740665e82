//! What requests and answers may hold of the server's memory.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, StatusCode, header},
};
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Problem;

/// How much of an answer the connection is given at once. What it has is no longer counted.
pub(super) const PIECE_BYTES: usize = 64 << 10;
/// How many answers wait for room at once.
const LATE_ANSWERS: usize = 16;

/// How much of the budget is taken at once.
const STEP_BYTES: usize = 16 << 10;

/// What all requests may hold together of what they bring along.
#[derive(Debug)]
pub(crate) struct BodyBudget {
    steps: Arc<Semaphore>,
    late: Semaphore,
    max_steps: usize,
    max_bytes: usize,
    time: Duration,
}

/// What counts against the budget until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Held(#[expect(dead_code, reason = "it is only held")] Vec<OwnedSemaphorePermit>);

/// A request's body.
pub(crate) struct ReadBody {
    pub(crate) bytes: Vec<u8>,
    pub(super) held: Held,
}

impl BodyBudget {
    /// `max_bytes`: of one request; `total_bytes`: of all; `time`: for reading one.
    pub(crate) fn new(max_bytes: usize, total_bytes: usize, time: Duration) -> Self {
        let steps = (total_bytes / STEP_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        let late = Semaphore::new(LATE_ANSWERS);
        Self { steps: Arc::new(Semaphore::new(steps)), late, max_steps: steps, max_bytes, time }
    }

    /// Reads a whole body.
    pub(crate) async fn read(&self, headers: &HeaderMap, body: Body) -> Result<ReadBody, Problem> {
        let announced =
            headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        if announced.is_some_and(|bytes| bytes > self.max_bytes) {
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
            if bytes.len() + data.len() > self.max_bytes {
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

    /// An answer, which counts against the budget until the connection has it.
    pub(crate) async fn answer(&self, bytes: Bytes) -> Result<Body, Problem> {
        let held = self.room(bytes.len()).await?;
        Ok(Body::new(HeldBody { bytes, _held: held }))
    }

    /// Room for an answer. There is some again once slow clients have read theirs or were cut off.
    pub(crate) async fn room(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Problem> {
        let steps = u32::try_from(bytes.div_ceil(STEP_BYTES).min(self.max_steps)).unwrap_or(u32::MAX);
        if let Ok(room) = Arc::clone(&self.steps).try_acquire_many_owned(steps) {
            return Ok(room);
        }
        let full = |_| {
            let detail = "it was done, but the server has as many answers in memory as it may; read yours faster";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
        };
        let _late = self.late.try_acquire().map_err(|_| full(()))?;
        let room = tokio::time::timeout(self.time, Arc::clone(&self.steps).acquire_many_owned(steps)).await;
        room.map_err(|_| full(()))?.map_err(|_| full(()))
    }

    fn too_large(&self) -> Problem {
        let detail = format!("the request's body is over {} bytes; send less", self.max_bytes);
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
    }
}

/// An answer, and what is held until the connection has it. It is given in pieces: of one that is whole the connection would take all
/// at once, and have it in memory as long as its client does not read.
struct HeldBody {
    bytes: Bytes,
    _held: OwnedSemaphorePermit,
}

impl http_body::Body for HeldBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Self::Data>, Infallible>>> {
        if self.bytes.is_empty() {
            return Poll::Ready(None);
        }
        let len = self.bytes.len().min(PIECE_BYTES);
        Poll::Ready(Some(Ok(http_body::Frame::data(self.bytes.split_to(len)))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.bytes.len() as u64)
    }
}

/// The pieces of an answer that goes to a connection by itself.
pub(crate) fn in_pieces(mut bytes: Bytes) -> impl Iterator<Item = Bytes> {
    std::iter::from_fn(move || {
        let len = bytes.len().min(PIECE_BYTES);
        (len > 0).then(|| bytes.split_to(len))
    })
}
