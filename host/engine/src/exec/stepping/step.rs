//! Messages between a started execution and its caller.

use std::sync::Arc;

use serde_json::Value;

use crate::{ExecuteError, Execution, ToolError};

/// Progress of a started execution.
#[derive(Clone, Debug)]
pub enum Step {
    /// The execution has ended.
    Done(Arc<Execution>),
    /// The unanswered calls, in the order in which the script made them. Concurrent calls are returned together.
    ///
    /// Returned if the script can only continue with answers of the caller, or with a timeout. Also returned if there
    /// are unanswered calls when the time limit of [`Started::advance`](crate::Started::advance) expires.
    NeedsTools(Vec<ToolRequest>),
    /// The time limit of [`Started::advance`](crate::Started::advance) has expired, and the script runs without
    /// unanswered calls.
    Running,
}

/// A call of one of the caller's tools, for which the script waits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolRequest {
    /// Index of the call in the execution, counted from 0: its position in [`Execution::tool_calls`]. Calls of other
    /// tools count too.
    pub id: u64,
    /// Name of the tool.
    pub name: String,
    /// The arguments as the text of a JSON object, which the tool's schema has accepted. At most `limits.tool_bytes`.
    pub arguments: String,
}

impl ToolRequest {
    /// Returns the arguments as a parsed JSON object.
    #[must_use]
    pub fn values(&self) -> Value {
        serde_json::from_str(&self.arguments).unwrap_or_default()
    }
}

/// The caller's answer to a [`ToolRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolAnswer {
    /// Id of the request.
    pub id: u64,
    /// The result as JSON text, or an error. A result larger than `limits.tool_bytes` raises
    /// [`ToolLimit`](crate::ToolErrorKind::Limit) in the script.
    pub answer: Result<String, ToolError>,
}

impl ToolAnswer {
    /// Creates an answer with a result.
    #[must_use]
    pub fn value(id: u64, value: &Value) -> Self {
        Self { id, answer: Ok(value.to_string()) }
    }

    /// Creates an answer with an error.
    #[must_use]
    pub fn error(id: u64, error: impl Into<ToolError>) -> Self {
        Self { id, answer: Err(error.into()) }
    }
}

/// A started execution could not be continued, or could not be carried out.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdvanceError {
    /// An answer is for a call that the execution has not made. None of the answers was used.
    #[error("unknown tool call {id}; answer with the id of the request")]
    UnknownCall {
        /// Id of the answer.
        id: u64,
    },
    /// An answer is not JSON, or is nested more than 127 levels deep. None of the answers was used.
    #[error("the answer to call {id} is not JSON: {reason}")]
    NotJson {
        /// Id of the answer.
        id: u64,
        /// Error of the JSON parser.
        reason: String,
    },
    /// The execution could not be carried out. Advancing again returns the same error.
    #[error(transparent)]
    Execute(Arc<ExecuteError>),
    /// The execution's thread panicked, in a listener of the embedder or in the sandbox itself. A session is in the
    /// state of an unwound execution.
    #[error("the execution's thread panicked; see the output of the panic hook")]
    Panicked,
}
