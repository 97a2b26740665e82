//! Memory budget for requests and responses: reads request bodies and charges responses.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    extract::{FromRequest, Request, State},
    http::{Extensions, HeaderMap, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use glovebox::Suspended;
use http_body::Body as _;
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;

use super::{HttpConfig, Problem, Shared};
use crate::{
    Service, ServiceError, Tenant,
    byte_budget::{BudgetExhausted, ByteBudget, ClientProcess, Room},
    tenant::ReplyRooms,
};

pub(crate) use crate::byte_budget::ChargedBytes;

/// Maximum size of a response chunk in bytes. The connection receives one chunk at a time, so that it does not buffer
/// the whole response.
pub(crate) const PIECE_BYTES: usize = 64 << 10;
/// Maximum size in bytes of a response that is sent even if the budget is exhausted. An error response would be about
/// as long. Each connection sends only one response at a time, so the memory of such responses is limited as well.
const SHORT_BYTES: usize = 4 << 10;

/// Maximum size of the journal and the calls in the bytes of a suspended execution, in addition to the script and its
/// input.
const MAX_RECEIVED_BYTES: usize = 4 << 20;

/// The memory budget for all requests and responses. Clones share the budget.
#[derive(Clone, Debug)]
pub(crate) struct BodyBudget {
    bytes: ByteBudget,
    max_bytes: usize,
    time: Duration,
}

/// A response and the memory reserved before it was built.
#[derive(Debug)]
pub(super) struct ReservedResponse {
    pub(super) bytes: Bytes,
    pub(super) room: Room,
}

/// A request body and the memory charged for it.
pub(crate) struct ReadBody {
    pub(crate) bytes: Vec<u8>,
    pub(super) held: ChargedBytes,
    tenant: Option<String>,
    budget: BodyBudget,
}

impl BodyBudget {
    /// Creates a budget of `max_bytes`, in which each tenant has a share.
    pub(crate) fn new<'a>(config: &HttpConfig, max_bytes: usize, tenants: impl Iterator<Item = &'a str>) -> Self {
        let bytes = ByteBudget::new(max_bytes, config.body_time, tenants);
        Self { bytes, max_bytes: config.body_bytes, time: config.body_time }
    }

    /// Reads a whole body. Fails if the body is too large, ends early or arrives too slowly, or if the budget has no
    /// room for it.
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
                let detail = format!("the request body did not arrive completely within {seconds} s; send it faster");
                Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", detail))
            }
        }
    }

    async fn read_all(&self, tenant: Option<&str>, mut body: Body) -> Result<ReadBody, Problem> {
        let (mut bytes, mut held) = (Vec::new(), ChargedBytes::default());
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Problem::invalid("the request body ended early; send it again"))?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > self.max_bytes {
                return Err(self.too_large());
            }
            let len = bytes.len() + data.len();
            self.bytes.try_grow(tenant, &mut held, len).map_err(|BudgetExhausted| too_many_requests())?;
            bytes.extend_from_slice(&data);
        }
        Ok(ReadBody { bytes, held, tenant: tenant.map(str::to_owned), budget: self.clone() })
    }

    /// Reserves memory for a response that is about to be built, without waiting.
    pub(crate) fn reserve(&self, tenant: &str, bytes: usize) -> Result<Room, ServiceError> {
        self.bytes.reserve(Some(tenant), bytes).map_err(|BudgetExhausted| self.refusal(tenant, bytes))
    }

    /// Returns the error for a response of `bytes` for which the budget has no room. A retry cannot succeed if the
    /// response exceeds the tenant's share of the budget.
    fn refusal(&self, tenant: &str, bytes: usize) -> ServiceError {
        let max = self.bytes.max_bytes(Some(tenant));
        if bytes > max { ServiceError::AnswerTooLarge { bytes, max } } else { ServiceError::NoRoom }
    }

    /// Grows the memory charged for a result to the size of its response, `bytes`, without waiting.
    pub(crate) fn grow(&self, tenant: &str, held: &mut ChargedBytes, bytes: usize) -> Result<(), ServiceError> {
        let more = self.bytes.try_room(Some(tenant), bytes.saturating_sub(held.bytes()));
        held.join(more.map_err(|BudgetExhausted| self.refusal(tenant, bytes))?);
        Ok(())
    }

    /// Adjusts the memory reserved for a response to its actual size, `bytes`.
    pub(crate) async fn settle(&self, tenant: &str, room: Room, bytes: usize) -> Result<ChargedBytes, Problem> {
        self.bytes.settle(Some(tenant), room, bytes).await.map_err(|BudgetExhausted| too_many_answers())
    }

    pub(crate) fn bytes(&self) -> &ByteBudget {
        &self.bytes
    }

    /// Returns the maximum size of a suspended execution in bytes. The script and its input fit in the body of a
    /// request, so a client can suspend almost every execution that it can start.
    pub(super) fn max_suspended_bytes(&self) -> usize {
        self.max_bytes.saturating_add(MAX_RECEIVED_BYTES).min(Suspended::MAX_BYTES)
    }

    /// Returns this budget for requests that resume an execution. In addition to `body_bytes`, their bodies contain the
    /// bytes of the execution in base64.
    fn for_resumption(&self) -> Self {
        let base64 = self.max_suspended_bytes().div_ceil(3).saturating_mul(4);
        Self { max_bytes: self.max_bytes.saturating_add(base64), ..self.clone() }
    }

    /// Returns the budget for a request. Requests over a Unix socket are limited per client process.
    fn of_request(&self, extensions: &Extensions) -> Self {
        match extensions.get::<ClientProcess>() {
            Some(process) => Self { bytes: self.bytes.of_client(*process), ..self.clone() },
            None => self.clone(),
        }
    }

    fn too_large(&self) -> Problem {
        let detail = format!("the request body is larger than {} bytes; send a smaller body", self.max_bytes);
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
    }
}

