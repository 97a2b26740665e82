//! Requests and responses in JSON, limits on their headers, and the two [`Network`] implementations: [`Http`] sends
//! requests, [`Replay`] answers them from recorded calls.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use glovebox::{
    CallMemory, CallMemoryError, CancelToken, NETWORK_TOOL, Network, OpenNetwork, Policy, PolicyError, ToolCall,
    ToolError, ToolErrorKind, ToolOutcome, ToolRecord, escaped_text, internal::json_len,
};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use tokio::{runtime::Runtime, sync::Notify, time::timeout_at};

use crate::{
    client::{COPIES_OF_A_BODY, Client},
    secrets::Secrets,
};

/// A script's request. Header values contain placeholders instead of secrets.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RequestMessage {
    pub(crate) url: String,
    #[serde(default = "get")]
    pub(crate) method: String,
    #[serde(default)]
    pub(crate) headers: Vec<(String, String)>,
    /// The body as text. A request sets at most one of `text` and `base64`.
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    base64: Option<String>,
    #[serde(default)]
    pub(crate) redirect: Redirect,
    /// The script's timeout in milliseconds. The policy's timeout also applies.
    #[serde(default)]
    pub(crate) timeout_ms: Option<u64>,
}

/// The redirect mode that the script requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Redirect {
    /// The host follows the redirect if the policy allows the target.
    #[default]
    Follow,
    /// The script receives the redirect as the response.
    Manual,
}

fn get() -> String {
    "GET".to_owned()
}

impl RequestMessage {
    pub(crate) fn read(text: &str) -> Result<Self, Fault> {
        serde_json::from_str(text)
            .map_err(|error| Fault::new(FaultCode::Invalid, format!("cannot parse the request: {error}")))
    }

    /// Decodes the body. Fails if the body exceeds `max_bytes`, is set twice or is not valid base64.
    pub(crate) fn take_body(&mut self, max_bytes: u64) -> Result<Option<Vec<u8>>, Fault> {
        let body = match (self.text.take(), self.base64.take()) {
            (None, None) => return Ok(None),
            (Some(text), None) => text.into_bytes(),
            (None, Some(base64)) => STANDARD
                .decode(base64)
                .map_err(|_| Fault::new(FaultCode::Invalid, "the body is not valid base64".to_owned()))?,
            (Some(_), Some(_)) => {
                return Err(Fault::new(
                    FaultCode::Invalid,
                    "the request has both `text` and `base64`; send one of them".to_owned(),
                ));
            }
        };
        let bytes = body.len() as u64;
        if bytes > max_bytes {
            let message = format!(
                "the request body is {bytes} bytes; the maximum `network.request_bytes` is {max_bytes}; \
                 send a smaller body or raise the limit"
            );
            return Err(Fault::new(FaultCode::Limit, message));
        }
        Ok(Some(body))
    }
}

/// A response in the form that the script receives.
#[derive(Debug, Serialize)]
pub(crate) struct ResponseMessage {
    /// URL of the last request, after redirects.
    pub(crate) url: String,
    pub(crate) status: u16,
    pub(crate) reason: String,
    pub(crate) headers: Vec<(String, String)>,
    /// The number of redirects that the host followed.
    pub(crate) redirects: u32,
    /// The length in bytes of the body that the script receives, after decompression.
    pub(crate) bytes: usize,
    /// The body as text if it is valid UTF-8; otherwise `base64` contains it.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

impl ResponseMessage {
    pub(crate) fn new(url: String, status: u16, reason: &str) -> Self {
        let (reason, headers) = (reason.to_owned(), Vec::new());
        Self { url, status, reason, headers, redirects: 0, bytes: 0, text: None, base64: None }
    }

    pub(crate) fn with_body(mut self, body: Vec<u8>) -> Self {
        self.bytes = body.len();
        match String::from_utf8(body) {
            Ok(text) => self.text = Some(text),
            Err(error) => self.base64 = Some(STANDARD.encode(error.as_bytes())),
        }
        self
    }
}

/// A failed request, reported to the script.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) code: FaultCode,
    pub(crate) message: String,
}

