//! The running MCP servers and the APIs whose tools scripts can call, and conversion of tool results.

use std::{collections::BTreeMap, sync::Arc};

use glovebox::{Tool, ToolCall, ToolDefinitionError, ToolError, ToolErrorKind, check_tools};
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    UpstreamConfig, UpstreamError, UpstreamTransport,
    connection::McpUpstream,
    listing::{Listing, script_name},
    openapi::{self, Api},
};

/// The ratio of the maximum message size to the maximum result size. A message can contain the result twice, as
/// structured content and as text, both escaped.
const MESSAGE_TIMES: usize = 4;

/// Additional bytes allowed in a message, for example for a list of tools with their schemas.
const MESSAGE_BYTES: usize = 4 << 20;

/// Maximum length of a tool's description in characters. Longer descriptions are cut.
const MAX_DESCRIPTION_CHARS: usize = 2_000;

/// Maximum size of a tool's schema as JSON, in bytes. The engine additionally limits the total size of all schemas.
const MAX_SCHEMA_BYTES: usize = 64 << 10;

/// Maximum total size of the tools' result schemas as JSON text, in bytes. Schemas over the limit are dropped.
const MAX_RESULT_SCHEMAS_BYTES: usize = 1 << 20;

/// Running MCP servers, APIs, and their tools. Call [`close`](Self::close) to stop them.
#[derive(Debug, Default)]
pub struct Upstreams {
    servers: Vec<Arc<UpstreamServer>>,
    tools: Vec<Tool>,
    /// Tools whose calls a person must approve.
    approved_tools: Vec<Tool>,
    listing: Listing,
    /// The total size of the tools' result schemas as JSON text, in bytes.
    result_schemas_bytes: usize,
    notices: Vec<String>,
}

/// An MCP server or an API.
#[derive(Debug)]
struct UpstreamServer {
    config: UpstreamConfig,
    backend: Backend,
}

#[derive(Debug)]
enum Backend {
    Mcp(Box<McpUpstream>),
    Api(Box<Api>),
}

/// A started server or API with the definitions of its tools.
pub(super) struct StartedUpstream<B> {
    pub(super) backend: B,
    pub(super) tools: Vec<rmcp::model::Tool>,
    /// Messages about omitted tools.
    pub(super) notices: Vec<String>,
}

#[derive(Debug)]
pub(super) enum CallError {
    /// The error for the script.
    Tool(ToolError),
    /// The reason why the call failed. It completes a sentence that begins with the server's name.
    Server(String),
}

impl Upstreams {
    /// Starts or connects to the servers, reads the documents of APIs, and lists the tools. `result_bytes`, the
    /// policy's `limits.tool_bytes`, determines the maximum size of servers' messages and APIs' responses.
    ///
    /// # Errors
    /// Fails if a server cannot be started, does not speak MCP, or does not offer a configured tool, or if a document
    /// is not supported. Also fails if a tool has no valid and unique name for scripts, or if the tools exceed a limit.
    pub async fn start(configs: Vec<UpstreamConfig>, result_bytes: u64) -> Result<Self, UpstreamError> {
        let result_bytes = usize::try_from(result_bytes).unwrap_or(usize::MAX);
        let max_message_bytes = result_bytes.saturating_mul(MESSAGE_TIMES).saturating_add(MESSAGE_BYTES);
        // Start the servers concurrently, because each start may take up to a minute.
        let start = |config| AbortOnDropHandle::new(tokio::spawn(UpstreamServer::start(config, max_message_bytes)));
        let starting: Vec<_> = configs.into_iter().map(start).collect();
        let mut made = Self::default();
        let mut failed = None;
        let mut names = BTreeMap::new();
        for server in starting {
            let started = server.await.map_err(|error| UpstreamError(error.to_string())).flatten();
            let StartedUpstream { backend: server, tools, notices } = match started {
                Ok(started) => started,
                Err(error) => {
                    failed = failed.or(Some(error));
                    continue;
                }
            };
            made.notices.extend(notices);
            let server = Arc::new(server);
            made.servers.push(Arc::clone(&server));
            for tool in tools {
                let offered = made.offer(&server, tool, &mut names, result_bytes);
                failed = failed.or(offered.err());
            }
        }
        let offered = [&*made.tools, &*made.approved_tools].concat();
        let all = check_tools(&offered).map_err(|error| {
            UpstreamError(format!(
                "cannot offer the tools of all servers together: {error}; list fewer tools in their `tools`"
            ))
        });
        match failed.or(all.err()) {
            None => Ok(made),
            Some(error) => {
                made.close().await;
                Err(error)
            }
        }
    }

    /// Returns the tools of all servers whose calls need no approval, for
    /// [`TenantConfig::tools`](crate::TenantConfig::tools).
    pub fn tools(&self) -> Vec<Tool> {
        self.tools.clone()
    }

    /// Returns the tools of all servers whose calls a person must approve ([`UpstreamConfig::approve`]), for
    /// [`TenantConfig::approved_tools`](crate::TenantConfig::approved_tools).
    pub fn approved_tools(&self) -> Vec<Tool> {
        self.approved_tools.clone()
    }

