//! How tools and their calls fail.

use glovebox_vfs::escaped;
use std::fmt;

use serde::{Serialize, Serializer};

/// What a tool's handler says when it has no result. The guest sees the message, as `tools.ToolError`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    kind: ToolErrorKind,
    message: String,
}

impl ToolError {
    /// A failure in words for the script. Keep out of them what a script may not know.
    #[must_use]
    pub fn new(message: impl fmt::Display) -> Self {
        Self::of(ToolErrorKind::Failed, message)
    }

    /// The same as a failure of this kind, whose class is what the guest sees: for whoever passes on what another host or component
    /// has said.
    #[must_use]
    pub fn of(kind: ToolErrorKind, message: impl fmt::Display) -> Self {
        Self { kind, message: message.to_string() }
    }

    /// What kind of failure it is. Default: [`ToolErrorKind::Failed`].
    #[must_use]
    pub fn kind(&self) -> ToolErrorKind {
        self.kind
    }

    /// The words.
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

/// Why a call gave the guest no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ToolErrorKind {
    /// The handler said so, or panicked.
    Failed,
    /// A limit: `tool_calls`, `tool_bytes`, `memory_bytes`, or what the host runs at once.
    Limit,
    /// It took longer than `tool_timeout_ms`.
    Timeout,
    /// No tool has this name.
    Unknown,
    /// The arguments are not what the tool's schema asks for.
    InvalidArguments,
}

impl ToolErrorKind {
    /// The name of the class that the guest sees.
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

/// The longest message of a failure that a guest gets, in bytes.
const MAX_MESSAGE_BYTES: usize = 4096;

/// Why a call failed, as the guest and the record are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// How.
    pub kind: ToolErrorKind,
    /// In words, at most 4 KiB of them.
    pub message: String,
}

impl Failure {
    /// A failure; more words than fit are cut.
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
    /// The name is none that scripts could write.
    #[error(
        "tool `{name}`: a name is 1 to 64 letters, digits and underscores, begins with a letter, and is neither a \
         keyword nor what `tools` has itself", name = escaped(.0)
    )]
    Name(String),
    /// Two tools have this name.
    #[error("tool `{name}` is registered twice; give one of them another name", name = escaped(.0))]
    Duplicate(String),
    /// The schema cannot be.
    #[error("tool `{name}`: its schema cannot be used: {reason}", name = escaped(.name))]
    Schema {
        /// The tool.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nothing answers its calls.
    #[error(
        "tool `{name}` has no handler; give it one with `Tool::handler`, or leave it to the caller with `Tool::stepped`", name = escaped(.0)
    )]
    NoHandler(String),
    /// All descriptions and schemas together are too long.
    #[error("the tools' descriptions and schemas take {bytes} bytes together; the most is {most}")]
    TooLarge {
        /// What they take.
        bytes: usize,
        /// What they may take.
        most: usize,
    },
}