/// The category of a failure, which selects the exception that the script sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FaultCode {
    /// The policy does not allow the request.
    #[error("refused")]
    Refused,
    /// The script's request is invalid.
    #[error("invalid")]
    Invalid,
    /// A limit was exceeded.
    #[error("limit")]
    Limit,
    /// The redirect limit was exceeded, or a redirect has a URL that scripts cannot request.
    #[error("redirects")]
    Redirects,
    /// No connection could be established.
    #[error("unreachable")]
    Unreachable,
    /// The server violated HTTP or closed the connection early, the host could not set up its network, or a replay has
    /// no recorded response.
    #[error("broken")]
    Broken,
    /// The request timed out or was cancelled.
    #[error("timeout")]
    Timeout,
}

impl Fault {
    pub(crate) fn new(code: FaultCode, message: String) -> Self {
        Self { code, message }
    }
}

impl From<CallMemoryError> for Fault {
    fn from(error: CallMemoryError) -> Self {
        Self::new(FaultCode::Limit, format!("the response {error}"))
    }
}

/// Prefixes the message with the code. The guest's driver removes the prefix.
impl From<Fault> for ToolError {
    fn from(Fault { code, message }: Fault) -> Self {
        let kind = match code {
            FaultCode::Limit => ToolErrorKind::Limit,
            FaultCode::Timeout => ToolErrorKind::Timeout,
            _ => ToolErrorKind::Failed,
        };
        // Escaping keeps untrusted text on a single line.
        Self::of(kind, format!("{code}: {}", escaped_text(&message)))
    }
}

/// Maximum number of headers in a request.
pub(crate) const MAX_REQUEST_HEADERS: usize = 64;
/// Maximum total size of the names and values of all headers in a request, in bytes.
pub(crate) const MAX_REQUEST_HEADER_BYTES: usize = 32 << 10;
/// Maximum number of headers in a response. Python's `http.client` reads at most 100 headers, including those that the
/// guest's driver adds.
pub(crate) const MAX_RESPONSE_HEADERS: usize = 96;
/// Maximum total size of the names and values of all headers in a response, in bytes.
pub(crate) const MAX_RESPONSE_HEADER_BYTES: usize = 64 << 10;

/// Hop-by-hop, routing and framing headers, which scripts cannot set. Otherwise, a script could address a server that
/// the policy does not allow, or smuggle a second request into the body.
const FORBIDDEN_HEADERS: [&str; 16] = [
    "connection",
    "content-length",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    ":authority",
];

/// Headers that describe a body, and are removed together with the body.
const BODY_HEADERS: [&str; 4] = ["content-encoding", "content-language", "content-location", "content-type"];

/// Headers with credentials, which are removed on a redirect to another origin.
const CREDENTIAL_HEADERS: [&str; 3] = ["authorization", "cookie", "cookie2"];

/// A script's validated request headers. Placeholders are not yet replaced.
pub(crate) type Headers = Vec<(HeaderName, String)>;

/// Validates the headers of a script's request.
pub(crate) fn request(list: Vec<(String, String)>) -> Result<Headers, String> {
    if list.len() > MAX_REQUEST_HEADERS {
        return Err(format!(
            "the request has {} headers; the maximum is {MAX_REQUEST_HEADERS}; send fewer headers",
            list.len()
        ));
    }
    let bytes: usize = list.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > MAX_REQUEST_HEADER_BYTES {
        return Err(format!("the headers are {bytes} bytes; the maximum is {MAX_REQUEST_HEADER_BYTES}; shorten them"));
    }
    let check = |(name, value): (String, String)| {
        let shown: String = name.chars().take(64).collect();
        let name =
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("`{shown}` is not a valid header name"))?;
        if FORBIDDEN_HEADERS.contains(&name.as_str()) || name.as_str().starts_with("proxy-") {
            return Err(format!("scripts cannot set the header `{name}`; remove it"));
        }
        let value = value.trim_matches([' ', '\t']).to_owned();
        if HeaderValue::from_str(&value).is_err() {
            return Err(format!("the header `{name}` contains a line break or another invalid character"));
        }
        Ok((name, value))
    };
    list.into_iter().map(check).collect()
}

