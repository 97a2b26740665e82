//! Replies to a guest's tool calls, and tool errors.

use std::{fmt, sync::Arc};

use glovebox_vfs::escaped;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::json;

use super::{ReservedMemory, ToolMemory};
use crate::check_json;

/// The memory that an unread reply occupies without its text, in bytes.
const REPLY_BYTES: u64 = 256;

/// A tool's answer: its result as JSON text, or its failure.
pub type Answer = Result<String, CallFailure>;

/// A reply that the guest has not read yet.
#[derive(Debug)]
pub(super) enum Reply {
    /// The catalogue. Built when the guest reads the reply, so unread requests for the catalogue take no memory.
    Catalogue,
    Answer {
        /// The guest's ID for the call.
        id: u64,
        /// The call's result or failure.
        answer: Answer,
        /// `true` if the call has run and counts against `limits.tool_calls_at_once` until it is read.
        ran: bool,
        /// The memory reserved for the reply.
        held: ReservedMemory,
    },
    /// The message was invalid, for this reason.
    NotUnderstood(&'static str),
}

/// Returns the reply to a call, as JSON text.
pub(super) fn answered(id: u64, answer: Answer) -> String {
    match answer {
        // The result is JSON text already, so it is embedded unchanged.
        Ok(result) => format!("{{\"id\":{id},\"ok\":{result}}}"),
        Err(CallFailure { kind, message }) => {
            json!({ "id": id, "error": { "type": kind.name(), "message": message } }).to_string()
        }
    }
}

/// Returns the reply to an invalid message, as JSON text.
pub(super) fn not_understood(reason: &str) -> String {
    let message = format!("invalid message: {reason}");
    json!({ "id": null, "error": { "type": "ToolError", "message": message } }).to_string()
}

/// Returns the result, or a failure if the result exceeds `max_bytes`.
pub fn within(text: String, max_bytes: u64) -> Answer {
    let bytes = text.len() as u64;
    if bytes > max_bytes {
        let message = format!(
            "the result is {bytes} bytes; the maximum `limits.tool_bytes` is {max_bytes}; return less or raise the limit"
        );
        return Err(CallFailure::new(ToolErrorKind::Limit, message));
    }
    Ok(text)
}

/// Returns the text unchanged if it is JSON, and otherwise a failure.
pub fn json_text(text: String) -> Answer {
    match check_json(&text) {
        Ok(()) => Ok(text),
        Err(reason) => Err(CallFailure::new(ToolErrorKind::Failed, format!("the result is not JSON: {reason}"))),
    }
}

/// Returns the failure of a call that exceeded its timeout.
pub(super) fn timeout(max_ms: u64) -> CallFailure {
    CallFailure::new(
        ToolErrorKind::Timeout,
        format!("the call took longer than {max_ms} ms (`limits.tool_timeout_ms`)"),
    )
}

/// Reserves memory for an answer. An answer that does not fit becomes a failure. A failure is stored regardless of the
/// limit, because it is small and must reach the guest.
pub fn hold_answer(account: &Arc<ToolMemory>, answer: Answer) -> (Answer, ReservedMemory) {
    let length = |answer: &Answer| REPLY_BYTES + answer.as_ref().map_or_else(|no| no.message.len(), String::len) as u64;
    if let Some(held) = account.hold(length(&answer)) {
        return (answer, held);
    }
    let answer = answer.and_then(|_| {
        let what = "the result does not fit into the remaining `limits.memory_bytes`; read earlier results first";
        Err(CallFailure::new(ToolErrorKind::Limit, what))
    });
    let held = account.hold_over_limit(length(&answer));
    (answer, held)
}

/// The failure of a tool. The guest sees the message as `tools.ToolError`, or as a subclass.
///
/// In JSON, a failure is its message, or an object such as `{"type": "ToolDenied", "message": "…"}` with the name of the
/// category.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    #[serde(rename = "type")]
    kind: ToolErrorKind,
    message: String,
}

impl ToolError {
    /// Creates a failure with a message for the script. Scripts are untrusted, so the message must not contain secrets.
    pub fn new(message: impl fmt::Display) -> Self {
        Self::of(ToolErrorKind::Failed, message)
    }

    /// Creates a failure of this category, which determines the exception's class in the guest. Use this function to
    /// forward the failure of another host or component.
    pub fn of(kind: ToolErrorKind, message: impl fmt::Display) -> Self {
        Self { kind, message: message.to_string() }
    }

    /// Returns the failure's category. Default: [`ToolErrorKind::Failed`].
    pub fn kind(&self) -> ToolErrorKind {
        self.kind
    }

    /// Returns the failure's message for the script.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl From<String> for ToolError {
    fn from(message: String) -> Self {
        Self { kind: ToolErrorKind::Failed, message }
    }
}

impl From<&str> for ToolError {
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}

impl<'de> Deserialize<'de> for ToolError {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ToolErrorVisitor)
    }
}

struct ToolErrorVisitor;