impl ReadBody {
    /// Grows the charged memory to `bytes`, to account for the values that are parsed from the body.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        let grown = self.budget.bytes.try_grow(self.tenant.as_deref(), &mut self.held, bytes);
        grown.map_err(|BudgetExhausted| too_many_requests())
    }
}

fn unavailable(detail: &str) -> Problem {
    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail);
    Problem { retry_after: Some(1), ..problem }
}

fn too_many_requests() -> Problem {
    unavailable("the server's memory for requests is full; try again later")
}

fn too_many_answers() -> Problem {
    unavailable("the request was executed, but the server's memory for responses is full; read responses faster")
}

/// A response body that is charged to the budget until it is written. It is sent in chunks, because the connection
/// would otherwise buffer the whole body.
struct ChargedBody {
    bytes: Bytes,
    held: Arc<ChargedBytes>,
}

/// A chunk of a response. The response is charged until its last chunk is dropped.
struct Piece<H> {
    bytes: Bytes,
    _held: Arc<H>,
}

impl<H> AsRef<[u8]> for Piece<H> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns bytes that stay charged until the connection has written them.
pub(crate) fn charged_bytes<H: Send + Sync + 'static>(bytes: Bytes, held: &Arc<H>) -> Bytes {
    Bytes::from_owner(Piece { bytes, _held: Arc::clone(held) })
}

/// Returns a body that is charged to the budget until it is written.
pub(super) fn charged_body(bytes: Bytes, held: ChargedBytes) -> Body {
    Body::new(ChargedBody { bytes, held: Arc::new(held) })
}

impl http_body::Body for ChargedBody {
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
        Poll::Ready(Some(Ok(http_body::Frame::data(charged_bytes(piece, &self.held)))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.bytes.len() as u64)
    }
}

/// Splits a response that is sent without [`ChargedBody`] into chunks.
pub(crate) fn in_pieces(mut bytes: Bytes) -> impl Iterator<Item = Bytes> {
    std::iter::from_fn(move || {
        let len = bytes.len().min(PIECE_BYTES);
        (len > 0).then(|| bytes.split_to(len))
    })
}

impl FromRequest<Shared> for ReadBody {
    type Rejection = Problem;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, Problem> {
        Self::of(request, shared, BodyBudget::clone).await
    }
}

/// The body of a request that resumes an execution.
pub(crate) struct ReadResumption(pub(super) ReadBody);

impl FromRequest<Shared> for ReadResumption {
    type Rejection = Problem;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, Problem> {
        ReadBody::of(request, shared, BodyBudget::for_resumption).await.map(Self)
    }
}