    /// Returns the listing of all tools for a model's prompt.
    pub fn listing(&self) -> &Listing {
        &self.listing
    }

    /// Returns messages about API operations that are not offered. Text from documents is escaped.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Stops all servers.
    pub async fn close(&self) {
        let mut ending = tokio::task::JoinSet::new();
        for server in &self.servers {
            let server = Arc::clone(server);
            ending.spawn(async move { server.close().await });
        }
        ending.join_all().await;
    }

    /// Makes a tool of a server available to scripts.
    fn offer(
        &mut self,
        server: &Arc<UpstreamServer>,
        tool: rmcp::model::Tool,
        names: &mut BTreeMap<String, String>,
        result_bytes: usize,
    ) -> Result<(), UpstreamError> {
        let config = &server.config;
        if config.tools.as_ref().is_some_and(|wanted| wanted.iter().all(|name| **name != *tool.name)) {
            return Ok(());
        }
        let name = match server.backend {
            Backend::Mcp(_) => script_name(&config.name, &tool.name),
            Backend::Api(_) => openapi::script_name(&config.name, &tool.name),
        };
        let wrong = |reason: &str| {
            let [tool, name] = [&*tool.name, &*name].map(|name| name.chars().take(128).collect::<String>());
            let (tool, name) = (glovebox::escaped(&tool), glovebox::escaped(&name));
            UpstreamError(format!("tool `{tool}` of {} cannot be offered as `tools.{name}`: {reason}", config.label()))
        };
        if let Some(other) = names.get(&name) {
            return Err(wrong(&format!("{other} has the same name; rename a server, or list only one of the tools")));
        }
        let description: String =
            tool.description.as_deref().unwrap_or_default().chars().take(MAX_DESCRIPTION_CHARS).collect();
        let schema = schema(&tool);
        let (at, called) = (Arc::clone(server), tool.name.to_string());
        let runtime = Handle::current();
        let offered = |schema: &Value| {
            let (at, called, runtime) = (Arc::clone(&at), called.clone(), runtime.clone());
            Tool::new(&*name, &*description).schema(schema.clone()).untrusted_schema().text_handler(
                move |call, arguments| runtime.block_on(at.answer(call, &called, &arguments, result_bytes)),
            )
        };
        let mut offer = offered(&schema);
        match check_tools(std::slice::from_ref(&offer)) {
            Ok(()) => {}
            // The engine does not support this schema. The server validates the arguments itself.
            Err(ToolDefinitionError::Schema { .. } | ToolDefinitionError::TooLarge { .. }) => {
                offer = offered(&json!({ "type": "object" }));
                check_tools(std::slice::from_ref(&offer)).map_err(|error| wrong(&error.to_string()))?;
            }
            Err(ToolDefinitionError::Name(_)) => {
                let reason = "the name is longer than 64 characters or does not begin with a letter; rename the \
                              server, or leave the tool out of its `tools`";
                return Err(wrong(reason));
            }
            Err(error) => return Err(wrong(&error.to_string())),
        }
        let output = tool.output_schema.as_ref().map(|output| Value::Object((**output).clone()));
        self.listing.add(&name, &description, &schema, output.as_ref());
        if let Some(output) = output.filter(|output| admit(&mut self.result_schemas_bytes, output.to_string().len())) {
            offer = offer.result_schema(output);
        }
        match config.approve.requires_approval(&tool.name) {
            true => self.approved_tools.push(offer),
            false => self.tools.push(offer),
        }
        let of = format!("`{}` of `{}`", glovebox::escaped(&*tool.name), glovebox::escaped(&config.name));
        names.insert(name, of);
        Ok(())
    }
}

/// Returns a tool's schema, or the schema of any object if the tool's is too large.
fn schema(tool: &rmcp::model::Tool) -> Value {
    let schema = Value::Object((*tool.input_schema).clone());
    if schema.to_string().len() <= MAX_SCHEMA_BYTES { schema } else { json!({ "type": "object" }) }
}

/// Adds the size of a result's schema to `all_bytes` and returns `true`. If a limit would be exceeded, adds nothing and
/// returns `false`.
fn admit(all_bytes: &mut usize, bytes: usize) -> bool {
    let sum = all_bytes.saturating_add(bytes);
    let fits = bytes <= MAX_SCHEMA_BYTES && sum <= MAX_RESULT_SCHEMAS_BYTES;
    if fits {
        *all_bytes = sum;
    }
    fits
}

impl UpstreamServer {
    async fn start(config: UpstreamConfig, max_message_bytes: usize) -> Result<StartedUpstream<Self>, UpstreamError> {
        let started = match &config.transport {
            UpstreamTransport::OpenApi(api) => {
                Api::start(&config, api).await.map(|started| started.map(|api| Backend::Api(Box::new(api))))
            }
            UpstreamTransport::Process(_) | UpstreamTransport::Http(_) => {
                let started = McpUpstream::start(&config, max_message_bytes).await;
                started.map(|started| started.map(|server| Backend::Mcp(Box::new(server))))
            }
        };
        let started = started.map_err(|reason| config.error(&reason))?.map(|backend| Self { config, backend });
        match missing_tool_error(&started.backend.config, &started.tools) {
            None => Ok(started),
            Some(reason) => {
                started.backend.close().await;
                Err(started.backend.config.error(&reason))
            }
        }
    }

