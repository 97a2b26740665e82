//! A tool as the embedder describes it.

use std::{fmt, sync::Arc, time::Instant};

use serde_json::{Value, json};

#[cfg(doc)]
use super::ToolErrorKind;
use super::{Account, ToolError};
use crate::CancelToken;

/// What answers a tool's calls.
pub(super) type Handler = Arc<dyn Fn(&ToolCall, Value) -> Result<Value, ToolError> + Send + Sync>;

/// The same for one that deals with JSON text.
pub(crate) type TextHandler = Arc<dyn Fn(&ToolCall, String) -> Result<String, ToolError> + Send + Sync>;

/// A function of the host that scripts may call as `tools.name(…)`.
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
/// A handler runs on a thread of its own, several at once, and may take its time: it is given a deadline and a token that
/// is cancelled when nobody waits for it any longer. One that does not heed it is abandoned: the execution goes on
/// without it, its thread ends when it returns. Of one tool, 64 may be abandoned at a time; until one returns, further
/// calls of it are refused. A panic of a handler is a `ToolError` in the script.
///
/// Asynchronous code: keep a handle of the runtime and block on it, as in
/// `move |_, arguments| handle.block_on(fetch(arguments))`; the thread is none of the runtime's own, so that it may.
#[derive(Clone)]
#[must_use]
pub struct Tool {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) schema: Value,
    pub(super) answerer: Option<Answerer>,
    pub(super) is_foreign: bool,
}

/// Who answers a tool's calls.
#[derive(Clone)]
pub(super) enum Answerer {
    Handler(Handler),
    TextHandler(TextHandler),
    /// Whoever steps through the execution.
    Caller,
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("name", &self.name).field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl Tool {
    /// The name that scripts use.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A tool by the name that scripts call it by: an identifier of 1 to 64 ASCII letters, digits and underscores,
    /// beginning with a letter. The description is what `help(tools.name)` shows.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            schema: json!({ "type": "object" }),
            answerer: None,
            is_foreign: false,
        }
    }

    /// What the arguments must be, as JSON Schema: of an object, whose properties are the named arguments. Default: any
    /// object. Arguments are checked against it before the handler is called.
    ///
    /// Arguments without names are taken in the order of `required`, then of the other properties by name. Regular
    /// expressions (`pattern`) are those that take linear time: no look-around and no references back. A `$ref` is `#`
    /// or `#/…`: it leads to the schema itself and nowhere else.
    ///
    /// What a check may cost is bounded, since nothing can end one that has begun: a schema consists of at most 1,000 schemas, has at most
    /// 64 regular expressions, and of its parts at most 32 apply to one value through one another. Where it refers to itself from
    /// several alternatives, each level of the arguments multiplies the cost: arguments that would take more than about
    /// 10^8 steps are refused (`InvalidArguments`).
    pub fn schema(mut self, schema: Value) -> Self {
        self.schema = schema;
        self
    }

    /// What answers the calls: JSON arguments in, a JSON result out. A [`Value`] of `serde_json` sorts keys, and makes floats of integers over
    /// 64 bits; [`text_handler`](Self::text_handler) gets and gives the text as it is.
    pub fn handler(
        mut self,
        handler: impl Fn(&ToolCall, Value) -> Result<Value, ToolError> + Send + Sync + 'static,
    ) -> Self {
        self.answerer = Some(Answerer::Handler(Arc::new(handler)));
        self
    }

    /// The same with JSON text in and out, for a handler that passes on what somebody untrusted has answered, or needs all digits and the
    /// order of keys.
    ///
    /// The host holds JSON as values in up to a hundred times the memory of its text, so that a result is better not parsed
    /// before its size is known. This one never is: more than `limits.tool_bytes` is a
    /// [`ToolLimit`](ToolErrorKind::Limit) in the script, and what is no JSON, or nests more than 127 levels deep, a
    /// [`ToolError`](ToolErrorKind::Failed).
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

    /// Leaves the calls to whoever steps through the execution, instead of a handler:
    /// [`Started::advance`](crate::Started::advance) asks for their answers. In executions that were not started so, a call fails
    /// at once.
    pub fn stepped(mut self) -> Self {
        self.answerer = Some(Answerer::Caller);
        self
    }

    /// Its schema comes from somebody who is not trusted: what holding arguments to it may take is bounded more narrowly.
    pub fn foreign(mut self) -> Self {
        self.is_foreign = true;
        self
    }

    /// The tool behind `llm_query(prompt)`: asks a language model.
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

    /// The tool behind `rlm_query(task, ctx=None)`: gives a task to another session, with a context of its own. Where the
    /// script gives none, `ctx` is the session's own `context`.
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

/// One call of a tool, as its handler sees it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolCall {
    /// The tool's name.
    pub name: String,
    /// Which call of the execution it is, counted from 0: its place in
    /// [`Execution::tool_calls`](crate::Execution::tool_calls).
    pub index: usize,
    /// The session's id, or the one that the request names.
    pub session_id: Option<String>,
    /// Cancelled when nobody waits for the result any longer: the call's time is over, the execution was cancelled or has
    /// ended.
    pub cancel: CancelToken,
    /// When the call's time is over.
    pub deadline: Instant,
    /// What is held for the execution's calls, for a handler of ours that holds much meanwhile.
    pub(crate) account: Arc<Account>,
}
