//! Failures of tools and their calls.

use glovebox_vfs::escaped;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

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
        found.ok_or_else(|| D::Error::custom(format!("`{}` is no kind of a tool's failure", escaped(&name))))
    }
}

/// Maximum length of a failure's message for a guest, in bytes.
const MAX_MESSAGE_BYTES: usize = 4096;

/// The failure of a call, for the guest and the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind of failure.
    pub kind: ToolErrorKind,
    /// The message, at most 4 KiB.
    pub message: String,
}

impl Failure {
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

impl From<ToolError> for Failure {
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
    #[error("tool `{name}`: its schema cannot be used: {reason}", name = escaped(.name))]
    Schema {
        /// The name of the tool.
        name: String,
        /// The problem, in words.
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
