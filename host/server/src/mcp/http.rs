//! MCP over HTTP, and the memory charged for requests and responses.

use std::{
    collections::HashMap,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, request::Parts},
    response::{IntoResponse as _, Response},
    routing::any,
};
use http_body::Body as _;
use rmcp::{
    RoleServer,
    model::Extensions,
    service::RequestContext,
    transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::{McpServer, connections::Connections};
use crate::{
    Tenant,
    byte_budget::{BudgetExhausted, ChargedBytes},
    http::{BodyBudget, HttpConfig, Names, PIECE_BYTES, Problem, Tenants, charged_bytes, count_answer},
    json::{JsonCost, json_len},
};

/// Maximum number of connected clients per tenant that use a protocol version before 2026-07-28. The server holds a
/// task and several queues for each of them. Clients with later versions occupy nothing between requests.
const MAX_CLIENTS: usize = 1_024;

/// Maximum memory of an `initialize` request in bytes: the length of its text and the cost of its values. The protocol
/// library keeps the client's description and capabilities until the client disconnects, and the memory budget does not
/// charge them.
const MAX_INITIALIZE_BYTES: usize = 64 << 10;

/// The idle time after which a client with an older protocol version is disconnected. The client can connect again and
/// still use its sandbox sessions.
const CLIENT_IDLE: Duration = Duration::from_secs(3_600);

/// Maximum length of the protocol version in a header, in bytes.
const MAX_VERSION_BYTES: usize = 100;

/// Maximum length of a request ID as JSON, in bytes.
pub(super) const MAX_ID_BYTES: usize = 1_000;

/// The number of copies of a request's text in memory: the body, the parsed message, and the tool arguments or the
/// decoded `requestState`.
const REQUEST_COPIES: usize = 3;

/// Maximum length in bytes of an error response from the protocol library, which repeats the request's ID. A longer
/// error response quotes a whole value of the request, and is replaced.
const MAX_ERROR_BYTES: u64 = 2 << 10;

/// The interval between keep-alive writes to an open response. Only a failed write reveals that a client has
/// disconnected, so that its work can be cancelled.
const KEEP_ALIVE: Duration = Duration::from_secs(2);

/// Returns the streamable HTTP route `/mcp`, for [`http::serve`](crate::http::serve).
///
/// `listing` describes, for models, the host functions that scripts can call; it is used only for tenants with tools.
/// `bound` is the address on which the server listens. Cancelling `stop` closes all open streams, so that the server
/// can shut down.
pub fn router(
    tenants: Tenants,
    listing: &str,
    config: &HttpConfig,
    bound: SocketAddr,
    stop: CancellationToken,
) -> Router {
    let bodies = BodyBudget::new(config, config.bodies_bytes, tenants.all().map(Tenant::name));
    tenants.all().for_each(|tenant| tenant.service().set_reply_budget(bodies.bytes()));
    let endpoint = Endpoint {
        listing: listing.to_owned(),
        names: Names::new(config, bound),
        bodies,
        body_bytes: config.body_bytes,
        stop,
        clients: Mutex::default(),
        tenants,
    };
    Router::new().route("/mcp", any(handle)).with_state(Arc::new(endpoint))
}

struct Endpoint {
    tenants: Tenants,
    listing: String,
    names: Names,
    bodies: BodyBudget,
    body_bytes: usize,
    stop: CancellationToken,
    /// Keyed by tenant name.
    clients: Mutex<HashMap<String, Arc<Clients>>>,
}

/// The MCP service of a tenant, and its connected clients.
struct Clients {
    service: StreamableHttpService<McpServer, Connections>,
    connected: Arc<Connections>,
}

impl Clients {
    /// Checks an `initialize` request, which needs `bytes` of memory, against the limits for connected clients.
    async fn admit(&self, bytes: usize) -> Result<(), Problem> {
        if bytes > MAX_INITIALIZE_BYTES {
            let detail = format!(
                "the `initialize` request needs {bytes} bytes of memory; the maximum is {MAX_INITIALIZE_BYTES}; \
                 shorten `clientInfo` and `capabilities`"
            );
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail));
        }
        if self.connected.count().await >= MAX_CLIENTS {
            let detail = format!("too many connected clients: the limit is {MAX_CLIENTS}; try again later");
            let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail);
            return Err(Problem { retry_after: Some(60), ..problem });
        }
        Ok(())
    }
}

