//! JSON-RPC messages: parsing, responses and errors.

use std::borrow::Cow;

use glovebox::Untrusted;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Value, json, value::RawValue};

use crate::{
    ServiceError,
    json::at_most,
    text::{quoted, shown},
};

/// Maximum number of messages in a batch.
const MAX_BATCH: usize = 64;

/// The parsed contents of a line.
#[derive(Debug)]
pub(super) enum Message<'a> {
    One(Incoming<'a>),
    Batch(Vec<Incoming<'a>>),
}

/// A message from a client, either alone or in a batch.
#[derive(Debug)]
pub(super) enum Incoming<'a> {
    /// A request. It is a notification if `id` is `None`.
    Request { id: Option<RpcId>, method: Cow<'a, str>, params: Option<&'a RawValue> },
    /// The response to a request that the daemon sent.
    Response { id: RpcId, answer: Result<&'a RawValue, String> },
    /// An invalid message, with the error to respond with.
    Invalid { id: RpcId, error: RpcError },
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<ErrorAnswer<'a>>,
}

/// The `error` object of a client's response.
#[derive(Deserialize)]
struct ErrorAnswer<'a> {
    #[serde(borrow, default)]
    message: Option<Cow<'a, str>>,
}

/// Deserializes a field that is present: `null` becomes `Some`, not `None`.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Batch<'a>(#[serde(borrow, deserialize_with = "few")] Vec<&'a RawValue>);

fn few<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<&'a RawValue>, D::Error> {
    let batch = at_most::<D, &'de RawValue, MAX_BATCH>(deserializer)?;
    if batch.is_empty() { Err(D::Error::custom("the batch is empty; send at least one message")) } else { Ok(batch) }
}

/// Parses a line as a message or a batch. Fails if the line is not UTF-8 or JSON, or if a batch is empty or has more
/// than `MAX_BATCH` messages. Messages that are invalid in another way become [`Incoming::Invalid`].
pub(super) fn parse(line: &[u8]) -> Result<Message<'_>, RpcError> {
    let text = std::str::from_utf8(line).map_err(|_| RpcError::new(PARSE_ERROR, "the message is not UTF-8"))?;
    if text.trim_start().starts_with('[') {
        let Batch(batch) = serde_json::from_str(text).map_err(|error| wrong(&error))?;
        return Ok(Message::Batch(batch.into_iter().map(|one| incoming(one.get())).collect()));
    }
    match serde_json::from_str::<&RawValue>(text) {
        Ok(one) => Ok(Message::One(incoming(one.get()))),
        Err(error) => Err(wrong(&error)),
    }
}

fn wrong(error: &serde_json::Error) -> RpcError {
    match error.classify() {
        serde_json::error::Category::Data => RpcError::new(INVALID_REQUEST, quoted(error)),
        _ => RpcError::new(PARSE_ERROR, format!("the message is not JSON: {}", quoted(error))),
    }
}

fn incoming(text: &str) -> Incoming<'_> {
    let invalid = |id, message: String| Incoming::Invalid { id, error: RpcError::new(INVALID_REQUEST, message) };
    if !text.starts_with('{') {
        return invalid(RpcId::null(), "the message is not a JSON object".to_owned());
    }
    let Envelope { jsonrpc, id, method, params, result, error } = match serde_json::from_str(text) {
        Ok(envelope) => envelope,
        Err(error) => return invalid(RpcId::null(), format!("the message is not JSON-RPC: {}", quoted(error))),
    };
    let id = match id.map(|id| RpcId::read(id).ok_or(id)) {
        None => None,
        Some(Ok(id)) => Some(id),
        Some(Err(_)) => {
            return invalid(RpcId::null(), "`id` must be a number, null, or a string of at most 254 bytes".to_owned());
        }
    };
    let named = || id.clone().unwrap_or_else(RpcId::null);
    if jsonrpc.as_deref() != Some("2.0") {
        return invalid(named(), "`jsonrpc` must be \"2.0\"".to_owned());
    }
    match (method, result, error) {
        (Some(method), None, None) => Incoming::Request { id, method, params },
        (None, Some(result), None) => Incoming::Response { id: named(), answer: Ok(result) },
        (None, None, Some(ErrorAnswer { message })) => {
            let message = message.map_or_else(|| "the client refused".to_owned(), Cow::into_owned);
            Incoming::Response { id: named(), answer: Err(message) }
        }
        _ => invalid(named(), "a message must have exactly one of `method`, `result` and `error`".to_owned()),
    }
}