impl ReadBody {
    /// Reads the body of a request. `limited` adjusts the budget of the request's client.
    async fn of(request: Request, shared: &Shared, limited: fn(&BodyBudget) -> BodyBudget) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let tenant = parts.extensions.get::<Tenant>().map(Tenant::name);
        let bodies = limited(parts.extensions.get::<BodyBudget>().unwrap_or(&shared.bodies));
        bodies.read(tenant, &parts.headers, body).await
    }

    /// Returns the bytes and the charged memory, which must be held while the bytes exist.
    pub(crate) fn into_parts(self) -> (Vec<u8>, ChargedBytes) {
        (self.bytes, self.held)
    }

    /// Runs `read`. Large bodies are parsed on a blocking thread, so that they do not delay other requests.
    pub(crate) async fn parse_with<T: Send + 'static>(
        self,
        read: impl FnOnce(Self) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        if self.bytes.len() <= PIECE_BYTES { read(self) } else { Service::blocking(move || read(self)).await? }
    }

    /// Parses the body as JSON. Returns the value and the charged memory, which must be held while the value exists.
    pub(crate) fn json<T: DeserializeOwned>(self) -> Result<(T, ChargedBytes), Problem> {
        self.json_with(|_| Ok(0))
    }

    /// Like [`json`](Self::json), for a value that contains JSON text to parse later. `parsed_bytes` returns the memory
    /// that the parsed text will occupy, which is charged in addition to the body.
    pub(super) fn json_with<T: DeserializeOwned>(
        mut self,
        parsed_bytes: impl FnOnce(&T) -> Result<usize, Problem>,
    ) -> Result<(T, ChargedBytes), Problem> {
        if self.bytes.is_empty() {
            return Err(Problem::invalid("the request has no body; send a JSON object"));
        }
        let len = self.bytes.len();
        if len > PIECE_BYTES {
            // Charge the body twice, because the value contains copies of the body's strings.
            self.grow(2 * len)?;
        }
        let value = serde_json::from_slice(&self.bytes).map_err(Problem::invalid_body)?;
        let total = len + parsed_bytes(&value)?;
        self.grow(total)?;
        let Self { bytes, mut held, .. } = self;
        drop(bytes);
        held.shrink(total);
        Ok((value, held))
    }

    /// Like [`json`](Self::json), but returns the default value for an empty body.
    pub(crate) fn json_or_default<T: DeserializeOwned + Default>(self) -> Result<(T, ChargedBytes), Problem> {
        if self.bytes.is_empty() { Ok((T::default(), self.held)) } else { self.json() }
    }
}

impl AsRef<[u8]> for ReadBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A marker for responses that are already charged to the budget.
#[derive(Clone, Copy)]
pub(super) struct AlreadyCharged;

/// Middleware that charges responses, including error responses, to the memory budget with [`count_answer`]. Adds the
/// budget to the request's extensions.
pub(super) async fn count(State(shared): State<Shared>, mut request: Request, next: Next) -> Response {
    let (replies, bodies) = (ReplyRooms::default(), shared.bodies.of_request(request.extensions()));
    request.extensions_mut().insert(replies.clone());
    request.extensions_mut().insert(bodies.clone());
    let is_head = request.method() == Method::HEAD;
    let tenant = shared.tenants.authenticate(request.headers()).ok().map(Tenant::name).map(str::to_owned);
    let response = next.run(request).await;
    let held = replies.take();
    if is_head { response } else { count_answer(&bodies, tenant.as_deref(), held, response).await }
}

