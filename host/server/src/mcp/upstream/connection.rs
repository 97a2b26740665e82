//! The connection to an MCP server: its start, its tools and calls of them.

use std::time::Duration;

use glovebox::{ToolError, ToolErrorKind};
use rmcp::{
    RoleClient, ServiceExt as _,
    model::{
        CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest, Implementation,
        JsonObject, PaginatedRequestParams, ServerResult, Tool,
    },
    service::{ClientInitializeError, Peer, PeerRequestOptions, RunningService, ServiceError as McpError},
    transport::async_rw::AsyncRwTransport,
};

use super::{
    EndpointConfig, ProcessConfig, UpstreamConfig, UpstreamTransport, endpoint,
    process::{END, Process},
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

type Service = RunningService<RoleClient, ClientConfig>;

/// A connection to an MCP server.
#[derive(Debug)]
pub(super) struct Connection {
    service: Service,
    /// The server's process. `None` if the server has a URL.
    process: Option<Process>,
}

/// The error from a tool call.
#[derive(Debug)]
pub(super) enum CallError {
    /// The server returned an error.
    Refused(String),
    /// The server has ended.
    Ended,
    /// The call failed for this reason, which is a clause whose subject is the server.
    Failed(String),
}

impl From<McpError> for CallError {
    fn from(error: McpError) -> Self {
        match error {
            McpError::McpError(error) => Self::Refused(error.message.into_owned()),
            McpError::TransportSend(error) => endpoint::failure(&*error.error).map_or(Self::Ended, Self::Failed),
            _ => Self::Ended,
        }
    }
}

impl Connection {
    /// Starts a server or connects to it, and initializes the connection. `max_message_bytes` limits the size of each
    /// message from the server. An error is a clause whose subject is the server.
    pub(super) async fn start(transport: &UpstreamTransport, max_message_bytes: usize) -> Result<Self, String> {
        match transport {
            UpstreamTransport::Process(config) => Self::start_process(config, max_message_bytes).await,
            UpstreamTransport::Http(config) => Self::connect(config, max_message_bytes).await,
            UpstreamTransport::OpenApi(_) => Err("is not an MCP server".to_owned()),
        }
    }

    async fn start_process(config: &ProcessConfig, max_message_bytes: usize) -> Result<Self, String> {
        let (process, stdout, stdin) = Process::start(config, max_message_bytes)?;
        // `BoundedLines` limits the line length instead: a longer line ends the connection, not only the message.
        let transport = AsyncRwTransport::new_client(stdout, stdin).with_max_line_length(usize::MAX);
        let begun = tokio::time::timeout(START, client().serve(transport)).await;
        match begun.map_err(|_| did_not_answer()).and_then(|begun| begun.map_err(|error| no_mcp(&error))) {
            Ok(service) => Ok(Self { service, process: Some(process) }),
            Err(reason) => Err(format!("{reason}{}", process.last_output().await)),
        }
    }

    async fn connect(config: &EndpointConfig, max_message_bytes: usize) -> Result<Self, String> {
        let transport = endpoint::transport(config, max_message_bytes)?;
        let begun = tokio::time::timeout(START, client().serve(transport)).await.map_err(|_| did_not_answer())?;
        let service = begun.map_err(|error| match &error {
            ClientInitializeError::TransportError { error: cause, .. } => {
                endpoint::failure(&*cause.error).unwrap_or_else(|| no_mcp(&error))
            }
            _ => no_mcp(&error),
        })?;
        Ok(Self { service, process: None })
    }

    pub(super) fn is_over(&self) -> bool {
        self.service.is_closed() || self.service.is_transport_closed()
    }

    pub(super) fn peer(&self) -> Peer<RoleClient> {
        self.service.peer().clone()
    }

    /// Returns the end of an error message about a process that has ended.
    pub(super) async fn failure_details(&self) -> String {
        match &self.process {
            Some(process) => process.failure_details().await,
            None => String::new(),
        }
    }

    /// Returns the tools that the configuration names, or all tools, in the server's order.
    ///
    /// Together, the tools of all pages are limited like one message: to `max_bytes`, and to a number of values.
    pub(super) async fn tools(&self, config: &UpstreamConfig, max_bytes: usize) -> Result<Vec<Tool>, String> {
        let (mut tools, mut cursor) = (Vec::new(), None);
        let (mut bytes, mut cost) = (0, JsonCost::default());
        for _ in 0..MAX_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let page = tokio::time::timeout(START, self.service.list_tools(Some(params))).await;
            let page = match page {
                Ok(Ok(page)) => page,
                Ok(Err(error)) => return Err(self.listing_failure(&error).await),
                Err(_) => {
                    return Err(format!(
                        "did not list its tools within {} s{}",
                        START.as_secs(),
                        self.failure_details().await
                    ));
                }
            };
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

    async fn listing_failure(&self, error: &McpError) -> String {
        if let McpError::TransportSend(error) = error
            && let Some(reason) = endpoint::failure(&*error.error)
        {
            return reason;
        }
        let error = glovebox::escaped_text(&error.to_string()).to_string();
        format!("failed to list its tools: {error}{}", self.failure_details().await)
    }

    /// Closes the connection, and stops the server's process.
    pub(super) async fn end(mut self) {
        let _ = self.service.close_with_timeout(END).await;
        if let Some(process) = self.process {
            process.end().await;
        }
    }
}

fn client() -> ClientConfig {
    ClientConfig::new(ClientCapabilities::default(), Implementation::new("glovebox", env!("CARGO_PKG_VERSION")))
}

fn did_not_answer() -> String {
    format!("did not answer within {} s", START.as_secs())
}

fn no_mcp(error: &ClientInitializeError) -> String {
    format!("did not respond as an MCP server: {}", glovebox::escaped_text(&error.to_string()))
}

/// Parses the arguments of a call. Rejects integers over 64 bits, which would be rounded in the message.
pub(super) fn arguments(text: &str) -> Result<JsonObject, ToolError> {
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

/// Calls a tool. Dropping the future sends a cancellation to the server.
pub(super) async fn call(
    peer: &Peer<RoleClient>,
    tool: &str,
    arguments: JsonObject,
) -> Result<rmcp::model::CallToolResult, CallError> {
    let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let handle = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
    let mut cancellation = CancellationOnDrop { peer: peer.clone(), id: Some(handle.id.clone()) };
    let answer = handle.await_response().await;
    cancellation.id = None;
    match answer {
        Ok(ServerResult::CallToolResult(result)) => Ok(result),
        Ok(ServerResult::InputRequiredResult(_)) => {
            Err(CallError::Failed("requested input, but input requests are not supported".to_owned()))
        }
        Ok(ServerResult::CreateTaskResult(_)) => Err(CallError::Failed("answered with an unrequested task".to_owned())),
        Ok(_) => Err(CallError::Failed("answered with something other than a tool result".to_owned())),
        Err(error) => Err(error.into()),
    }
}

/// Sends a cancellation to a server on drop.
struct CancellationOnDrop {
    peer: Peer<RoleClient>,
    id: Option<rmcp::model::RequestId>,
}

impl Drop for CancellationOnDrop {
    fn drop(&mut self) {
        if let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current()) {
            let peer = self.peer.clone();
            runtime.spawn(async move {
                let params = rmcp::model::CancelledNotificationParam::new(
                    Some(id),
                    Some("the caller stopped waiting".to_owned()),
                );
                let _ = peer.notify_cancelled(params).await;
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_would_be_rounded_are_rejected() {
        assert_eq!(arguments(r#"{"n":[18446744073709551615,1e30]}"#).unwrap().len(), 1);
        let huge = format!(r#"{{"n":1{}}}"#, "0".repeat(400));
        for (text, said) in [
            (r#"{"n":[18446744073709551616]}"#, "`18446744073709551616` does not fit into 64 bits"),
            (huge.as_str(), "number out of range"),
            ("[]", "expected a map"),
        ] {
            let error = arguments(text).unwrap_err();
            assert_eq!(error.kind(), ToolErrorKind::InvalidArguments);
            assert!(error.message().contains(said), "{}", error.message());
        }
    }
}
