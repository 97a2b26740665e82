//! The definition of a tool by the embedder.

use std::{fmt, sync::Arc, time::Instant};

use serde_json::{Value, json};

#[cfg(doc)]
use super::ToolErrorKind;
use super::{Account, ToolError};
use crate::CancelToken;

/// Handler of a tool's calls.
pub(super) type Handler = Arc<dyn Fn(&ToolCall, Value) -> Result<Value, ToolError> + Send + Sync>;

/// Handler that takes and returns JSON text.
pub(crate) type TextHandler = Arc<dyn Fn(&ToolCall, String) -> Result<String, ToolError> + Send + Sync>;

/// A host function that scripts may call as `tools.name(…)`.
///
/// ```
/// use glovebox::Tool;
/// use serde_json::json;
///
/// let add = Tool::new("add", "Adds two numbers.")
///     .schema(json!({
///         "type": "object",
///         "properties": { "a": { "type": "number" }, "b": { "type": "number" } },
///         "required": ["a", "b"],
///         "additionalProperties": false,
///     }))
///     .handler(|_call, arguments| {
///         let number = |name: &str| arguments[name].as_f64().unwrap_or(0.0);
///         Ok(json!(number("a") + number("b")))
///     });
/// # let _ = add;
/// ```
///
/// In Python: `tools.add(1, b=2)`; in JavaScript: `await tools.add({a: 1, b: 2})`.
///
/// Each call runs on a thread of its own, and several calls run at once, so handlers may block. A handler gets a
/// deadline, and a token that is cancelled when the execution no longer waits for it. A handler that ignores them is
/// abandoned: the execution continues without it, and its thread ends when it returns. At most 64 calls of one tool may
/// be abandoned at a time; until one returns, further calls of it are refused. A panic in a handler raises `ToolError`
/// in the script.
///
/// For asynchronous code, keep a handle of the runtime and block on it, as in
/// `move |_, arguments| handle.block_on(fetch(arguments))`. This is allowed because the thread does not belong to the
/// runtime.
#[derive(Clone)]
#[must_use]
pub struct Tool {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) schema: Value,
    pub(super) answerer: Option<Answerer>,
    pub(super) is_foreign: bool,
}

