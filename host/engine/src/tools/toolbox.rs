//! Tool definitions, and the tools of a sandbox.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use glovebox_core::tools::{CallFailure, CheckedDefinition, Definition, MAX_ENGINE_LEVELS, Toolset};
use serde_json::{Value, json};

use super::{CallMemory, ToolDefinitionError, ToolError, ToolErrorKind, ToolRules, abandoned::AbandonedCalls};
use crate::{CancelToken, NetworkPolicy};

/// Maximum number of abandoned calls to one tool that still run. Further calls to a tool that hangs are refused, so
/// that other tools continue to work.
const MAX_ABANDONED: usize = 64;

/// The name of the tool for scripts' network requests, in calls and in records. Other tools cannot have this name.
pub const NETWORK_TOOL: &str = "network.fetch";

/// The tools of a sandbox by name, and their catalogue for scripts.
#[derive(Clone, Debug, Default)]
pub struct Toolbox {
    tools: Toolset<Arc<Entry>>,
    /// The tool that performs scripts' network requests. `None` if the policy allows no addresses.
    network: Option<Arc<Entry>>,
    /// The policy's restrictions on the tools.
    rules: Arc<ToolRules>,
    /// A value that this toolbox and its copies keep alive.
    _keeps: Option<Arc<dyn fmt::Debug + Send + Sync>>,
    abandoned: Arc<AbandonedCalls>,
}

/// A tool with its compiled schema and its limits.
pub(crate) struct Entry {
    pub(super) answerer: Answerer,
    pub(super) checked: CheckedDefinition,
    /// Maximum size of the arguments and of the result in bytes, instead of `limits.tool_bytes`.
    pub(super) max_bytes: Option<u64>,
    /// Maximum number of calls in one execution, in addition to the limit on calls to all tools.
    pub(super) max_calls: Option<u64>,
    /// The result of [`simple_schema_size`].
    schema_size: Option<usize>,
    abandoned: AtomicUsize,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("checked", &self.checked).finish_non_exhaustive()
    }
}

impl AsRef<CheckedDefinition> for Entry {
    fn as_ref(&self) -> &CheckedDefinition {
        &self.checked
    }
}

/// Checks that scripts can use these tools: each tool is valid, all names are unique, and the descriptions and schemas
/// together do not exceed the size limit. Building a sandbox makes the same checks.
///
/// # Errors
/// Returns the error for the first invalid tool, or [`ToolDefinitionError::TooLarge`].
pub fn check_tools(tools: &[Tool]) -> Result<(), ToolDefinitionError> {
    Toolbox::new(tools).map(drop)
}

impl Toolbox {
    /// Checks the tools and compiles their schemas.
    ///
    /// # Errors
    /// Fails like [`check_tools`].
    pub fn new(tools: &[Tool]) -> Result<Self, ToolDefinitionError> {
        Self::default().with(tools)
    }

    /// Returns a toolbox with additional tools. Both toolboxes share the existing tools, including the counts of their
    /// abandoned calls.
    pub(crate) fn with(&self, tools: &[Tool]) -> Result<Self, ToolDefinitionError> {
        let mut toolbox = self.clone();
        for tool in tools {
            toolbox.add(tool)?;
        }
        toolbox.tools.check()?;
        Ok(toolbox)
    }

    /// Keeps `it` alive until the toolbox and its copies are dropped.
    pub(crate) fn keep_alive(self, it: impl fmt::Debug + Send + Sync + 'static) -> Self {
        Self { _keeps: Some(Arc::new(it)), ..self }
    }

    fn add(&mut self, tool: &Tool) -> Result<(), ToolDefinitionError> {
        let Tool { name, description, schema, is_untrusted, .. } = tool;
        let max_levels = MAX_ENGINE_LEVELS;
        let definition = Definition { name, description, schema, is_untrusted: *is_untrusted, max_levels };
        definition.check_name()?;
        if self.tools.find(name).is_some() {
            return Err(ToolDefinitionError::Duplicate(name.clone()));
        }
        let Some(answerer) = tool.answerer.clone() else { return Err(ToolDefinitionError::NoHandler(name.clone())) };
        self.tools.add(name, Arc::new(Entry::new(answerer, &definition)?))
    }

