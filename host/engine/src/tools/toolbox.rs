//! A tool as the embedder defines it, and the tools of a sandbox.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use glovebox_core::tools::{CallFailure, Checked, Definition, MAX_ENGINE_LEVELS, Toolset};
use serde_json::{Value, json};

use super::{ToolDefinitionError, ToolError, ToolErrorKind, ToolMemory, pending::Abandoned};
use crate::CancelToken;

/// Maximum number of abandoned calls of one tool that still run. A tool that hangs is soon refused, while the other
/// tools still work.
const MAX_ABANDONED: usize = 64;

/// Name of the tool for scripts' network requests, in calls and in records. Other tools cannot have this name.
pub const NETWORK_TOOL: &str = "network.fetch";

/// Handler and limits of [`NETWORK_TOOL`].
pub(crate) struct ReservedTool {
    pub(crate) answerer: TextHandler,
    /// Maximum size of a call's arguments, and of its result, in bytes.
    pub(crate) max_bytes: u64,
    /// Maximum number of calls of one execution.
    pub(crate) max_calls: u64,
}

/// The tools of a sandbox, by name, and their catalogue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Toolbox {
    tools: Toolset<Arc<Entry>>,
    /// Performs scripts' network requests, if the policy allows them.
    network: Option<Arc<Entry>>,
    /// A value that is dropped together with these tools.
    _keeps: Option<Arc<dyn fmt::Debug + Send + Sync>>,
    abandoned: Arc<Abandoned>,
}

/// A tool with its compiled schema and its limits.
pub(crate) struct Entry {
    pub(super) answerer: Answerer,
    pub(super) checked: Checked,
    /// Maximum size of arguments and of a result in bytes, in place of `limits.tool_bytes`.
    pub(super) max_bytes: Option<u64>,
    /// Maximum number of calls of one execution, in addition to the limit on all tools.
    pub(super) max_calls: Option<u64>,
    abandoned: AtomicUsize,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("checked", &self.checked).finish_non_exhaustive()
    }
}

impl AsRef<Checked> for Entry {
    fn as_ref(&self) -> &Checked {
        &self.checked
    }
}

/// Checks that scripts can use these tools: each is valid, no two have the same name, and their descriptions and
/// schemas together are not too long. Building a sandbox makes the same checks.
///
/// # Errors
/// Returns the error of the first invalid tool.
pub fn check_tools(tools: &[Tool]) -> Result<(), ToolDefinitionError> {
    Toolbox::new(tools).map(drop)
}

impl Toolbox {
    /// Checks the tools and compiles their schemas.
    pub(crate) fn new(tools: &[Tool]) -> Result<Self, ToolDefinitionError> {
        Self::default().with(tools)
    }

    /// Returns a toolbox with more tools. Both toolboxes share the existing tools: calls abandoned in one count in the
    /// other too.
    pub(crate) fn with(&self, tools: &[Tool]) -> Result<Self, ToolDefinitionError> {
        let mut toolbox = self.clone();
        for tool in tools {
            toolbox.add(tool)?;
        }
        toolbox.tools.check()?;
        Ok(toolbox)
    }

    /// Holds `it` until these tools are dropped.
    pub(crate) fn keeping(self, it: impl fmt::Debug + Send + Sync + 'static) -> Self {
        Self { _keeps: Some(Arc::new(it)), ..self }
    }

    fn add(&mut self, tool: &Tool) -> Result<(), ToolDefinitionError> {
        let Tool { name, description, schema, is_foreign, .. } = tool;
        let max_levels = MAX_ENGINE_LEVELS;
        let definition = Definition { name, description, schema, is_foreign: *is_foreign, max_levels };
        definition.check_name()?;
        if self.tools.find(name).is_some() {
            return Err(ToolDefinitionError::Duplicate(name.clone()));
        }
        let Some(answerer) = tool.answerer.clone() else { return Err(ToolDefinitionError::NoHandler(name.clone())) };
        let checked = definition.check()?;
        let entry = Entry { answerer, checked, max_bytes: None, max_calls: None, abandoned: AtomicUsize::new(0) };
        self.tools.add(name, Arc::new(entry))
    }

    /// Returns a toolbox with the tool that performs scripts' network requests. It is not listed in `tools`, and
    /// scripts cannot call it by name there.
    pub(crate) fn with_network(&self, tool: ReservedTool) -> Result<Self, ToolDefinitionError> {
        let ReservedTool { answerer, max_bytes, max_calls } = tool;
        let schema = json!({ "type": "object" });
        let definition = Definition {
            name: "network",
            description: "",
            schema: &schema,
            is_foreign: false,
            max_levels: MAX_ENGINE_LEVELS,
        };
        let answerer = Answerer::TextHandler(answerer);
        let (max_bytes, max_calls, checked) = (Some(max_bytes), Some(max_calls), definition.check()?);
        let entry = Entry { answerer, checked, max_bytes, max_calls, abandoned: AtomicUsize::new(0) };
        Ok(Self { network: Some(Arc::new(entry)), ..self.clone() })
    }

    /// Returns the tool of a reserved name, which is not one of the scripts' tools.
    pub(super) fn reserved(&self, name: &str) -> Option<Arc<Entry>> {
        self.network.clone().filter(|_| name == NETWORK_TOOL)
    }

    pub(super) fn tools(&self) -> &Toolset<Arc<Entry>> {
        &self.tools
    }

    /// Returns the abandoned calls that still run.
    pub(super) fn abandoned(&self) -> &Arc<Abandoned> {
        &self.abandoned
    }
}

impl Entry {
    /// Fails if too many earlier calls of this tool were abandoned and still run.
    pub(super) fn admit(&self, name: &str) -> Result<(), CallFailure> {
        if self.abandoned.load(Ordering::SeqCst) < MAX_ABANDONED {
            return Ok(());
        }
        let message = format!("{MAX_ABANDONED} calls of `{name}` were abandoned and still run; try again later");
        Err(CallFailure::new(ToolErrorKind::Limit, message))
    }

    pub(super) fn abandoned(&self) -> &AtomicUsize {
        &self.abandoned
    }
}

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
    /// Memory of the execution's calls (`limits.memory_bytes`), for handlers that use much memory.
    pub account: Arc<ToolMemory>,
}