impl Endpoint {
    fn clients(&self, tenant: &Tenant) -> Arc<Clients> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let of_tenant = clients.entry(tenant.name().to_owned()).or_insert_with(|| Arc::new(self.make(tenant)));
        Arc::clone(of_tenant)
    }

    fn make(&self, tenant: &Tenant) -> Clients {
        let config = StreamableHttpServerConfig::default()
            // `answer` has already checked `Host` and `Origin`, with stricter rules.
            .disable_allowed_hosts()
            .with_max_request_body_bytes(self.body_bytes)
            .with_sse_keep_alive(Some(KEEP_ALIVE))
            .with_cancellation_token(self.stop.child_token());
        let connected = Arc::new(Connections::new(CLIENT_IDLE));
        let listing = if tenant.has_tools() { &*self.listing } else { "" };
        let server = McpServer::new(tenant.clone(), listing);
        let service = StreamableHttpService::new(move || Ok(server.clone()), Arc::clone(&connected), config);
        Clients { service, connected }
    }
}

async fn handle(State(endpoint): State<Arc<Endpoint>>, request: Request) -> Response {
    match answer(&endpoint, request).await {
        Ok(response) => response,
        Err(problem) => count_answer(&endpoint.bodies, None, ChargedBytes::default(), problem.into_response()).await,
    }
}

async fn answer(endpoint: &Endpoint, request: Request) -> Result<Response, Problem> {
    endpoint.names.check(request.uri(), request.headers())?;
    let tenant = endpoint.tenants.authenticate(request.headers())?.clone();
    let clients = endpoint.clients(&tenant);
    let (mut parts, body) = request.into_parts();
    check_version(&parts.headers)?;
    let mut read = endpoint.bodies.read(Some(tenant.name()), &parts.headers, body).await?;
    let cost = JsonCost::of(&read.bytes)
        .map_err(|error| Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", error.to_string()))?;
    read.grow(read.bytes.len() * REQUEST_COPIES + cost)?;
    if parts.method == Method::POST {
        let message = Message::parse(&read.bytes)?;
        message.check_id()?;
        if message.is_initialize() {
            clients.admit(read.bytes.len() + cost).await?;
        }
    }
    let (bytes, held) = read.into_parts();
    let account = Account::new(&endpoint.bodies, tenant.name(), held);
    parts.extensions.insert(account.clone());
    let response = clients.service.handle(Request::from_parts(parts, Body::from(bytes))).await.map(Body::new);
    if response.status().is_client_error() && response.body().size_hint().lower() > MAX_ERROR_BYTES {
        let detail = "the request body is invalid, or the `MCP-Protocol-Version` and `Mcp-*` headers do not match it; the \
                      full error is too long to send";
        return Err(Problem::invalid(detail));
    }
    Ok(account.hold(response))
}

/// The fields of a message that are checked before the protocol library parses it.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
}

impl<'a> Message<'a> {
    /// Parses a message. Fails if a field occurs twice, because the protocol library could use the other value.
    fn parse(body: &'a [u8]) -> Result<Self, Problem> {
        serde_json::from_slice(body).map_err(Problem::invalid_body)
    }

    /// Rejects an overlong request ID, because the response would repeat it.
    fn check_id(&self) -> Result<(), Problem> {
        match self.id.map(|id| id.get().len()) {
            Some(bytes) if bytes > MAX_ID_BYTES => Err(Problem::invalid(format!(
                "the request's `id` is {bytes} bytes; the maximum is {MAX_ID_BYTES}; shorten it"
            ))),
            _ => Ok(()),
        }
    }