/// Error code: the message is not JSON.
const PARSE_ERROR: i32 = -32_700;
/// Error code: the message is not a valid request.
pub(super) const INVALID_REQUEST: i32 = -32_600;
/// Error code: the method does not exist.
pub(super) const METHOD_NOT_FOUND: i32 = -32_601;
/// Error code: the parameters are invalid.
const INVALID_PARAMS: i32 = -32_602;
/// Error code: an internal error of the daemon.
const INTERNAL_ERROR: i32 = -32_603;
/// Error code: the daemon refused the request. `data.code` contains the reason.
pub(super) const REFUSED: i32 = -32_000;
/// Error code: no session is open. The Language Server Protocol uses the same code.
pub(super) const NOT_INITIALIZED: i32 = -32_002;
/// Error code: the request was cancelled before it started. The Language Server Protocol uses the same code.
const CANCELLED: i32 = -32_800;

/// A request ID as JSON text, exactly as the client wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RpcId(Box<str>);

/// Maximum length of a request ID in bytes, including the quotes of a string.
pub(super) const MAX_ID_BYTES: usize = 256;

impl RpcId {
    pub(super) fn null() -> Self {
        Self("null".into())
    }

    /// Returns the ID if `raw` is a string, a number or null, and at most `MAX_ID_BYTES` long.
    pub(super) fn read(raw: &RawValue) -> Option<Self> {
        let text = raw.get();
        let is_id = text == "null" || text.starts_with(|first: char| matches!(first, '"' | '-' | '0'..='9'));
        (is_id && text.len() <= MAX_ID_BYTES).then(|| Self(text.into()))
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

/// The `error` object of a response.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct RpcError {
    pub(super) code: i32,
    #[serde(serialize_with = "shown")]
    pub(super) message: Untrusted,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<Value>,
}

impl RpcError {
    pub(super) fn new(code: i32, message: impl Into<Untrusted>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Creates an error with the machine-readable code `name` in `data.code`.
    pub(super) fn named(code: i32, name: &str, message: impl Into<Untrusted>) -> Self {
        Self { data: Some(json!({ "code": name })), ..Self::new(code, message) }
    }

    pub(super) fn params(message: impl Into<Untrusted>) -> Self {
        Self::named(INVALID_PARAMS, "invalid-argument", message)
    }

    pub(super) fn cancelled() -> Self {
        Self::named(CANCELLED, "cancelled", "it was cancelled before it started")
    }
}

impl From<ServiceError> for RpcError {
    fn from(error: ServiceError) -> Self {
        let name = error.code();
        let code = match name {
            "invalid-argument" | "invalid-policy" | "unknown-runtime" => INVALID_PARAMS,
            "internal" => INTERNAL_ERROR,
            _ => REFUSED,
        };
        let mut data = json!({ "code": name });
        if let (Some(after), Some(data)) = (error.retry_after(), data.as_object_mut()) {
            data.insert("retry_after_ms".into(), json!(u64::try_from(after.as_millis()).unwrap_or(u64::MAX)));
        }
        Self { data: Some(data), ..Self::new(code, error.public()) }
    }
}

/// A result as JSON text, or an error.
pub(super) type Answer = Result<String, RpcError>;

/// Serializes a result as JSON text.
pub(super) fn result(value: &impl Serialize) -> Answer {
    serde_json::to_string(value).map_err(|error| RpcError::new(INTERNAL_ERROR, error.to_string()))
}

/// Formats a response message.
pub(super) fn response(id: &RpcId, answer: &Answer) -> String {
    let id = id.text();
    match answer {
        Ok(result) => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}"),
        Err(error) => {
            let error = serde_json::to_string(error).unwrap_or_else(|_| "null".to_owned());
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}")
        }
    }
}

