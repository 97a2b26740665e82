//! The protocol over standard input and output, for one client.

use std::io;

use rmcp::{ServiceExt as _, service::ServerInitializeError};
use tokio_util::sync::CancellationToken;

use super::{McpServer, upstream::BoundedLines};

/// Serves the client at standard input and output until it disconnects or `stop` is cancelled. Running work then has a
/// moment to finish before it is cancelled. The rest of the process must not write to standard output.
///
/// # Errors
/// Fails if the streams fail, or if the first message is not an MCP initialization.
pub async fn serve_stdio(server: McpServer, stop: CancellationToken) -> io::Result<()> {
    let (input, output) = rmcp::transport::stdio_pipes();
    // The protocol limits the length of lines itself.
    let begun = server.serve_with_ct((BoundedLines::new(input, usize::MAX), output), stop).await;
    match begun {
        Ok(running) => running.waiting().await.map(drop).map_err(io::Error::other),
        // The client disconnected before its first message.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
        Err(error) => Err(io::Error::other(error.to_string())),
    }
}