    /// Returns a toolbox with the tool that performs scripts' network requests. `tools` does not contain this tool, so
    /// scripts cannot call it through `tools`.
    pub(crate) fn with_network(
        &self,
        handler: TextHandler,
        policy: &NetworkPolicy,
    ) -> Result<Self, ToolDefinitionError> {
        let schema = json!({ "type": "object" });
        let definition = Definition {
            name: "network",
            description: "",
            schema: &schema,
            is_untrusted: false,
            max_levels: MAX_ENGINE_LEVELS,
        };
        let entry = Entry {
            max_bytes: Some(policy.message_bytes()),
            max_calls: Some(policy.request_count),
            ..Entry::new(Answerer::TextHandler(handler), &definition)?
        };
        Ok(Self { network: Some(Arc::new(entry)), ..self.clone() })
    }

    /// Replaces the restrictions on the tools. The new restrictions also apply to tools that are added later.
    pub fn restricted(self, rules: ToolRules) -> Self {
        Self { rules: Arc::new(rules), ..self }
    }

    /// Returns the policy's restrictions on the tools.
    pub(super) fn rules(&self) -> &Arc<ToolRules> {
        &self.rules
    }

    /// Returns the tool with a reserved name, which is not listed in `tools`.
    pub(super) fn reserved(&self, name: &str) -> Option<Arc<Entry>> {
        self.network.clone().filter(|_| name == NETWORK_TOOL)
    }

    pub(super) fn tools(&self) -> &Toolset<Arc<Entry>> {
        &self.tools
    }

    /// Returns the list of tools that scripts read, as JSON text.
    pub(crate) fn catalogue(&self) -> String {
        self.tools.catalogue()
    }

    /// Returns `true` if scripts can call a tool with this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.tools.find(name).is_some()
    }

    /// Returns `true` if calls to the tool `name` need an approval.
    pub(crate) fn needs_approval(&self, name: &str) -> bool {
        self.rules.needs_approval(name)
    }

    /// Returns `true` if a handler answers calls to this tool. The caller, not a handler, answers calls that need an
    /// approval.
    pub(crate) fn has_handler(&self, name: &str) -> bool {
        let entry = self.reserved(name).or_else(|| self.tools.find(name).cloned());
        !self.needs_approval(name) && entry.is_some_and(|entry| !matches!(entry.answerer, Answerer::Caller))
    }

    /// Returns the abandoned calls that still run.
    pub(super) fn abandoned(&self) -> &Arc<AbandonedCalls> {
        &self.abandoned
    }
}

impl Entry {
    /// Compiles a tool's schema. The tool has no limits until they are set.
    fn new(answerer: Answerer, definition: &Definition<'_>) -> Result<Self, ToolDefinitionError> {
        Ok(Self {
            answerer,
            checked: definition.check()?,
            max_bytes: None,
            max_calls: None,
            schema_size: simple_schema_size(definition.schema),
            abandoned: AtomicUsize::new(0),
        })
    }

    /// Fails if too many abandoned calls to this tool still run.
    pub(super) fn admit(&self, name: &str) -> Result<(), CallFailure> {
        if self.abandoned.load(Ordering::SeqCst) < MAX_ABANDONED {
            return Ok(());
        }
        let message =
            format!("{MAX_ABANDONED} abandoned calls to `{name}` are still running; wait for their handlers to return");
        Err(CallFailure::new(ToolErrorKind::Limit, message))
    }

    pub(super) fn abandoned(&self) -> &AtomicUsize {
        &self.abandoned
    }

    /// Returns `true` if arguments of this length can be checked on the guest's thread: the caller answers the calls,
    /// and the check takes at most a few milliseconds and little stack. A thread would cost more than such a check.
    /// `rule_size` is the size of the policy's schema ([`ToolRules::schema_size`]).
    pub(super) fn is_checked_at_once(&self, rule_size: Option<usize>, arguments_bytes: usize) -> bool {
        let size = self.schema_size.zip(rule_size).map(|(own, rule)| own.saturating_add(rule));
        let steps = size.map(|size| size.saturating_mul(arguments_bytes));
        matches!(self.answerer, Answerer::Caller) && steps.is_some_and(|steps| steps <= MAX_STEPS_AT_ONCE)
    }
}