/// Removes the headers that describe a body, for redirects that change the method to `GET`.
pub(crate) fn without_body(headers: &mut Headers) {
    headers.retain(|(name, _)| !BODY_HEADERS.contains(&name.as_str()));
}

/// Removes credentials, for redirects to another origin. `is_secret` returns `true` if a value contains a placeholder.
pub(crate) fn without_credentials(headers: &mut Headers, is_secret: impl Fn(&str) -> bool) {
    headers.retain(|(name, value)| !CREDENTIAL_HEADERS.contains(&name.as_str()) && !is_secret(value));
}

/// Converts response headers for the script and removes hop-by-hop headers. Each byte of a value becomes one character
/// (Latin-1). Fails if the headers exceed a limit.
pub(crate) fn response(headers: &HeaderMap) -> Result<Vec<(String, String)>, String> {
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if headers.len() > MAX_RESPONSE_HEADERS || bytes > MAX_RESPONSE_HEADER_BYTES {
        let max = format!("{MAX_RESPONSE_HEADERS} headers and {MAX_RESPONSE_HEADER_BYTES} bytes");
        let count = headers.len();
        return Err(format!("the response has {count} headers with {bytes} bytes in total; the maximum is {max}"));
    }
    let is_shown = |name: &HeaderName| {
        !matches!(name.as_str(), "connection" | "keep-alive" | "transfer-encoding" | "te" | "trailer" | "upgrade")
            && !name.as_str().starts_with("proxy-")
    };
    let text = |value: &HeaderValue| value.as_bytes().iter().map(|byte| char::from(*byte)).collect::<String>();
    Ok(headers
        .iter()
        .filter(|(name, _)| is_shown(name))
        .map(|(name, value)| (name.as_str().to_owned(), text(value)))
        .collect())
}

/// Recorded answers, keyed by the normalized request.
type Answers = BTreeMap<String, VecDeque<ToolOutcome>>;

/// A network that answers requests from the records of an earlier execution
/// ([`Execution::tool_calls`](glovebox::Execution::tool_calls)) and sends nothing. Each answer is used once. Identical
/// requests receive their answers in recorded order. A request without a recorded answer fails.
///
/// Secrets are not read from the environment. Placeholders depend on the policy's seed, so scripts that use secrets
/// need the same seed as the recorded execution.
#[derive(Clone, Debug)]
pub struct Replay(Vec<ToolRecord>);

impl Replay {
    /// Creates a replay from an execution's tool records. Records of other tools are ignored.
    pub fn new(records: impl IntoIterator<Item = ToolRecord>) -> Self {
        Self(records.into_iter().filter(|record| record.name == NETWORK_TOOL).collect())
    }
}

impl Network for Replay {
    fn open(&self, policy: &Policy) -> Result<OpenNetwork, PolicyError> {
        let nothing = |_: &str| Some("replayed".to_owned());
        let environment = Secrets::read_from(&policy.network.secrets, policy.entropy, &nothing)?.environment();
        let mut answers = Answers::new();
        for record in &self.0 {
            if let Some(arguments) = &record.arguments {
                answers.entry(sorted(arguments)).or_default().push_back(record.outcome.clone());
            }
        }
        let answers = Mutex::new(answers);
        Ok(OpenNetwork::new(environment, move |_, request| answer(&answers, &request)))
    }
}

/// Normalizes a request for the lookup, because older records have a different key order.
fn sorted(arguments: &str) -> String {
    serde_json::from_str::<serde_json::Value>(arguments)
        .map_or_else(|_| arguments.to_owned(), |value| value.to_string())
}

fn answer(answers: &Mutex<Answers>, arguments: &str) -> Result<String, ToolError> {
    let missing =
        |why: &str| ToolError::from(Fault::new(FaultCode::Broken, format!("cannot replay the request: {why}")));
    let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
    let next = answers.get_mut(&sorted(arguments)).and_then(VecDeque::pop_front);
    match next.ok_or_else(|| missing("it was not recorded"))? {
        ToolOutcome::Returned(Some(result)) => Ok(result),
        ToolOutcome::Failed { kind, message: Some(message) } => Err(ToolError::of(kind, message)),
        ToolOutcome::Returned(None) | ToolOutcome::Failed { message: None, .. } => Err(missing(
            "the record does not contain its response; raise `limits.tool_record_bytes` and record the execution again",
        )),
        ToolOutcome::Unfinished => Err(missing("the execution ended before the response")),
    }
}

