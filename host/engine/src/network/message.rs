//! The JSON form of requests and responses.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

use crate::{ToolError, ToolErrorKind};

/// A request. Contains placeholders instead of secrets.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    pub(super) url: String,
    #[serde(default = "get")]
    pub(super) method: String,
    #[serde(default)]
    pub(super) headers: Vec<(String, String)>,
    /// The body, either as text or in base64.
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    base64: Option<String>,
    #[serde(default)]
    pub(super) redirect: Redirect,
    /// Timeout that the script requests, in milliseconds. The policy's limit still applies.
    #[serde(default)]
    pub(super) timeout_ms: Option<u64>,
}

/// How to handle a redirect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Redirect {
    /// The host follows the redirect if the policy allows its target.
    #[default]
    Follow,
    /// The script receives the redirect as the response.
    Manual,
}

fn get() -> String {
    "GET".to_owned()
}

impl Asked {
    pub(super) fn read(text: &str) -> Result<Self, Fault> {
        serde_json::from_str(text)
            .map_err(|error| Fault::new(Code::Invalid, format!("the request cannot be read: {error}")))
    }

    /// Decodes the body, and checks its size.
    pub(super) fn take_body(&mut self, max_bytes: u64) -> Result<Option<Vec<u8>>, Fault> {
        let body = match (self.text.take(), self.base64.take()) {
            (None, None) => return Ok(None),
            (Some(text), None) => text.into_bytes(),
            (None, Some(base64)) => STANDARD
                .decode(base64)
                .map_err(|_| Fault::new(Code::Invalid, "the body is not valid base64".to_owned()))?,
            (Some(_), Some(_)) => return Err(Fault::new(Code::Invalid, "the request has two bodies".to_owned())),
        };
        let bytes = body.len() as u64;
        if bytes > max_bytes {
            let message = format!("the request's body is {bytes} bytes; `network.request_bytes` is {max_bytes}");
            return Err(Fault::new(Code::Limit, message));
        }
        Ok(Some(body))
    }
}

/// A response.
#[derive(Debug, Serialize)]
pub(super) struct Answered {
    /// Final URL, after redirects.
    pub(super) url: String,
    pub(super) status: u16,
    pub(super) reason: String,
    pub(super) headers: Vec<(String, String)>,
    /// Number of redirects that the host followed.
    pub(super) redirects: u32,
    /// Length of the decoded body in bytes.
    pub(super) bytes: usize,
    /// The body, as text if it is UTF-8, otherwise in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

impl Answered {
    pub(super) fn new(url: String, status: u16, reason: &str) -> Self {
        let (reason, headers) = (reason.to_owned(), Vec::new());
        Self { url, status, reason, headers, redirects: 0, bytes: 0, text: None, base64: None }
    }

    pub(super) fn with_body(mut self, body: Vec<u8>) -> Self {
        self.bytes = body.len();
        match String::from_utf8(body) {
            Ok(text) => self.text = Some(text),
            Err(error) => self.base64 = Some(STANDARD.encode(error.as_bytes())),
        }
        self
    }
}

/// A failed request.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) code: Code,
    pub(super) message: String,
}

/// The kind of failure. The script's exception depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    /// The policy does not allow the request.
    Refused,
    /// The script's request is invalid.
    Invalid,
    /// A limit was exceeded.
    Limit,
    /// Too many redirects, or a redirect to an invalid URL.
    Redirects,
    /// No connection could be established.
    Unreachable,
    /// The server violated HTTP, or closed the connection early.
    Broken,
    /// The request timed out.
    Timeout,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "refused",
            Self::Invalid => "invalid",
            Self::Limit => "limit",
            Self::Redirects => "redirects",
            Self::Unreachable => "unreachable",
            Self::Broken => "broken",
            Self::Timeout => "timeout",
        })
    }
}

impl Fault {
    pub(super) fn new(code: Code, message: String) -> Self {
        Self { code, message }
    }
}

/// Puts the code before the message; the guest's side removes it.
impl From<Fault> for ToolError {
    fn from(Fault { code, message }: Fault) -> Self {
        let kind = match code {
            Code::Limit => ToolErrorKind::Limit,
            Code::Timeout => ToolErrorKind::Timeout,
            _ => ToolErrorKind::Failed,
        };
        // Escaping keeps untrusted text on one line.
        Self::of(kind, format!("{code}: {}", glovebox_vfs::escaped_text(&message)))
    }
}