/// Maximum product of the schemas' size and the length of the arguments for a check on the guest's thread. Such a check
/// cannot be interrupted, and takes a few milliseconds at most.
const MAX_STEPS_AT_ONCE: usize = 1 << 20;

/// Maximum nesting depth of a simple schema. The limit bounds the stack of a check on the guest's thread.
const SIMPLE_LEVELS: u32 = 16;

/// Returns the number of subschemas, names and values in a simple schema. The cost of a check is proportional to this
/// number and to the size of the arguments. Returns `None` for schemas with other keywords, such as references and
/// regular expressions, and for schemas that are nested more than [`SIMPLE_LEVELS`] deep.
pub(super) fn simple_schema_size(schema: &Value) -> Option<usize> {
    size_to_level(schema, SIMPLE_LEVELS)
}

fn size_to_level(schema: &Value, levels: u32) -> Option<usize> {
    let keywords = match schema {
        Value::Bool(_) => return Some(1),
        Value::Object(keywords) => keywords,
        _ => return None,
    };
    let below = levels.checked_sub(1)?;
    let mut size = 1;
    for (keyword, value) in keywords {
        size += match (keyword.as_str(), value) {
            ("properties", Value::Object(schemas)) => {
                schemas.values().map(|schema| size_to_level(schema, below)).sum::<Option<usize>>()?
            }
            ("anyOf", Value::Array(schemas)) => {
                schemas.iter().map(|schema| size_to_level(schema, below)).sum::<Option<usize>>()?
            }
            ("items" | "additionalProperties", _) => size_to_level(value, below)?,
            ("type" | "required" | "enum", _) => value.as_array().map_or(1, Vec::len),
            ("$schema" | "title" | "description" | "default" | "examples" | "const", _) => 1,
            ("minimum" | "exclusiveMinimum" | "maximum" | "exclusiveMaximum", _) => 1,
            ("minLength" | "maxLength" | "minItems" | "maxItems", _) => 1,
            _ => return None,
        };
    }
    Some(size)
}

/// A handler that takes and returns parsed JSON.
pub(super) type Handler = Arc<dyn Fn(&ToolCall, Value) -> Result<Value, ToolError> + Send + Sync>;

/// A handler that takes and returns JSON text.
pub(crate) type TextHandler = Arc<dyn Fn(&ToolCall, String) -> Result<String, ToolError> + Send + Sync>;

/// A host function that scripts can call as `tools.name(…)`.
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
/// In Python, call it as `tools.add(1, b=2)`, in JavaScript as `await tools.add({a: 1, b: 2})`.
///
/// Each call runs on its own thread, and several calls can run concurrently, so handlers may block. A handler receives
/// a deadline and a token. The token is cancelled when the execution no longer waits for the handler's result. A
/// handler that ignores the deadline and the token is abandoned: the execution continues without the result, and the
/// call's thread ends when the handler returns. If 16 abandoned calls of a session, or 64 abandoned calls to a tool,
/// are still running, further calls of the session or to the tool are refused. All executions outside sessions count
/// as one session. A panic in a handler raises `ToolError` in the script.
///
/// For asynchronous code, clone the runtime's handle into the closure and block on it, as in
/// `move |_, arguments| handle.block_on(fetch(arguments))`. Blocking is allowed because the thread does not belong to
/// the runtime.
#[derive(Clone)]
#[must_use]
pub struct Tool {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) schema: Value,
    pub(super) result_schema: Option<Value>,
    pub(super) answerer: Option<Answerer>,
    pub(super) is_untrusted: bool,
}

