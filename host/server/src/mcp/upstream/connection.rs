//! An MCP server: its connection, tools, tool calls and restarts.

use std::{
    error::Error,
    time::{Duration, Instant},
};

use glovebox::{ToolError, ToolErrorKind};
use rmcp::{
    RoleClient, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig, Implementation,
        JsonObject, ListToolsResult, PaginatedRequestParams, Tool,
    },
    service::{ClientInitializeError, Peer, RunningService, ServiceError as McpError},
    transport::{IntoTransport, async_rw::AsyncRwTransport},
};
use tokio::sync::Mutex;

use super::{
    UpstreamConfig, UpstreamTransport, endpoint,
    process::{END, Process},
    upstreams::{CallError, StartedUpstream},
};
use crate::json::{JsonCost, wide_integer};

/// The timeout for a server to start, and then for each page of its tools. `npx` and `uvx` may have to download the
/// server first.
pub(super) const START: Duration = Duration::from_secs(60);

/// Maximum number of tools that scripts can use per server. A model cannot use a longer listing, and each schema
/// occupies memory.
const MAX_TOOLS: usize = 256;

/// Maximum number of pages in a tool list. A faulty server could return new cursors forever.
const MAX_PAGES: usize = 64;

/// Maximum number of times that a server is restarted within [`RESTARTS_WITHIN`].
const MAX_RESTARTS: usize = 5;

/// The period for [`MAX_RESTARTS`]. The limit prevents a server that crashes repeatedly from being restarted on every
/// call.
const RESTARTS_WITHIN: Duration = Duration::from_secs(600);

/// An MCP server, which is connected or has ended.
#[derive(Debug)]
pub(super) struct McpUpstream {
    max_message_bytes: usize,
    state: Mutex<ConnectionState>,
}

#[derive(Debug)]
struct ConnectionState {
    connection: Option<Connection>,
    /// The times of recent restarts.
    restarts: Vec<Instant>,
    is_closed: bool,
}

impl McpUpstream {
    /// Starts a server or connects to it, and lists its tools. `max_message_bytes` limits the size of each message from
    /// the server. The error completes a sentence that begins with the server's name.
    pub(super) async fn start(
        config: &UpstreamConfig,
        max_message_bytes: usize,
    ) -> Result<StartedUpstream<Self>, String> {
        let connection = Connection::start(&config.transport, max_message_bytes).await?;
        match connection.tools(config, max_message_bytes).await {
            Ok(tools) => {
                let state = ConnectionState { connection: Some(connection), restarts: Vec::new(), is_closed: false };
                let backend = Self { max_message_bytes, state: Mutex::new(state) };
                Ok(StartedUpstream { backend, tools, notices: Vec::new() })
            }
            Err(reason) => {
                connection.end().await;
                Err(reason)
            }
        }
    }

    pub(super) async fn close(&self) {
        let mut state = self.state.lock().await;
        state.is_closed = true;
        if let Some(connection) = state.connection.take() {
            connection.end().await;
        }
    }

    /// Calls a tool. Dropping the future sends a cancellation to the server.
    pub(super) async fn call(
        &self,
        config: &UpstreamConfig,
        tool: &str,
        arguments: &str,
    ) -> Result<CallToolResult, CallError> {
        let params = CallToolRequestParams::new(tool.to_owned());
        let params = params.with_arguments(self::arguments(arguments).map_err(CallError::Tool)?);
        let peer = self.peer(config).await.map_err(CallError::Server)?;
        let reason = match peer.call_tool_once(params).await {
            Ok(CallToolResponse::Complete(result)) => return Ok(result),
            Ok(CallToolResponse::InputRequired(_)) => {
                "requested input, but input requests are not supported".to_owned()
            }
            Ok(CallToolResponse::Task(_)) => "answered with an unrequested task".to_owned(),
            Ok(_) | Err(McpError::UnexpectedResponse) => "did not answer with a tool result".to_owned(),
            Err(McpError::McpError(error)) => return Err(CallError::Tool(ToolError::new(error.message))),
            Err(error) => match endpoint_failure(&error) {
                Some(reason) => reason,
                None => match &self.state.lock().await.connection {
                    Some(connection) => format!("has ended{}", connection.failure_details().await),
                    None => "has ended".to_owned(),
                },
            },
        };
        Err(CallError::Server(reason))
    }

