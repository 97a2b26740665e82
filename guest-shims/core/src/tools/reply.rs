//! Replies to the guest's tool calls, and tool errors.

use std::{fmt, sync::Arc};

use glovebox_vfs::escaped;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::json;

use super::{HeldMemory, ToolMemory};
use crate::check_json;

/// Memory of an unread reply apart from its text, in bytes.
const REPLY_BYTES: u64 = 256;

/// The answer of a handler: its result as JSON text, or its failure.
pub type Answer = Result<String, CallFailure>;

/// A reply that the guest has not taken yet.
#[derive(Debug)]
pub(super) enum Reply {
    /// The catalogue. It is built when it is taken, so a guest that asks a thousand times and reads nothing holds no
    /// memory.
    Catalogue,
    /// The answer to a call.
    Answer {
        /// The guest's id for the call.
        id: u64,
        /// The answer of the call.
        answer: Answer,
        /// `true` if the call occupied a turn among the concurrent calls.
        ran: bool,
        /// The memory held for the reply.
        held: HeldMemory,
    },
    /// The reason why a message was invalid.
    NotUnderstood(&'static str),
}

/// Returns the answer to a call as JSON text.
#[must_use]
pub(super) fn answered(id: u64, answer: Answer) -> String {
    match answer {
        // The result is JSON text built from a value, so it can be embedded.
        Ok(result) => format!("{{\"id\":{id},\"ok\":{result}}}"),
        Err(CallFailure { kind, message }) => {
            json!({ "id": id, "error": { "type": kind.name(), "message": message } }).to_string()
        }
    }
}

/// Returns the answer to an invalid message as JSON text.
#[must_use]
pub(super) fn not_understood(reason: &str) -> String {
    let message = format!("the message was not understood: {reason}");
    json!({ "id": null, "error": { "type": "ToolError", "message": message } }).to_string()
}

/// Returns a result, or a failure if it exceeds `max_bytes`.
pub fn within(text: String, max_bytes: u64) -> Answer {
    let bytes = text.len() as u64;
    if bytes > max_bytes {
        let message = format!("the result is {bytes} bytes; `limits.tool_bytes` is {max_bytes}");
        return Err(CallFailure::new(ToolErrorKind::Limit, message));
    }
    Ok(text)
}

/// Returns a text that can be embedded in the reply, or a failure if it is not JSON.
pub fn json_text(text: String) -> Answer {
    match check_json(&text) {
        Ok(()) => Ok(text),
        Err(reason) => Err(CallFailure::new(ToolErrorKind::Failed, format!("the result is not JSON: {reason}"))),
    }
}

/// Returns the failure of a call that took too long.
#[must_use]
pub(super) fn timeout(max_ms: u64) -> CallFailure {
    CallFailure::new(ToolErrorKind::Timeout, format!("it took longer than {max_ms} ms (`limits.tool_timeout_ms`)"))
}

/// Holds memory for an answer. An answer that does not fit becomes a failure. The few bytes of a failure are always
/// held, because it must reach the guest.
pub fn hold_answer(account: &Arc<ToolMemory>, answer: Answer) -> (Answer, HeldMemory) {
    let length = |answer: &Answer| REPLY_BYTES + answer.as_ref().map_or_else(|no| no.message.len(), String::len) as u64;
    if let Some(held) = account.hold(length(&answer)) {
        return (answer, held);
    }
    let answer = answer.and_then(|_| {
        let what = "the host has no room for the result: `limits.memory_bytes` counts it until it is read";
        Err(CallFailure::new(ToolErrorKind::Limit, what))
    });
    let held = account.hold_anyway(length(&answer));
    (answer, held)
}

/// The failure of a tool's handler. The guest sees the message, as `tools.ToolError`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    kind: ToolErrorKind,
    message: String,
}

impl ToolError {
    /// Creates a failure with a message for the script. Leave out facts that scripts must not know.
    #[must_use]
    pub fn new(message: impl fmt::Display) -> Self {
        Self::of(ToolErrorKind::Failed, message)
    }

    /// Creates a failure of a kind, which decides the class that the guest sees. Use it to forward the failure of
    /// another host or component.
    #[must_use]
    pub fn of(kind: ToolErrorKind, message: impl fmt::Display) -> Self {
        Self { kind, message: message.to_string() }
    }

    /// Returns the kind of failure. Default: [`ToolErrorKind::Failed`].
    #[must_use]
    pub fn kind(&self) -> ToolErrorKind {
        self.kind
    }

    /// Returns the message.
    #[must_use]
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

/// The reason why a call returned no result to the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ToolErrorKind {
    /// The handler failed or panicked.
    Failed,
    /// A limit: `tool_calls`, `tool_bytes`, `memory_bytes`, or the number of concurrent calls of the host.
    Limit,
    /// The call took longer than `tool_timeout_ms`.
    Timeout,
    /// There is no tool of this name.
    Unknown,
    /// The arguments do not match the tool's schema.
    InvalidArguments,
}

impl ToolErrorKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Failed, Self::Limit, Self::Timeout, Self::Unknown, Self::InvalidArguments];

    /// Returns the class name that the guest sees.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Failed => "ToolError",
            Self::Limit => "ToolLimit",
            Self::Timeout => "ToolTimeout",
            Self::Unknown => "UnknownTool",
            Self::InvalidArguments => "InvalidArguments",
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

/// Maximum length of a failure's message for a guest, in bytes.
const MAX_MESSAGE_BYTES: usize = 4096;

/// The failure of a call, for the guest and the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallFailure {
    /// The kind of failure.
    pub kind: ToolErrorKind,
    /// The message, at most 4 KiB.
    pub message: String,
}

impl CallFailure {
    /// Creates a failure and truncates its message if necessary.
    #[must_use]
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

/// A tool that cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolDefinitionError {
    /// The name is not valid in scripts.
    #[error(
        "tool `{name}`: invalid name; use 1 to 64 letters, digits and underscores, starting with a letter, except \
         keywords and attributes of `tools`", name = escaped(.0)
    )]
    Name(String),
    /// Two tools have the same name.
    #[error("tool `{name}` is registered twice; give one of them another name", name = escaped(.0))]
    Duplicate(String),
    /// The schema is invalid or unsupported.
    #[error("tool `{name}` has an invalid schema: {reason}", name = escaped(.name))]
    Schema {
        /// The name of the tool.
        name: String,
        /// The reason, as text.
        reason: String,
    },
    /// The tool has no handler.
    #[error(
        "tool `{name}` has no handler; give it one with `Tool::handler`, or leave it to the caller with `Tool::stepped`", name = escaped(.0)
    )]
    NoHandler(String),
    /// All descriptions and schemas together are too long.
    #[error("the tools' descriptions and schemas take {bytes} bytes together; the maximum is {most}")]
    TooLarge {
        /// Their total size.
        bytes: usize,
        /// The maximum size in bytes.
        most: usize,
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