/// Formats a request, or a notification if `id` is `None`. `params` is JSON text.
pub(super) fn request(id: Option<u64>, method: &str, params: &str) -> String {
    let id = id.map(|id| format!("\"id\":{id},")).unwrap_or_default();
    format!("{{\"jsonrpc\":\"2.0\",{id}\"method\":\"{method}\",\"params\":{params}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> String {
        let one = |incoming: &Incoming<'_>| match incoming {
            Incoming::Request { id, method, params } => {
                let (id, params) = (id.as_ref().map_or("-", RpcId::text), params.map_or("-", RawValue::get));
                format!("{method} {id} {params}")
            }
            Incoming::Response { id, answer } => format!("{} {:?}", id.text(), answer.as_ref().map(|raw| raw.get())),
            Incoming::Invalid { id, error } => format!("{} {}", id.text(), error.code),
        };
        match parse(line.as_bytes()) {
            Ok(Message::One(incoming)) => one(&incoming),
            Ok(Message::Batch(batch)) => format!("[{}]", batch.iter().map(one).collect::<Vec<_>>().join(", ")),
            Err(error) => error.code.to_string(),
        }
    }

    #[test]
    fn messages_are_parsed_as_json_rpc_specifies() {
        for (line, expected) in [
            (r#"{"jsonrpc":"2.0","method":"a","id":1}"#, "a 1 -"),
            (r#"{"jsonrpc":"2.0","method":"a\u0062","params":[1]}"#, "ab - [1]"),
            (r#"{"jsonrpc":"2.0","method":"a","id":null,"params":null}"#, "a null null"),
            (r#"{"jsonrpc":"2.0","method":"a","id":"x","more":{}}"#, r#"a "x" -"#),
            (r#"{"jsonrpc":"2.0","method":"a","id":18446744073709551616.50}"#, "a 18446744073709551616.50 -"),
            (r#"{"jsonrpc":"2.0","method":"a","id":true}"#, "null -32600"),
            (r#"{"jsonrpc":"2.0","method":"a","id":{}}"#, "null -32600"),
            (r#"{"jsonrpc":"2.0","method":1,"id":1}"#, "null -32600"),
            (r#"{"jsonrpc":"1.0","method":"a","id":1}"#, "1 -32600"),
            (r#"{"method":"a","id":1}"#, "1 -32600"),
            (r#"{"jsonrpc":"2.0","id":1}"#, "1 -32600"),
            (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, r#"1 Ok("null")"#),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}"#, r#"1 Err("no")"#),
            (r#"{"jsonrpc":"2.0","id":1,"result":1,"method":"a"}"#, "1 -32600"),
            ("1", "null -32600"),
            ("[]", "-32600"),
            ("[1, {\"jsonrpc\":\"2.0\",\"method\":\"a\"}]", "[null -32600, a - -]"),
            ("{", "-32700"),
            ("nothing", "-32700"),
            ("{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"id\":1} {}", "-32700"),
        ] {
            assert_eq!(said(line), expected, "{line}");
        }
        assert_eq!(parse(b"\"\xff\"").unwrap_err().code, PARSE_ERROR);
    }

    #[test]
    fn batch_size_id_length_and_nesting_are_limited() {
        for (count, fits) in [(MAX_BATCH, true), (MAX_BATCH + 1, false)] {
            assert_eq!(parse(format!("[{}1]", "1,".repeat(count - 1)).as_bytes()).is_ok(), fits, "{count}");
        }
        for (len, expected) in [(254, "a"), (255, "null -32600")] {
            let line = format!(r#"{{"jsonrpc":"2.0","method":"a","id":"{}"}}"#, "x".repeat(len));
            assert!(said(&line).starts_with(expected), "{len}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(said(&deep), "-32700", "deep nesting must not overflow the stack");
    }
}