impl<'de> Visitor<'de> for ToolErrorVisitor {
    type Value = ToolError;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message, or an object with `type` and `message`")
    }

    fn visit_str<E>(self, message: &str) -> Result<ToolError, E> {
        Ok(ToolError::new(message))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ToolError, A::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Object {
            r#type: ToolErrorKind,
            message: String,
        }

        let Object { r#type, message } = Object::deserialize(MapAccessDeserializer::new(map))?;
        Ok(ToolError { kind: r#type, message })
    }
}

/// The reason why a call returned no result to the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ToolErrorKind {
    /// The handler failed or panicked, or its result was not JSON.
    Failed,
    /// A limit was reached: `tool_calls`, `tool_bytes`, `memory_bytes`, the policy's `max_calls` for the tool, or the
    /// host's limit on concurrent calls.
    Limit,
    /// The call exceeded `tool_timeout_ms`.
    Timeout,
    /// No tool with this name exists.
    Unknown,
    /// The arguments do not match the tool's schema or the policy's schema.
    InvalidArguments,
    /// A person or a policy refused the call. The message is the reason. Do not retry the call.
    Denied,
}

impl ToolErrorKind {
    /// All categories, in the order of their declaration.
    pub const ALL: [Self; 6] =
        [Self::Failed, Self::Limit, Self::Timeout, Self::Unknown, Self::InvalidArguments, Self::Denied];

    /// Returns the class name of the exception in the guest.
    pub fn name(self) -> &'static str {
        match self {
            Self::Failed => "ToolError",
            Self::Limit => "ToolLimit",
            Self::Timeout => "ToolTimeout",
            Self::Unknown => "UnknownTool",
            Self::InvalidArguments => "InvalidArguments",
            Self::Denied => "ToolDenied",
        }
    }
}

impl Serialize for ToolErrorKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for ToolErrorKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join("`, `");
            D::Error::custom(format!("unknown kind of tool failure `{}`; use one of `{known}`", escaped(&name)))
        })
    }
}

/// Maximum length of a failure's message in bytes, without the `…` of a truncated message.
const MAX_MESSAGE_BYTES: usize = 4096;

/// A call's failure, for the guest and the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFailure {
    /// The failure's category.
    pub kind: ToolErrorKind,
    /// The message, truncated after 4 KiB.
    pub message: String,
}

impl CallFailure {
    /// Creates a failure. Truncates its message after 4 KiB and appends `…`.
    pub fn new(kind: ToolErrorKind, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > MAX_MESSAGE_BYTES {
            message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
            message.push('…');
        }
        Self { kind, message }
    }
}

impl From<ToolError> for CallFailure {
    fn from(ToolError { kind, message }: ToolError) -> Self {
        Self::new(kind, message)
    }
}

/// The reason why a tool cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolDefinitionError {
    /// Scripts cannot use the name.
    #[error(
        "tool `{name}`: invalid name; use 1 to 64 letters, digits and underscores, starting with a letter, except \
         keywords and attributes of `tools`", name = escaped(.0)
    )]
    Name(String),
    /// Two tools have the same name.
    #[error("tool `{name}` is registered twice; rename one of them", name = escaped(.0))]
    Duplicate(String),
    /// The schema is invalid or unsupported.
    #[error("tool `{name}` has an invalid schema: {reason}", name = escaped(.name))]
    Schema {
        /// The name of the tool.
        name: String,
        /// The invalid or unsupported part of the schema.
        reason: String,
    },
    /// The tool has no handler.
    #[error(
        "tool `{name}` has no handler; set one with `Tool::handler`, or let the caller answer with `Tool::stepped`", name = escaped(.0)
    )]
    NoHandler(String),
    /// The descriptions and schemas are too long in total.
    #[error("the tools' descriptions and schemas are {bytes} bytes in total; the maximum is {max}; shorten them")]
    TooLarge {
        /// The total size in bytes.
        bytes: usize,
        /// The maximum size in bytes.
        max: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_reply_size_has_a_maximum() {
        for (length, fits) in [(3, true), (4, true), (5, false)] {
            let result = within("x".repeat(length), 4);
            assert_eq!(result.is_ok(), fits, "{length}");
            assert!(fits || result.unwrap_err().kind == ToolErrorKind::Limit);
        }
    }

    #[test]
    fn tool_reply_must_be_json() {
        assert_eq!(json_text("[1]".into()), Ok("[1]".into()));
        assert_eq!(json_text("1]".into()).unwrap_err().kind, ToolErrorKind::Failed);
    }

    #[test]
    fn tool_error_is_a_message_or_an_object_in_json() {
        let parsed = |value| serde_json::from_value::<ToolError>(value).map_err(|error| error.to_string());
        assert_eq!(parsed(json!("no")), Ok(ToolError::new("no")));
        for kind in ToolErrorKind::ALL {
            assert_eq!(parsed(json!({"type": kind.name(), "message": "no"})), Ok(ToolError::of(kind, "no")));
        }
        for invalid in [json!(1), json!(["no"]), json!({"type": "ToolDenied"}), json!({"message": "no"})] {
            assert!(parsed(invalid.clone()).is_err(), "{invalid}");
        }
        assert!(parsed(json!({"type": "ToolDenied", "message": "no", "more": 1})).is_err());
        assert!(parsed(json!({"type": "Denied", "message": "no"})).is_err_and(|error| error.contains("`ToolDenied`")));
    }

    #[test]
    fn reply_without_room_becomes_a_limit_error() {
        let account = Arc::new(ToolMemory::default());
        for (room, fits) in [(259, false), (260, true), (261, true)] {
            account.set_room(room);
            let (answer, held) = hold_answer(&account, Ok("1234".into()));
            assert_eq!((answer.is_ok(), held.bytes() == 260), (fits, fits), "{room}");
            assert_eq!(account.held_bytes(), held.bytes());
        }
    }
}