/// The handler or the caller that answers calls to a tool.
#[derive(Clone)]
pub(super) enum Answerer {
    Handler(Handler),
    TextHandler(TextHandler),
    /// The caller of a started execution.
    Caller,
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("name", &self.name).field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl Tool {
    /// Returns the tool's name in scripts.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Creates a tool. `name` is an identifier of 1 to 64 ASCII letters, digits and underscores that starts with a
    /// letter. Keywords and attributes of `tools` are reserved. In scripts, `help(tools.name)` shows the description.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            schema: json!({ "type": "object" }),
            result_schema: None,
            answerer: None,
            is_untrusted: false,
        }
    }

    /// Sets the JSON Schema of the arguments object, whose properties are the named arguments. Default: any object.
    /// Arguments are validated before the handler is called.
    ///
    /// Positional arguments are assigned to the properties in `required` in order, then to the other properties in
    /// alphabetical order. Regular expressions (`pattern`) must not contain look-around or back-references, because
    /// matching must take linear time. A `$ref` must be `#` or `#/…`, a reference within the schema.
    ///
    /// The cost of validation is bounded, because validation cannot be interrupted. A schema can contain at most 1,000
    /// subschemas and 64 regular expressions. At most 32 nested subschemas can apply to one value. If several
    /// alternatives in a schema refer to the schema itself, each level of the arguments multiplies the cost. Arguments
    /// whose validation would take more than about 10^8 steps are rejected (`InvalidArguments`).
    pub fn schema(mut self, schema: Value) -> Self {
        self.schema = schema;
        self
    }

    /// Sets the JSON Schema of the result, for the return type in [`tool_stubs`](crate::tool_stubs). Default: none.
    /// Results are not validated, and scripts do not see this schema.
    pub fn result_schema(mut self, schema: Value) -> Self {
        self.result_schema = Some(schema);
        self
    }

    /// Sets a handler that takes JSON arguments and returns a JSON result. `serde_json`'s [`Value`] sorts keys and
    /// converts integers of more than 64 bits to floats. [`text_handler`](Self::text_handler) preserves the text.
    pub fn handler(
        mut self,
        handler: impl Fn(&ToolCall, Value) -> Result<Value, ToolError> + Send + Sync + 'static,
    ) -> Self {
        self.answerer = Some(Answerer::Handler(Arc::new(handler)));
        self
    }

    /// Sets a handler that takes and returns JSON text. Use it to pass on untrusted data, or to preserve all digits and
    /// the key order.
    ///
    /// Parsed JSON takes up to a hundred times the memory of its text, so a result should not be parsed before its size
    /// is known. The result of this handler is never parsed into values. A result larger than `limits.tool_bytes`
    /// raises [`ToolLimit`](ToolErrorKind::Limit) in the script. Text that is not JSON or is nested more than 127
    /// levels deep raises [`ToolError`](ToolErrorKind::Failed).
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

    /// Makes the caller of the execution answer the calls, instead of a handler.
    /// [`Started::advance`](crate::Started::advance) or [`PendingToolCalls`](crate::PendingToolCalls) returns the calls
    /// and takes the answers. In other executions, a call fails immediately.
    pub fn stepped(mut self) -> Self {
        self.answerer = Some(Answerer::Caller);
        self
    }

    /// Marks the schema as untrusted, which limits the compiled size of each regular expression to 64 KiB instead of 1
    /// MiB.
    pub fn untrusted_schema(mut self) -> Self {
        self.is_untrusted = true;
        self
    }

    /// Creates the tool that implements `llm_query(prompt)`, which asks a language model.
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

    /// Creates the tool that implements `rlm_query(task, ctx=None)`, which gives a task and a context to another
    /// session. Without `ctx`, the `context` of the calling session is used.
    pub fn rlm_query(
        handler: impl Fn(&ToolCall, &str, &Value) -> Result<Value, ToolError> + Send + Sync + 'static,
    ) -> Self {
        Self::new("rlm_query", "Delegates a task with a context to another session and returns its answer.")
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

/// A tool call, as passed to the handler.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolCall {
    /// The name of the tool.
    pub name: String,
    /// The index of the call in [`Execution::tool_calls`](crate::Execution::tool_calls), counted from 0.
    pub index: usize,
    /// The session ID, from the session or from the request.
    pub session_id: Option<String>,
    /// The token that is cancelled when the execution no longer waits for the result: the call timed out, or the
    /// execution was cancelled or has ended.
    pub cancel: CancelToken,
    /// The time at which the call times out.
    pub deadline: Instant,
    /// The memory available to the call, for handlers that need much memory.
    pub memory: CallMemory,
}