/// Maximum number of threads for name lookups. A lookup that hangs occupies one thread.
const MAX_LOOKUPS: usize = 32;

/// Minimum time between a request's timeout and its call's deadline, so that the script still receives the timeout
/// error.
const MARGIN: Duration = Duration::from_millis(20);

/// A client that sends requests over HTTP and HTTPS to the servers that the policy allows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Http;

impl Network for Http {
    fn open(&self, policy: &Policy) -> Result<OpenNetwork, PolicyError> {
        let secrets = Secrets::read(&policy.network.secrets, policy.entropy)?;
        let environment = secrets.environment();
        let client = Client::new(&policy.network, secrets)?;
        Ok(OpenNetwork::new(environment, move |call: &ToolCall, request| {
            fetch(&client, &CallContext::from(call), &request).map_err(ToolError::from)
        }))
    }
}

/// The fields of a tool call that a request needs.
#[derive(Clone, Debug)]
pub(crate) struct CallContext {
    pub(crate) cancel: CancelToken,
    pub(crate) deadline: Instant,
    pub(crate) memory: CallMemory,
}

impl From<&ToolCall> for CallContext {
    fn from(call: &ToolCall) -> Self {
        Self { cancel: call.cancel.clone(), deadline: call.deadline, memory: call.memory.clone() }
    }
}

/// Returns the runtime that polls sockets and resolves names for all sandboxes of the process. The request itself runs
/// on the thread of its tool call.
fn runtime() -> Result<&'static Runtime, Fault> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let make = || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(MAX_LOOKUPS)
            .thread_name("glovebox network")
            .enable_all()
            .build();
        runtime.map_err(|error| format!("cannot start the network thread: {error}"))
    };
    RUNTIME.get_or_init(make).as_ref().map_err(|message| Fault::new(FaultCode::Broken, message.clone()))
}

/// Performs a request. Fails at the deadline or when the call is cancelled.
pub(crate) fn fetch(client: &Client, call: &CallContext, arguments: &str) -> Result<String, Fault> {
    let request = RequestMessage::read(arguments)?;
    let begun = Instant::now();
    let own = begun.checked_add(client.timeout(&request)).unwrap_or(call.deadline);
    let deadline = own.min(call.deadline.checked_sub(MARGIN).unwrap_or(call.deadline));
    let runtime = runtime()?;
    let stop = Arc::new(Notify::new());
    let _on_cancel = call.cancel.on_cancel({
        let stop = Arc::clone(&stop);
        move || stop.notify_one()
    });
    let (answered, _held) = runtime.block_on(async {
        tokio::select! {
            biased;
            () = stop.notified() => Err(Fault::new(FaultCode::Timeout, "the request was cancelled".to_owned())),
            answered = timeout_at(deadline.into(), client.fetch(request, &call.memory)) => answered.unwrap_or_else(|_| {
                let message = format!("the response was incomplete after {} ms", begun.elapsed().as_millis());
                Err(Fault::new(FaultCode::Timeout, message))
            }),
        }
    })?;
    serialize(&answered, &call.memory)
}

/// Serializes a response. The memory for two copies of the body is already charged for the message. The message can be
/// longer, because JSON escapes a control character as six bytes. The excess is charged before the message is built.
fn serialize(answered: &ResponseMessage, memory: &CallMemory) -> Result<String, Fault> {
    let broken = |error: &dyn fmt::Display| {
        Fault::new(FaultCode::Broken, format!("cannot serialize the response as JSON: {error}"))
    };
    let len = json_len(answered).map_err(|error| broken(&error))?;
    let charged = answered.bytes as u64 * (COPIES_OF_A_BODY - 1);
    let _held = memory.hold((len as u64).saturating_sub(charged))?;
    let mut json = Vec::with_capacity(len);
    serde_json::to_writer(&mut json, answered).map_err(|error| broken(&error))?;
    String::from_utf8(json).map_err(|error| broken(&error))
}
