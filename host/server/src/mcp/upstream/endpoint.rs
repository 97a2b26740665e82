//! HTTP client for servers with a URL, with limits on the size and the values of each message.
//!
//! The response to a POST contains the result, as JSON or as an event stream. The stream for messages from the server
//! (GET) and the resumption of broken streams are not supported, because only results are used.

use std::{collections::HashMap, error::Error, pin::pin, sync::Arc, time::Duration};

use axum::body::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use reqwest::{
    Body, Client, RequestBuilder, Response, StatusCode, Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect::Policy,
};
use rmcp::{
    model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerResult},
    transport::{
        common::client_side_sse::{BoxedSseResponse, NeverRetry},
        streamable_http_client::{
            SseError, StreamableHttpClient, StreamableHttpClientTransport, StreamableHttpClientTransportConfig,
            StreamableHttpError, StreamableHttpPostResponse,
        },
    },
};
use sse_stream::SseStream;
use tokio_stream::StreamExt as _;

use super::{EndpointConfig, connection::START};
use crate::json::JsonCost;

/// The timeout for establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of redirects per request.
const MAX_REDIRECTS: usize = 3;

/// Maximum number of simultaneous requests to a server. Further requests wait. Each request can buffer a message of the
/// maximum size.
pub(super) const MAX_REQUESTS: usize = 64;

/// Maximum length of a failure's cause in an error message, in characters.
const MAX_REASON_CHARS: usize = 200;

const SESSION_ID: &str = "mcp-session-id";

pub(super) const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream";

/// Headers that the client sets itself, and headers that concern the connection instead of the request. Headers that
/// begin with `mcp-` are also reserved.
const RESERVED_HEADERS: [&str; 13] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The code of the JSON-RPC error with which some servers reject an unknown session, with HTTP 400 instead of 404. With
/// any other status, it is the code of a failed call, which must not be retried.
const UNKNOWN_SESSION: i32 = -32_000;

/// A failed request. The text completes a sentence that begins with the server's name. It contains neither the URL nor
/// headers.
#[derive(Debug, thiserror::Error)]
pub(super) enum EndpointError {
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    #[error("answered with a redirect (HTTP {0}), which is not followed; set its `url` to the final address")]
    Redirect(u16),
    #[error("answered with HTTP {0}")]
    Status(u16),
    #[error("sent a message that was too long or had too many values")]
    TooLarge,
    #[error("ended its response early: {0}")]
    BrokenOff(String),
    #[error("did not answer as an MCP server: the response contains no result")]
    NoResult,
}

type HttpError = StreamableHttpError<EndpointError>;

impl EndpointConfig {
    /// Returns the headers of each request. The error completes a sentence that begins with the server's name, and
    /// contains no value.
    pub(super) fn header_map(&self) -> Result<HeaderMap, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let parsed = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(value).ok());
            let Some((parsed, mut value)) = parsed else {
                return Err(format!("has the invalid header `{}`; correct its name or value", glovebox::escaped(name)));
            };
            if is_reserved(&parsed) {
                return Err(format!("sets the header `{}`, which is reserved; remove it", glovebox::escaped(name)));
            }
            value.set_sensitive(true);
            headers.insert(parsed, value);
        }
        Ok(headers)
    }

    /// Creates a client that sends the headers with each request. The error completes a sentence that begins with the
    /// server's name.
    pub(super) fn client(&self) -> Result<Client, String> {
        // Ignore the error: it means that a provider is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = Client::builder()
            .user_agent(concat!("glovebox/", env!("CARGO_PKG_VERSION")))
            .default_headers(self.header_map()?)
            .redirect(same_origin())
            // A proxy from the environment would receive the headers.
            .no_proxy()
            .referer(false)
            .http1_only()
            .connect_timeout(CONNECT_TIMEOUT);
        let builder = match Url::parse(&self.url) {
            // Otherwise, `build` fails on systems without root certificates, although a server without TLS needs none.
            Ok(url) if url.scheme() == "http" => builder.tls_certs_only([]),
            _ => builder,
        };
        builder.build().map_err(|error| format!("cannot be reached: {}", reason(&error)))
    }
}

/// Returns `true` for headers that neither a configuration nor a document can set.
pub(super) fn is_reserved(header: &HeaderName) -> bool {
    RESERVED_HEADERS.contains(&header.as_str()) || header.as_str().starts_with("mcp-")
}