/// Charges a response until it is written. Reuses `held`, the charge for the data from which the response was built.
/// Replaces the response with an error if the budget has no room, unless the response is short. Ignores responses that
/// are marked as [`AlreadyCharged`] or have no known length.
pub(crate) async fn count_answer(
    bodies: &BodyBudget,
    tenant: Option<&str>,
    held: ChargedBytes,
    response: Response,
) -> Response {
    let is_counted = response.extensions().get::<AlreadyCharged>().is_some();
    let Some(len) = response.body().size_hint().exact().filter(|len| !is_counted && *len > 0) else { return response };
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    let held = match bodies.bytes().try_resize(tenant, held, len) {
        Ok(held) => held,
        Err(_) if len <= SHORT_BYTES => return response,
        Err(_) => match bodies.bytes().room(tenant, len).await {
            Ok(held) => held,
            Err(_) => return too_many_answers().into_response(),
        },
    };
    let (parts, body) = response.into_parts();
    match body.collect().await {
        Ok(body) => Response::from_parts(parts, charged_body(body.to_bytes(), held)),
        Err(_) => Response::from_parts(parts, Body::empty()),
    }
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::StatusCode};

    use super::{
        super::{HttpConfig, Problem},
        *,
    };

    fn bodies(bytes: usize) -> BodyBudget {
        let config = HttpConfig { body_time: Duration::from_millis(20), ..HttpConfig::default() };
        BodyBudget::new(&config, bytes, ["a"].into_iter())
    }

    fn response(bytes: usize) -> Response {
        Response::new(Body::from(vec![b'x'; bytes]))
    }

    #[tokio::test]
    async fn unread_answers_are_bounded() {
        let bodies = bodies(1 << 20);
        let mut unread = Vec::new();
        let mut refused = 0;
        for _ in 0..40 {
            let answer = count_answer(&bodies, Some("a"), ChargedBytes::default(), response(100_000)).await;
            refused += usize::from(answer.status() == StatusCode::SERVICE_UNAVAILABLE);
            unread.push(answer);
        }
        assert_eq!(refused, 30, "only ten answers of 100,000 bytes fit");
        let short = count_answer(&bodies, Some("a"), ChargedBytes::default(), response(100)).await;
        assert_eq!(short.status(), StatusCode::OK, "short answers are never refused");
        drop(unread);
        let later = count_answer(&bodies, Some("a"), ChargedBytes::default(), response(1 << 19)).await;
        assert_eq!(later.status(), StatusCode::OK);
    }

    #[tokio::test]
    async fn an_answer_takes_over_the_memory_of_its_data() {
        let bodies = bodies(1 << 20);
        for data in [600 << 10, 700 << 10, 800 << 10] {
            let held = bodies.bytes().try_room(Some("a"), data).unwrap();
            let answer = count_answer(&bodies, Some("a"), held, response(700 << 10)).await;
            assert_eq!((answer.status(), bodies.bytes().free_bytes(Some("a"))), (StatusCode::OK, 324 << 10));
        }
        assert_eq!(bodies.bytes().free_bytes(Some("a")), 1 << 20);
    }

    #[tokio::test]
    async fn an_answer_counts_until_its_last_byte_is_written() {
        let bodies = bodies(256 << 10);
        let answer = count_answer(&bodies, None, ChargedBytes::default(), response(100_000)).await;
        let mut answer = answer.into_body();
        let mut written = Vec::new();
        while let Some(frame) = answer.frame().await {
            written.push(frame.unwrap().into_data().unwrap());
        }
        drop(answer);
        assert_eq!(written.iter().map(|piece| piece.len()).collect::<Vec<_>>(), [65_536, 34_464]);
        assert!(bodies.bytes().try_room(None, 60_000).is_err());
        drop(written);
        drop(bodies.bytes().try_room(None, 60_000).unwrap());
    }

    #[tokio::test]
    async fn parsed_values_are_charged_until_they_are_dropped() {
        let bodies = bodies(1 << 20);
        let charge = async |bytes: usize| {
            let body = bodies.read(Some("a"), &HeaderMap::new(), Body::from("[1]")).await?;
            body.json_with(|_: &[u8; 1]| Ok(bytes - "[1]".len()))
        };
        let (value, held) = charge(600 << 10).await.unwrap();
        assert_eq!((value, held.bytes()), ([1], 600 << 10));
        assert_eq!(charge((424 << 10) + 1).await.unwrap_err().status, 503);
        for bytes in [(424 << 10) - 1, 424 << 10] {
            drop(charge(bytes).await.unwrap());
        }
        drop(held);
        assert_eq!(charge((424 << 10) + 1).await.unwrap().1.bytes(), 425 << 10);
    }

    #[tokio::test]
    async fn body_of_a_resumption_has_room_for_the_suspended_execution() {
        let config = HttpConfig { body_bytes: 1_000, ..HttpConfig::default() };
        let bodies = BodyBudget::new(&config, 64 << 20, ["a"].into_iter());
        let base64 = (1_000 + MAX_RECEIVED_BYTES).div_ceil(3) * 4;
        for (bodies, max) in [(bodies.for_resumption(), 1_000 + base64), (bodies, 1_000)] {
            for (bytes, status) in [(max, Ok(())), (max + 1, Err(413))] {
                let read = bodies.read(Some("a"), &HeaderMap::new(), Body::from(vec![b' '; bytes])).await;
                assert_eq!(read.map(drop).map_err(|problem| problem.status), status, "{bytes}");
            }
        }
    }

    #[test]
    fn problem_size_is_limited() {
        for letter in ["x", "\u{202e}", "\u{1}"] {
            let problem = Problem::invalid(letter.repeat(1 << 20));
            assert!(serde_json::to_vec(&problem).unwrap().len() < 8 << 10);
        }
    }
}