    async fn close(&self) {
        match &self.backend {
            Backend::Mcp(server) => server.close().await,
            Backend::Api(api) => api.close(),
        }
    }

    /// Calls a tool and waits for its result. Cancels the call if the script stops waiting or at the deadline.
    async fn answer(
        &self,
        call: &ToolCall,
        tool: &str,
        arguments: &str,
        max_bytes: usize,
    ) -> Result<String, ToolError> {
        let cancelled = CancellationToken::new();
        let cancels = cancelled.clone();
        let _while_waiting = call.cancel.on_cancel(move || cancels.cancel());
        let deadline = tokio::time::Instant::from_std(call.deadline);
        tokio::select! {
            biased;
            () = cancelled.cancelled() => Err(ToolError::new("the call was cancelled")),
            () = tokio::time::sleep_until(deadline) => Err(ToolError::of(ToolErrorKind::Timeout, "the server did not respond within `limits.tool_timeout_ms`")),
            answer = self.call(tool, arguments, max_bytes) => answer,
        }
    }

    async fn call(&self, tool: &str, arguments: &str, max_bytes: usize) -> Result<String, ToolError> {
        let result = match &self.backend {
            Backend::Mcp(server) => {
                let result = server.call(&self.config, tool, arguments).await;
                result.and_then(|result| json(result).map_err(CallError::Tool))
            }
            Backend::Api(api) => api.call(tool, arguments, max_bytes).await,
        };
        result.map_err(|error| match error {
            CallError::Tool(error) => error,
            CallError::Server(reason) => ToolError::new(format!("{} {reason}", self.config.label())),
        })
    }
}

impl<B> StartedUpstream<B> {
    fn map<C>(self, change: impl FnOnce(B) -> C) -> StartedUpstream<C> {
        StartedUpstream { backend: change(self.backend), tools: self.tools, notices: self.notices }
    }
}

/// Returns the error for a tool that the configuration names but the server does not offer.
fn missing_tool_error(config: &UpstreamConfig, tools: &[rmcp::model::Tool]) -> Option<String> {
    let selected = config.tools.iter().flatten().map(|name| ("tools", name));
    let approved = config.approve.names().iter().map(|name| ("approve", name));
    let (key, missing) = selected.chain(approved).find(|(_, name)| tools.iter().all(|tool| tool.name != ***name))?;
    Some(format!("has no tool `{}`; remove it from its `{key}`", glovebox::escaped(missing)))
}

/// Returns the structured content if there is any, otherwise the text contents as a JSON string, joined by newlines.
/// Contents other than text are replaced with labels. Fails if the tool failed. The engine limits the length of the
/// result.
fn json(result: CallToolResult) -> Result<String, ToolError> {
    let texts = || result.content.iter().map(text).collect::<Vec<_>>().join("\n");
    if result.is_error == Some(true) {
        let text = texts();
        return Err(ToolError::new(if text.is_empty() { "the tool failed without a message" } else { &text }));
    }
    Ok(result.structured_content.as_ref().map_or_else(|| Value::String(texts()).to_string(), Value::to_string))
}

fn text(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Resource(resource) => resource.get_text(),
        ContentBlock::ResourceLink(resource) => format!("[resource {}]", resource.uri),
        ContentBlock::Image(image) => format!("[picture, {}]", image.mime_type),
        ContentBlock::Audio(audio) => format!("[sound, {}]", audio.mime_type),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn structured_content_precedes_text_and_failures_are_errors() {
        let texts = vec![ContentBlock::text("a"), ContentBlock::image("AAAA", "image/png"), ContentBlock::text("b")];
        let plain = CallToolResult::success(texts.clone());
        assert_eq!(json(plain).unwrap(), r#""a\n[picture, image/png]\nb""#);
        let mut structured = CallToolResult::success(texts.clone());
        structured.structured_content = Some(json!({ "x": [1] }));
        assert_eq!(json(structured).unwrap(), r#"{"x":[1]}"#);
        assert_eq!(json(CallToolResult::error(texts)).unwrap_err().message(), "a\n[picture, image/png]\nb");
        assert!(json(CallToolResult::error(vec![])).unwrap_err().message().contains("without a message"));
    }

    #[test]
    fn result_schemas_over_a_limit_are_dropped() {
        for (bytes, fits) in [(MAX_SCHEMA_BYTES - 1, true), (MAX_SCHEMA_BYTES, true), (MAX_SCHEMA_BYTES + 1, false)] {
            let mut all_bytes = 0;
            assert_eq!(admit(&mut all_bytes, bytes), fits, "{bytes}");
            assert_eq!(all_bytes, if fits { bytes } else { 0 });
        }
        for (bytes, fits) in [(99, true), (100, true), (101, false)] {
            let mut all_bytes = MAX_RESULT_SCHEMAS_BYTES - 100;
            assert_eq!(admit(&mut all_bytes, bytes), fits, "{bytes}");
        }
    }
}