    /// Returns `true` if the request connects a client, or replaces the description of a connected client. The protocol
    /// library decides by the method alone: the headers can name any version and any client.
    fn is_initialize(&self) -> bool {
        let method = self.method.and_then(|method| serde_json::from_str::<String>(method.get()).ok());
        method.as_deref() == Some("initialize")
    }
}

/// Rejects an overlong protocol version, because the response would quote it.
fn check_version(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.get("mcp-protocol-version") {
        Some(version) if version.len() > MAX_VERSION_BYTES => {
            Err(Problem::invalid("`MCP-Protocol-Version` is not a valid version; use for example `2026-07-28`"))
        }
        _ => Ok(()),
    }
}

/// The number of copies of a response in memory: as values, and as JSON.
const ANSWER_COPIES: usize = 2;

/// Memory charged until the response to a request is written: for the request, and for the response once its length is
/// known.
#[derive(Clone, Debug)]
pub(super) struct Account {
    bodies: BodyBudget,
    tenant: Arc<str>,
    held: Arc<Mutex<ChargedBytes>>,
}

impl Account {
    /// Creates a request's account. `held` is the memory that is already charged for the request.
    pub(super) fn new(bodies: &BodyBudget, tenant: &str, held: ChargedBytes) -> Self {
        Self { bodies: bodies.clone(), tenant: tenant.into(), held: Arc::new(Mutex::new(held)) }
    }

    /// Returns the account in a request's extensions, or `None` if the request did not arrive over HTTP.
    pub(super) fn of(extensions: &Extensions) -> Option<&Self> {
        extensions.get::<Parts>().and_then(|parts| parts.extensions.get::<Self>())
    }

    /// Reserves memory for data from which a response is built, without waiting. Reserves nothing if the request did
    /// not arrive over HTTP.
    pub(super) fn reserve(context: &RequestContext<RoleServer>, bytes: usize) -> Result<ChargedBytes, BudgetExhausted> {
        let Some(Self { bodies, tenant, .. }) = Self::of(&context.extensions) else {
            return Ok(ChargedBytes::default());
        };
        bodies.bytes().try_room(Some(tenant), bytes)
    }

    /// Charges a response to the memory budget. First takes over `data`, the charge for the data from which the response
    /// was built. Does nothing if the request did not arrive over HTTP.
    pub(super) async fn count(
        context: &RequestContext<RoleServer>,
        data: ChargedBytes,
        answer: &impl Serialize,
    ) -> Result<(), BudgetExhausted> {
        let Some(Self { bodies, tenant, held }) = Self::of(&context.extensions) else { return Ok(()) };
        // A response that cannot be serialized is not sent and needs no memory.
        let len = ANSWER_COPIES * json_len(answer).unwrap_or_default();
        let more = match bodies.bytes().try_resize(Some(tenant), data, len) {
            Ok(more) => more,
            Err(BudgetExhausted) => bodies.bytes().room(Some(tenant), len).await?,
        };
        held.lock().unwrap_or_else(PoisonError::into_inner).join(more);
        Ok(())
    }

    /// Wraps the response's body so that the charged memory is released when the body has been written.
    pub(super) fn hold(self, response: Response) -> Response {
        response.map(|body| Body::new(AccountedBody { body, left: Bytes::new(), held: self.held }))
    }
}

/// A body split into chunks. The memory of its account stays charged until the last chunk is written.
struct AccountedBody {
    body: Body,
    left: Bytes,
    held: Arc<Mutex<ChargedBytes>>,
}

impl http_body::Body for AccountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, axum::Error>>> {
        while self.left.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.left = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                end => return Poll::Ready(end),
            }
        }
        let len = self.left.len().min(PIECE_BYTES);
        let piece = self.left.split_to(len);
        Poll::Ready(Some(Ok(http_body::Frame::data(charged_bytes(piece, &self.held)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        if self.left.is_empty() { self.body.size_hint() } else { http_body::SizeHint::default() }
    }
}
