//! Ids, answers and errors of JSON-RPC.

use glovebox::Untrusted;
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use crate::{ServiceError, shown::shown};

/// The message is not JSON.
pub(super) const PARSE_ERROR: i32 = -32_700;
/// The message is not a valid request.
pub(super) const INVALID_REQUEST: i32 = -32_600;
/// The method does not exist.
pub(super) const METHOD_NOT_FOUND: i32 = -32_601;
/// The parameters are invalid.
pub(super) const INVALID_PARAMS: i32 = -32_602;
/// Internal error of the daemon.
pub(super) const INTERNAL_ERROR: i32 = -32_603;
/// The daemon refused the request. `data.code` has the reason.
pub(super) const REFUSED: i32 = -32_000;
/// No session is open: `initialize` opens one. Same code as in the Language Server Protocol.
pub(super) const NOT_INITIALIZED: i32 = -32_002;
/// The request was cancelled before it began. Same code as in the Language Server Protocol.
pub(super) const CANCELLED: i32 = -32_800;

/// A request id, as the client wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RpcId(Box<str>);

/// Maximum length of a request id in bytes, including the quotes of a string.
pub(super) const MAX_ID_BYTES: usize = 256;

impl RpcId {
    pub(super) fn null() -> Self {
        Self("null".into())
    }

    /// Returns the id if `raw` is a string, a number or null, and not longer than `MAX_ID_BYTES`.
    pub(super) fn read(raw: &RawValue) -> Option<Self> {
        let text = raw.get();
        let is_id = text == "null" || text.starts_with(|first: char| matches!(first, '"' | '-' | '0'..='9'));
        (is_id && text.len() <= MAX_ID_BYTES).then(|| Self(text.into()))
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

/// An error response.
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

    /// Creates an error with a name for programs in `data.code`.
    pub(super) fn named(code: i32, name: &str, message: impl Into<Untrusted>) -> Self {
        Self { data: Some(json!({ "code": name })), ..Self::new(code, message) }
    }

    pub(super) fn params(message: impl Into<Untrusted>) -> Self {
        Self::named(INVALID_PARAMS, "invalid-argument", message)
    }

    pub(super) fn cancelled() -> Self {
        Self::named(CANCELLED, "cancelled", "it was cancelled before it began")
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

/// Serializes a result.
pub(super) fn result(value: &impl Serialize) -> Answer {
    serde_json::to_string(value).map_err(|error| RpcError::new(INTERNAL_ERROR, error.to_string()))
}

/// Formats an answer as a response message.
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