/// How a tool's calls are answered.
#[derive(Clone)]
pub(super) enum Answerer {
    Handler(Handler),
    TextHandler(TextHandler),
    /// Answered by the caller of a started execution.
    Caller,
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("name", &self.name).field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl Tool {
    /// Returns the name for scripts.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Creates a tool. Scripts call it by its name, an identifier of 1 to 64 ASCII letters, digits and underscores that
    /// starts with a letter. `help(tools.name)` shows the description.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            schema: json!({ "type": "object" }),
            answerer: None,
            is_foreign: false,
        }
    }

    /// Sets the JSON Schema of the arguments: of an object whose properties are the named arguments. Default: any
    /// object. Arguments are validated before the handler is called.
    ///
    /// Positional arguments are assigned in the order of `required`, then to the other properties by name. Regular
    /// expressions (`pattern`) must be matchable in linear time: without look-around and back-references. A `$ref` is
    /// `#` or `#/…`, a reference within the schema.
    ///
    /// The cost of a validation is bounded, because it cannot be interrupted. A schema consists of at most 1,000
    /// schemas, with at most 64 regular expressions. At most 32 of its parts apply to one value through one another. If
    /// a schema refers to itself from several alternatives, each level of the arguments multiplies the cost. Arguments
    /// that would take more than about 10^8 steps are refused (`InvalidArguments`).
    pub fn schema(mut self, schema: Value) -> Self {
        self.schema = schema;
        self
    }

    /// Sets the handler of the calls, which takes JSON arguments and returns a JSON result. [`Value`] of `serde_json`
    /// sorts keys, and converts integers of more than 64 bits to floats. [`text_handler`](Self::text_handler) preserves
    /// the text.
    pub fn handler(
        mut self,
        handler: impl Fn(&ToolCall, Value) -> Result<Value, ToolError> + Send + Sync + 'static,
    ) -> Self {
        self.answerer = Some(Answerer::Handler(Arc::new(handler)));
        self
    }

    /// Sets a handler that takes and returns JSON text. Use it to pass on untrusted answers, or to preserve all digits
    /// and the order of keys.
    ///
    /// Parsed JSON takes up to a hundred times the memory of its text, so a result should not be parsed before its size
    /// is known. The text of this handler is never parsed into values. A result larger than `limits.tool_bytes` raises
    /// [`ToolLimit`](ToolErrorKind::Limit) in the script. Text that is not JSON, or is nested more than 127 levels
    /// deep, raises [`ToolError`](ToolErrorKind::Failed).
    ///
    /// ```
    /// use glovebox::Tool;
    ///
    /// let fetch = Tool::new("fetch", "Asks a service.").text_handler(|_call, arguments| {
    ///     Ok(format!("{{\"asked\": {arguments}}}"))
    /// });
    /// # let _ = fetch;
    /// ```
    pub fn text_handler(
        mut self,
        handler: impl Fn(&ToolCall, String) -> Result<String, ToolError> + Send + Sync + 'static,
    ) -> Self {
        self.answerer = Some(Answerer::TextHandler(Arc::new(handler)));
        self
    }

    /// Leaves the calls to the caller of a started execution, instead of a handler.
    /// [`Started::advance`](crate::Started::advance) returns the calls and takes the answers. In other executions a
    /// call fails at once.
    pub fn stepped(mut self) -> Self {
        self.answerer = Some(Answerer::Caller);
        self
    }

    /// Marks the schema as untrusted, which sets stricter limits on the cost of validating arguments.
    pub fn foreign(mut self) -> Self {
        self.is_foreign = true;
        self
    }

    /// Creates the tool behind `llm_query(prompt)`, which asks a language model.
    pub fn llm_query(handler: impl Fn(&ToolCall, &str) -> Result<String, ToolError> + Send + Sync + 'static) -> Self {
        Self::new("llm_query", "Asks a language model and returns its answer.")
            .schema(json!({
                "type": "object",
                "properties": { "prompt": { "type": "string" } },
                "required": ["prompt"],
                "additionalProperties": false,
            }))
            .handler(move |call, arguments| {
                let prompt = arguments.get("prompt").and_then(Value::as_str).unwrap_or_default();
                handler(call, prompt).map(Value::String)
            })
    }

    /// Creates the tool behind `rlm_query(task, ctx=None)`, which gives a task and a context to another session. If the
    /// script passes no `ctx`, it is the session's own `context`.
    pub fn rlm_query(
        handler: impl Fn(&ToolCall, &str, &Value) -> Result<Value, ToolError> + Send + Sync + 'static,
    ) -> Self {
        Self::new("rlm_query", "Gives a task with a context to another session and returns its answer.")
            .schema(json!({
                "type": "object",
                "properties": { "task": { "type": "string" }, "ctx": {} },
                "required": ["task"],
                "additionalProperties": false,
            }))
            .handler(move |call, arguments| {
                let task = arguments.get("task").and_then(Value::as_str).unwrap_or_default();
                handler(call, task, arguments.get("ctx").unwrap_or(&Value::Null))
            })
    }
}

/// A call of a tool, as its handler sees it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolCall {
    /// Name of the tool.
    pub name: String,
    /// Index of the call in the execution, counted from 0: its position in
    /// [`Execution::tool_calls`](crate::Execution::tool_calls).
    pub index: usize,
    /// Id of the session, or the session id in the request.
    pub session_id: Option<String>,
    /// Cancelled when the execution no longer waits for the result: the call has timed out, or the execution was
    /// cancelled or has ended.
    pub cancel: CancelToken,
    /// Time at which the call times out.
    pub deadline: Instant,
    /// Account for the memory of the execution's calls, for internal handlers that use much memory.
    #[cfg_attr(not(feature = "network"), expect(dead_code, reason = "requests to the network are charged to it"))]
    pub(crate) account: Arc<Account>,
}
