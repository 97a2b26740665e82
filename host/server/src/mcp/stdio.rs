//! One client, over standard input and output.

use std::io;

use rmcp::{ServiceExt as _, service::ServerInitializeError};
use tokio_util::sync::CancellationToken;

use super::{McpServer, upstream::BoundedLines};

/// Serves the client at standard input and output until that ends, or `stop` is cancelled. What runs then has a moment to end, and is
/// cancelled. Nothing else may be written to standard output.
///
/// # Errors
/// When the streams fail, or what came first is none of the protocol's.
pub async fn serve_stdio(server: McpServer, stop: CancellationToken) -> io::Result<()> {
    let (input, output) = rmcp::transport::stdio_pipes();
    // The protocol bounds the length of lines by itself.
    let begun = server.serve_with_ct((BoundedLines::new(input, usize::MAX), output), stop).await;
    match begun {
        Ok(running) => running.waiting().await.map(drop).map_err(io::Error::other),
        // A client that goes before it has said anything.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
        Err(error) => Err(io::Error::other(error.to_string())),
    }
}