/// Creates a transport to a server. `max_message_bytes` limits the size of each response, after decompression.
pub(super) fn transport(
    config: &EndpointConfig,
    max_message_bytes: usize,
) -> Result<StreamableHttpClientTransport<EndpointClient>, String> {
    config.check()?;
    let client = EndpointClient { client: config.client()?, max_message_bytes };
    let mut transport = StreamableHttpClientTransportConfig::with_uri(&*config.url);
    transport.max_concurrent_requests = MAX_REQUESTS;
    transport.retry_config = Arc::new(NeverRetry::default());
    Ok(StreamableHttpClientTransport::with_client(client, transport))
}

/// Returns the text of an error if it comes from this module's client.
pub(super) fn failure(error: &(dyn Error + Send + Sync + 'static)) -> Option<String> {
    match error.downcast_ref::<HttpError>()? {
        HttpError::Client(error) => Some(error.to_string()),
        HttpError::SessionExpired => Some("does not know the session, and does not accept a new one".to_owned()),
        HttpError::SessionRecoveryTimeout => Some("ended the session before it answered".to_owned()),
        _ => None,
    }
}

/// Follows redirects within the same scheme, host and port that preserve the method and the body.
fn same_origin() -> Policy {
    Policy::custom(|attempt| {
        let preserves_request =
            matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        let is_same = attempt.previous().last().is_some_and(|url| url.origin() == attempt.url().origin());
        // The first URL is not a redirect.
        if preserves_request && is_same && attempt.previous().len() <= MAX_REDIRECTS {
            attempt.follow()
        } else {
            attempt.stop()
        }
    })
}

/// An HTTP client that limits responses.
#[derive(Clone, Debug)]
pub(super) struct EndpointClient {
    client: Client,
    max_message_bytes: usize,
}

impl StreamableHttpClient for EndpointClient {
    type Error = EndpointError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let sent = match &message {
            JsonRpcMessage::Request(request) => Some(request),
            _ => None,
        };
        let (id, kind) = sent.map(|sent| (sent.id.clone(), &sent.request)).unzip();
        let body = serde_json::to_vec(&message).map_err(HttpError::Deserialize)?;
        let has_session = session_id.is_some();
        let mut request =
            self.client.post(&*uri).header(CONTENT_TYPE, JSON).header(ACCEPT, [JSON, EVENT_STREAM].join(", "));
        // When the caller stops waiting, the SDK ends the HTTP request, unless the request initializes a connection.
        if matches!(kind, None | Some(ClientRequest::InitializeRequest(_) | ClientRequest::DiscoverRequest(_))) {
            request = request.timeout(START);
        }
        let response = send(request.body(body), session_id, custom_headers).await.map_err(HttpError::Client)?;
        let status = response.status();
        if has_session && status == StatusCode::NOT_FOUND {
            return Err(HttpError::SessionExpired);
        }
        let new_session = response.headers().get(SESSION_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
        if !status.is_success() {
            let message = self.rejection(response).await.map_err(HttpError::Client)?;
            let is_unknown = status == StatusCode::BAD_REQUEST
                && matches!(&message, JsonRpcMessage::Error(error) if error.error.code.0 == UNKNOWN_SESSION);
            if has_session && is_unknown {
                return Err(HttpError::SessionExpired);
            }
            return match id {
                Some(id) => Ok(StreamableHttpPostResponse::Json(with_id(message, id), new_session)),
                None => Err(HttpError::Client(EndpointError::Status(status.as_u16()))),
            };
        }
        // Notifications and responses have no result.
        let Some(id) = id else { return Ok(StreamableHttpPostResponse::Accepted) };
        let answer = self.answer(response).await.map_err(HttpError::Client)?;
        // The SDK keeps the tools of all lists until the connection ends, even if it did not request them.
        if has_tools(&answer) && !matches!(kind, Some(ClientRequest::ListToolsRequest(_))) {
            return Err(HttpError::Client(EndpointError::NoResult));
        }
        Ok(StreamableHttpPostResponse::Json(with_id(answer, id), new_session))
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpError> {
        // Servers that do not support the deletion of sessions respond with an error status.
        let request = self.client.delete(&*uri);
        send(request, Some(session_id), custom_headers).await.map(drop).map_err(HttpError::Client)
    }

    async fn get_stream(
        &self,
        _uri: Arc<str>,
        _session_id: Option<Arc<str>>,
        _last_event_id: Option<String>,
        _auth_header: Option<String>,
        _custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxedSseResponse, HttpError> {
        Err(HttpError::ServerDoesNotSupportSse)
    }
}

impl EndpointClient {
    /// Reads the result or error of a request.
    async fn answer(&self, response: Response) -> Result<ServerJsonRpcMessage, EndpointError> {
        if has_type(&response, JSON) {
            let message = parsed(&body(response, self.max_message_bytes).await?)?;
            return if is_answer(&message) { Ok(message) } else { Err(EndpointError::NoResult) };
        }
        if !has_type(&response, EVENT_STREAM) {
            return Err(EndpointError::NoResult);
        }
        let body = Limited::new(Body::from(response), self.max_message_bytes).map_err(body_error);
        let mut events = pin!(SseStream::new(body));
        while let Some(event) = events.next().await {
            let data = event.map_err(event_error)?.data.unwrap_or_default();
            match parsed(data.as_bytes()) {
                Ok(message) if is_answer(&message) => return Ok(message),
                Err(EndpointError::TooLarge) => return Err(EndpointError::TooLarge),
                // Ignore notifications, requests, and events of other kinds.
                Ok(_) | Err(_) => {}
            }
        }
        Err(EndpointError::NoResult)
    }

    /// Reads the JSON-RPC error in the body of an unsuccessful response. Fails if the body is not such an error.
    async fn rejection(&self, response: Response) -> Result<ServerJsonRpcMessage, EndpointError> {
        let status = response.status();
        if status.is_redirection() {
            return Err(EndpointError::Redirect(status.as_u16()));
        }
        let failed = || EndpointError::Status(status.as_u16());
        if !has_type(&response, JSON) {
            return Err(failed());
        }
        match parsed(&body(response, self.max_message_bytes).await?) {
            Ok(message @ JsonRpcMessage::Error(_)) => Ok(message),
            _ => Err(failed()),
        }
    }
}

/// Reads the body of a response. Fails if it is larger than `max_bytes`.
pub(super) async fn body(response: Response, max_bytes: usize) -> Result<Bytes, EndpointError> {
    let body = Limited::new(Body::from(response), max_bytes);
    Ok(body.collect().await.map_err(body_error)?.to_bytes())
}

async fn send(
    mut request: RequestBuilder,
    session_id: Option<Arc<str>>,
    custom_headers: HashMap<HeaderName, HeaderValue>,
) -> Result<Response, EndpointError> {
    for (name, value) in custom_headers {
        request = request.header(name, value);
    }
    if let Some(session_id) = session_id {
        request = request.header(SESSION_ID, &*session_id);
    }
    request.send().await.map_err(|error| EndpointError::Unreachable(reason(&error)))
}

fn has_tools(message: &ServerJsonRpcMessage) -> bool {
    let JsonRpcMessage::Response(response) = message else { return false };
    matches!(&response.result, ServerResult::ListToolsResult(_))
}

/// Returns `true` if the response has this media type.
fn has_type(response: &Response, media_type: &str) -> bool {
    let value = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().is_some_and(|essence| essence.trim().eq_ignore_ascii_case(media_type))
}

fn is_answer(message: &ServerJsonRpcMessage) -> bool {
    matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))
}

/// Parses a message after checking the cost of its values.
fn parsed(json: &[u8]) -> Result<ServerJsonRpcMessage, EndpointError> {
    JsonCost::of(json).map_err(|_| EndpointError::TooLarge)?;
    serde_json::from_slice(json).map_err(|_| EndpointError::NoResult)
}

/// Sets the ID of an error to the ID of the request, because servers may omit it.
fn with_id(message: ServerJsonRpcMessage, id: RequestId) -> ServerJsonRpcMessage {
    match message {
        JsonRpcMessage::Error(error) => ServerJsonRpcMessage::error(error.error, Some(id)),
        other => other,
    }
}

fn body_error(error: Box<dyn Error + Send + Sync>) -> EndpointError {
    if error.is::<LengthLimitError>() { EndpointError::TooLarge } else { EndpointError::BrokenOff(reason(&*error)) }
}

fn event_error(error: SseError) -> EndpointError {
    match error {
        SseError::Body(error) => match error.downcast::<EndpointError>() {
            Ok(error) => *error,
            Err(error) => EndpointError::BrokenOff(reason(&*error)),
        },
        other => EndpointError::BrokenOff(reason(&other)),
    }
}

/// Returns the innermost cause of an error. The outer errors of `reqwest` contain the URL.
pub(super) fn reason(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    let text = if innermost.is::<reqwest::Error>() { "the request failed".to_owned() } else { innermost.to_string() };
    let text: String = text.chars().take(MAX_REASON_CHARS).collect();
    glovebox::escaped_text(&text).to_string()
}
