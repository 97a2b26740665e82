//! What a started execution and its caller say to each other.

use std::sync::Arc;

use serde_json::Value;

use crate::{ExecuteError, Execution, ToolError};

/// How far a started execution has come.
#[derive(Clone, Debug)]
pub enum Step {
    /// It has ended.
    Done(Arc<Execution>),
    /// These calls have no answer yet, in the order in which they were made, and the script waits for the caller's tools and for nothing
    /// else that would go on by itself but time, or the time that [`Started::advance`](crate::Started::advance) was given is over. Calls
    /// that were made at once come at once.
    NeedsTools(Vec<ToolRequest>),
    /// The time that [`Started::advance`](crate::Started::advance) was given is over, and the script goes on, with no call that has no
    /// answer.
    Running,
}

/// A call of one of the caller's tools by a script that waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolRequest {
    /// Which call of the execution it is, counted from 0: its place in [`Execution::tool_calls`]. The calls of other tools count too.
    pub id: u64,
    /// The tool's name.
    pub name: String,
    /// The arguments: the text of a JSON object, which the tool's schema has accepted. At most `limits.tool_bytes`.
    pub arguments: String,
}

impl ToolRequest {
    /// The arguments as values: an object.
    #[must_use]
    pub fn values(&self) -> Value {
        serde_json::from_str(&self.arguments).unwrap_or_default()
    }
}

/// What the caller answers a [`ToolRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolAnswer {
    /// The request's.
    pub id: u64,
    /// JSON text, or why there is none. More than `limits.tool_bytes` is a [`ToolLimit`](crate::ToolErrorKind::Limit) in the script.
    pub answer: Result<String, ToolError>,
}

impl ToolAnswer {
    /// A result.
    #[must_use]
    pub fn value(id: u64, value: &Value) -> Self {
        Self { id, answer: Ok(value.to_string()) }
    }

    /// A failure.
    #[must_use]
    pub fn error(id: u64, error: impl Into<ToolError>) -> Self {
        Self { id, answer: Err(error.into()) }
    }
}

/// A started execution could not be gone on with, or could not be carried out.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdvanceError {
    /// No answer was taken: the execution has made no such call.
    #[error("the execution has made no call {id} of a tool; answer with the id of the request")]
    UnknownCall {
        /// The answer's id.
        id: u64,
    },
    /// No answer was taken: one is no JSON, or nested more than 127 levels deep.
    #[error("the answer to call {id} is no JSON: {reason}")]
    NotJson {
        /// The answer's id.
        id: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// It could not be carried out. Advancing again says the same.
    #[error(transparent)]
    Execute(Arc<ExecuteError>),
    /// Its thread panicked: a listener of the embedder's, or the sandbox itself. A session is as after an execution that was unwound.
    #[error("the execution's thread panicked; what the panic hook wrote says why")]
    Panicked,
}
