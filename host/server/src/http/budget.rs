//! Memory budget of requests and responses.

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

use super::{HttpConfig, Problem};
use crate::{
    ServiceError,
    byte_budget::{ByteBudget, NoRoom, Room},
};

pub(crate) use crate::byte_budget::Held;

/// Maximum size of one piece of a response, in bytes. The connection gets one piece at a time, which counts until it is
/// written.
pub(crate) const PIECE_BYTES: usize = 64 << 10;
/// Size up to which a response is sent even without room in the budget. An error would be as long, and each connection
/// sends one response at a time.
pub(super) const SHORT_BYTES: usize = 4 << 10;

/// Memory budget of all requests and responses together. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct BodyBudget {
    bytes: ByteBudget,
    max_bytes: usize,
    time: Duration,
}

/// A response, and the room that was reserved before it was built.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) bytes: Bytes,
    pub(super) room: Room,
}

/// A request body and its share of the budget.
pub(crate) struct ReadBody {
    pub(crate) bytes: Vec<u8>,
    pub(super) held: Held,
    tenant: Option<String>,
    budget: BodyBudget,
}

impl BodyBudget {
    /// Creates the budget of a configuration, in which each of `tenants` has a share.
    pub(crate) fn new<'a>(config: &HttpConfig, tenants: impl Iterator<Item = &'a str>) -> Self {
        let bytes = ByteBudget::new(config.bodies_bytes, config.body_time, tenants);
        Self { bytes, max_bytes: config.body_bytes, time: config.body_time }
    }

    /// Reads a whole body. Fails if the body is too large, arrives too slowly, or finds no room in the budget.
    pub(crate) async fn read(
        &self,
        tenant: Option<&str>,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<ReadBody, Problem> {
        let announced =
            headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        if announced.is_some_and(|bytes| bytes > self.max_bytes) {
            return Err(self.too_large());
        }
        match tokio::time::timeout(self.time, self.read_all(tenant, body)).await {
            Ok(read) => read,
            Err(_) => {
                let seconds = self.time.as_secs();
                let detail = format!("the request body was incomplete after {seconds} s; send it faster");
                Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", detail))
            }
        }
    }

    async fn read_all(&self, tenant: Option<&str>, mut body: Body) -> Result<ReadBody, Problem> {
        let (mut bytes, mut held) = (Vec::new(), Held::default());
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Problem::invalid("the request body ended early"))?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > self.max_bytes {
                return Err(self.too_large());
            }
            let len = bytes.len() + data.len();
            self.bytes.try_grow(tenant, &mut held, len).map_err(|NoRoom| too_many_requests())?;
            bytes.extend_from_slice(&data);
        }
        Ok(ReadBody { bytes, held, tenant: tenant.map(str::to_owned), budget: self.clone() })
    }

    /// Turns bytes into a response body that counts against the budget until it is written.
    pub(crate) async fn answer(&self, tenant: &str, bytes: Bytes) -> Result<Body, Problem> {
        let held = self.room(tenant, bytes.len()).await?;
        Ok(held_body(bytes, held))
    }

    /// Waits for room for a response. Slow clients free room when they read their responses or are disconnected.
    pub(crate) async fn room(&self, tenant: &str, bytes: usize) -> Result<Held, Problem> {
        self.bytes.room(Some(tenant), bytes).await.map_err(|NoRoom| too_many_answers())
    }

    /// Reserves room for a response before it is built, without waiting.
    pub(crate) fn reserve(&self, tenant: &str, bytes: usize) -> Result<Room, ServiceError> {
        self.bytes.reserve(Some(tenant), bytes).map_err(|NoRoom| ServiceError::NoRoom)
    }

    /// Turns the reservation for a response into room for its actual size of `bytes`.
    pub(crate) async fn settle(&self, tenant: &str, room: Room, bytes: usize) -> Result<Held, Problem> {
        self.bytes.settle(Some(tenant), room, bytes).await.map_err(|NoRoom| too_many_answers())
    }

    pub(crate) fn bytes(&self) -> &ByteBudget {
        &self.bytes
    }

    fn too_large(&self) -> Problem {
        let detail = format!("the request body is larger than {} bytes; send less", self.max_bytes);
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
    }
}

impl ReadBody {
    /// Grows the body's share of the budget to `bytes`, for the values that are parsed from it.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        let grown = self.budget.bytes.try_grow(self.tenant.as_deref(), &mut self.held, bytes);
        grown.map_err(|NoRoom| too_many_requests())
    }
}

fn unavailable(detail: &str) -> Problem {
    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail);
    Problem { retry_after: Some(1), ..problem }
}

fn too_many_requests() -> Problem {
    unavailable("the server's memory for requests is full; try again later")
}

pub(super) fn too_many_answers() -> Problem {
    unavailable("the request was carried out, but the server's memory for answers is full; read answers faster")
}

/// A response body that counts against the budget until it is written. It is sent in pieces: the connection would
/// buffer a whole body at once.
struct HeldBody {
    bytes: Bytes,
    held: Arc<Held>,
}

/// A piece of a response. The room of the response is held until its last piece is dropped.
struct Piece<H> {
    bytes: Bytes,
    _held: Arc<H>,
}

impl<H> AsRef<[u8]> for Piece<H> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns bytes that count against the budget until the connection has written them.
pub(crate) fn counted<H: Send + Sync + 'static>(bytes: Bytes, held: &Arc<H>) -> Bytes {
    Bytes::from_owner(Piece { bytes, _held: Arc::clone(held) })
}

/// Returns a body that counts against the budget until it is written.
pub(super) fn held_body(bytes: Bytes, held: Held) -> Body {
    Body::new(HeldBody { bytes, held: Arc::new(held) })
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
        let piece = self.bytes.split_to(len);
        Poll::Ready(Some(Ok(http_body::Frame::data(counted(piece, &self.held)))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.bytes.len() as u64)
    }
}

/// Splits a response that is sent without a [`HeldBody`] into pieces.
pub(crate) fn in_pieces(mut bytes: Bytes) -> impl Iterator<Item = Bytes> {
    std::iter::from_fn(move || {
        let len = bytes.len().min(PIECE_BYTES);
        (len > 0).then(|| bytes.split_to(len))
    })
}