    /// Returns the connection to the server. Restarts the server or connects again if the connection has ended.
    async fn peer(&self, config: &UpstreamConfig) -> Result<Peer<RoleClient>, String> {
        let mut state = self.state.lock().await;
        if state.is_closed {
            return Err("is closed".to_owned());
        }
        if let Some(connection) = state.connection.take_if(|connection| connection.is_over()) {
            tokio::spawn(connection.end());
        }
        if let Some(connection) = &state.connection {
            return Ok(connection.service.peer().clone());
        }
        state.restarts.retain(|at| at.elapsed() < RESTARTS_WITHIN);
        if state.restarts.len() >= MAX_RESTARTS {
            let minutes = RESTARTS_WITHIN.as_secs() / 60;
            return Err(format!(
                "has ended and was already restarted {MAX_RESTARTS} times within {minutes} minutes; check its \
                 configuration, or call it again later"
            ));
        }
        state.restarts.push(Instant::now());
        tracing::info!(target: "glovebox", server = %glovebox::escaped(&config.name), "restarting an MCP server");
        let connection = Connection::start(&config.transport, self.max_message_bytes).await?;
        Ok(state.connection.insert(connection).service.peer().clone())
    }
}

type McpService = RunningService<RoleClient, ClientConfig>;

/// A connection to an MCP server.
#[derive(Debug)]
struct Connection {
    service: McpService,
    /// The server's process. `None` if the server has a URL.
    process: Option<Process>,
}

impl Connection {
    /// Starts a server or connects to it, and initializes the connection. `max_message_bytes` limits the size of each
    /// message from the server. The error completes a sentence that begins with the server's name.
    async fn start(transport: &UpstreamTransport, max_message_bytes: usize) -> Result<Self, String> {
        match transport {
            UpstreamTransport::Process(config) => {
                let (process, stdout, stdin) = Process::start(config, max_message_bytes)?;
                // `BoundedLines` limits the line length instead: a longer line ends the connection, not only the
                // message.
                let transport = AsyncRwTransport::new_client(stdout, stdin).with_max_line_length(usize::MAX);
                match initialize(transport).await {
                    Ok(service) => Ok(Self { service, process: Some(process) }),
                    Err(reason) => Err(format!("{reason}{}", process.failure_details().await)),
                }
            }
            UpstreamTransport::Http(config) => {
                let transport = endpoint::transport(config, max_message_bytes)?;
                Ok(Self { service: initialize(transport).await?, process: None })
            }
            UpstreamTransport::OpenApi(_) => Err("is not an MCP server".to_owned()),
        }
    }

    fn is_over(&self) -> bool {
        self.service.is_closed() || self.service.is_transport_closed()
    }

    /// Returns details of a process that has ended, to append to an error message.
    async fn failure_details(&self) -> String {
        match &self.process {
            Some(process) => process.failure_details().await,
            None => String::new(),
        }
    }

    /// Returns the tools that the configuration names, or all tools, in the server's order.
    ///
    /// All pages together are subject to the limits on one message: `max_bytes`, and the limit on the number of values.
    async fn tools(&self, config: &UpstreamConfig, max_bytes: usize) -> Result<Vec<Tool>, String> {
        let (mut tools, mut cursor) = (Vec::new(), None);
        let (mut bytes, mut cost) = (0, JsonCost::default());
        for _ in 0..MAX_PAGES {
            let page = self.tools_page(cursor).await?;
            for tool in page.tools.into_iter().filter(|tool| config.names(&tool.name)) {
                if tools.len() == MAX_TOOLS {
                    return Err(format!("has more than {MAX_TOOLS} tools; list the tools to use in its `tools`"));
                }
                let text = serde_json::to_vec(&tool).unwrap_or_default();
                bytes += text.len();
                if bytes > max_bytes || cost.read(&text).is_err() {
                    return Err(format!(
                        "describes its tools in more than {max_bytes} bytes or with too many values; list the tools \
                         to use in its `tools`"
                    ));
                }
                tools.push(tool);
            }
            match page.next_cursor {
                Some(next) => cursor = Some(next),
                None => return Ok(tools),
            }
        }
        Err(format!("lists its tools on more than {MAX_PAGES} pages"))
    }

    async fn tools_page(&self, cursor: Option<String>) -> Result<ListToolsResult, String> {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let reason = match tokio::time::timeout(START, self.service.list_tools(Some(params))).await {
            Ok(Ok(page)) => return Ok(page),
            Ok(Err(error)) => match endpoint_failure(&error) {
                Some(reason) => return Err(reason),
                None => format!("failed to list its tools: {}", glovebox::escaped_text(&error.to_string())),
            },
            Err(_) => format!("did not list its tools within {} s", START.as_secs()),
        };
        Err(format!("{reason}{}", self.failure_details().await))
    }

    /// Closes the connection, and stops the server's process.
    async fn end(mut self) {
        let _ = self.service.close_with_timeout(END).await;
        if let Some(process) = self.process {
            process.end().await;
        }
    }
}

/// Returns the error text of a failed request to a server with a URL.
fn endpoint_failure(error: &McpError) -> Option<String> {
    match error {
        McpError::TransportSend(error) => endpoint::failure(&*error.error),
        _ => None,
    }
}

/// Initializes a connection. The error completes a sentence that begins with the server's name.
async fn initialize<E, A>(transport: impl IntoTransport<RoleClient, E, A>) -> Result<McpService, String>
where
    E: Error + Send + Sync + 'static,
{
    let about = Implementation::new("glovebox", env!("CARGO_PKG_VERSION"));
    let client = ClientConfig::new(ClientCapabilities::default(), about);
    let begun = tokio::time::timeout(START, client.serve(transport)).await;
    begun.map_err(|_| format!("did not answer within {} s", START.as_secs()))?.map_err(|error| {
        let failure = match &error {
            ClientInitializeError::TransportError { error, .. } => endpoint::failure(&*error.error),
            _ => None,
        };
        let text = || format!("did not respond as an MCP server: {}", glovebox::escaped_text(&error.to_string()));
        failure.unwrap_or_else(text)
    })
}

/// Parses the arguments of a call. Rejects integers over 64 bits, which would be rounded in the message.
fn arguments(text: &str) -> Result<JsonObject, ToolError> {
    let arguments =
        serde_json::from_str(text).map_err(|error| ToolError::of(ToolErrorKind::InvalidArguments, error))?;
    match wide_integer(text) {
        None => Ok(arguments),
        Some(integer) => Err(ToolError::of(
            ToolErrorKind::InvalidArguments,
            format!("`{integer}` does not fit into 64 bits, the maximum for tools of MCP servers; pass it as a string"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_would_be_rounded_are_rejected() {
        assert_eq!(arguments(r#"{"n":[18446744073709551615,1e30]}"#).unwrap().len(), 1);
        let huge = format!(r#"{{"n":1{}}}"#, "0".repeat(400));
        for (text, expected) in [
            (r#"{"n":[18446744073709551616]}"#, "`18446744073709551616` does not fit into 64 bits"),
            (huge.as_str(), "number out of range"),
            ("[]", "expected a map"),
        ] {
            let error = arguments(text).unwrap_err();
            assert_eq!(error.kind(), ToolErrorKind::InvalidArguments);
            assert!(error.message().contains(expected), "{}", error.message());
        }
    }
}
