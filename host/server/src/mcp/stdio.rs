//! MCP over standard input and output. A request over the limits receives an error, and the connection stays open.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use rmcp::{
    RoleServer, ServiceExt as _,
    model::{ErrorData, RequestId, ServerJsonRpcMessage},
    service::{RxJsonRpcMessage, ServerInitializeError, TxJsonRpcMessage},
    transport::{Transport, async_rw::AsyncRwTransport},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
};
use tokio_util::sync::CancellationToken;

use super::{McpServer, http::MAX_ID_BYTES};
use crate::json::{JsonCost, StringScanner, TooCostly};

/// Maximum length of a message in bytes, with its newline. Equal to the default of
/// [`HttpConfig::body_bytes`](crate::http::HttpConfig::body_bytes), so that both transports accept the same requests.
const MAX_MESSAGE_BYTES: usize = 48 << 20;

/// Serves a client over standard input and output until it disconnects or `stop` is cancelled. Running work then has a
/// short time to finish before it is cancelled. No other code may write to standard output.
///
/// A message is limited in its length (48 MiB), its nesting (100 levels) and the number of its values. A request over a
/// limit receives an error that names the limit. Other messages over a limit are ignored.
///
/// # Errors
/// Fails if the client's first message cannot open an MCP connection, or if the response to it cannot be sent. Later
/// failures only end the connection.
pub async fn serve_stdio(server: McpServer, stop: CancellationToken) -> io::Result<()> {
    let (input, output) = rmcp::transport::stdio_pipes();
    let transport = StdioTransport::new(Box::new(input), Box::new(output), MAX_MESSAGE_BYTES);
    let begun = server.serve_with_ct(transport, stop).await;
    match begun {
        Ok(running) => running.waiting().await.map(drop).map_err(io::Error::other),
        // The client disconnected before its first message, or `stop` was cancelled.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
        Err(error) => Err(io::Error::other(error.to_string())),
    }
}

type Input = Box<dyn AsyncRead + Send + Unpin>;
type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// A transport of JSON lines that answers requests over the limits with errors.
struct StdioTransport {
    inner: AsyncRwTransport<RoleServer, CheckedLines, Output>,
    /// The errors for requests over the limits.
    rejected: UnboundedReceiver<ServerJsonRpcMessage>,
}

impl StdioTransport {
    /// Creates a transport. `max_bytes` limits the length of a line.
    fn new(input: Input, output: Output, max_bytes: usize) -> Self {
        let (sender, rejected) = mpsc::unbounded_channel();
        let lines = CheckedLines { inner: input, max_bytes, line: Line::default(), rejected: sender };
        // The transport discards lines of more than `max_bytes`.
        let inner = AsyncRwTransport::new_server(lines, output).with_max_line_length(max_bytes);
        Self { inner, rejected }
    }
}

impl Transport<RoleServer> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let error = tokio::select! {
                biased;
                Some(error) = self.rejected.recv() => error,
                message = self.inner.receive() => return message,
            };
            let sent: Pin<Box<dyn Future<Output = io::Result<()>> + Send>> = Box::pin(self.inner.send(error));
            // Sent in a separate task, because the caller can drop this future before the error is written.
            tokio::spawn(sent);
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

/// A reader that checks each line of its input. If the values of a line would occupy too much memory, replaces the rest
/// of the line with NUL bytes. The line is then invalid JSON, and is ignored.
struct CheckedLines {
    inner: Input,
    max_bytes: usize,
    line: Line,
    rejected: UnboundedSender<ServerJsonRpcMessage>,
}

impl AsyncRead for CheckedLines {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.inner).poll_read(cx, buffer))?;
        let new = buffer.filled_mut().get_mut(before..).unwrap_or_default();
        for piece in new.split_inclusive_mut(|byte| *byte == b'\n') {
            this.line.read(piece);
            if piece.ends_with(b"\n")
                && let Some(error) = std::mem::take(&mut this.line).error(this.max_bytes)
            {
                // Fails only if the transport was dropped.
                let _ = this.rejected.send(error);
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// The part of the current input line that was read so far.
#[derive(Debug, Default)]
struct Line {
    bytes: usize,
    cost: JsonCost,
    too_costly: Option<TooCostly>,
    request: RequestScanner,
}

impl Line {
    fn read(&mut self, piece: &mut [u8]) {
        self.bytes += piece.len();
        self.request.read(piece);
        if self.too_costly.is_none() {
            self.too_costly = self.cost.read(piece).err();
        }
        if self.too_costly.is_some() {
            piece.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = 0);
        }
    }

    /// Returns the error for a complete line whose request exceeds a limit.
    fn error(self, max_bytes: usize) -> Option<ServerJsonRpcMessage> {
        let reason = match self.too_costly {
            Some(error) => format!("the request: {error}"),
            None if self.bytes > max_bytes => format!(
                "the request is {} bytes; the maximum over standard input is {max_bytes}; send less, for example with \
                 several calls to `files_write`",
                self.bytes
            ),
            None => return None,
        };
        tracing::warn!(target: "glovebox", reason, "rejected a message from the MCP client");
        let id = self.request.id()?;
        Some(ServerJsonRpcMessage::error(ErrorData::invalid_request(reason, None), Some(id)))
    }
}

/// A scanner that finds the ID of a request in its JSON text, which can be invalid and can arrive in chunks.
#[derive(Debug, Default)]
struct RequestScanner {
    depth: usize,
    strings: StringScanner,
    /// The beginning of the current key or value of the message.
    token: Vec<u8>,
    /// `true` if the current value is the value of `id`.
    is_id: bool,
    has_method: bool,
    id: Option<RequestId>,
}

impl RequestScanner {
    fn read(&mut self, text: &[u8]) {
        for byte in text {
            if !self.strings.read(*byte) {
                match byte {
                    b':' if self.depth == 1 => {
                        self.end_key();
                        continue;
                    }
                    b',' if self.depth == 1 => {
                        self.end_value();
                        continue;
                    }
                    b'{' | b'[' => {
                        self.depth += 1;
                        if self.depth == 1 {
                            self.token.clear();
                            continue;
                        }
                    }
                    b'}' | b']' => {
                        if self.depth == 1 {
                            self.end_value();
                        }
                        self.depth = self.depth.saturating_sub(1);
                    }
                    _ => {}
                }
            }
            if self.token.len() < MAX_ID_BYTES {
                self.token.push(*byte);
            }
        }
    }

    fn end_key(&mut self) {
        let key = self.token.trim_ascii();
        self.is_id = key == b"\"id\"";
        self.has_method |= key == b"\"method\"";
        self.token.clear();
    }

    fn end_value(&mut self) {
        if self.is_id {
            self.id = serde_json::from_slice(&self.token).ok();
        }
        self.is_id = false;
        self.token.clear();
    }

    /// Returns the ID, or `None` if the message is not a request.
    fn id(self) -> Option<RequestId> {
        self.id.filter(|_| self.has_method)
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::JsonRpcMessage;
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};

    use super::*;

    const MAX_BYTES: usize = 10_000;

    /// A client's end of a connection.
    struct Client {
        output: WriteHalf<DuplexStream>,
        answers: Lines<BufReader<ReadHalf<DuplexStream>>>,
    }

    fn connected() -> (StdioTransport, Client) {
        let (server, client) = tokio::io::duplex(1 << 20);
        let (input, output) = tokio::io::split(server);
        let transport = StdioTransport::new(Box::new(input), Box::new(output), MAX_BYTES);
        let (answers, output) = tokio::io::split(client);
        (transport, Client { output, answers: BufReader::new(answers).lines() })
    }

    impl Client {
        async fn write(&mut self, line: &str) {
            self.output.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        }

        /// Reads an error while the server waits for the next message.
        async fn error(&mut self, server: &mut StdioTransport) -> (serde_json::Value, String) {
            let line = tokio::select! {
                message = server.receive() => panic!("{message:?}"),
                line = self.answers.next_line() => line.unwrap().unwrap(),
            };
            let answer: serde_json::Value = serde_json::from_str(&line).unwrap();
            (answer["id"].clone(), answer["error"]["message"].as_str().unwrap().to_owned())
        }
    }

    async fn received(server: &mut StdioTransport) -> RequestId {
        match server.receive().await {
            Some(JsonRpcMessage::Request(request)) => request.id,
            other => panic!("{other:?}"),
        }
    }

    fn request(id: u32, params: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","method":"other","params":{params},"id":{id}}}"#)
    }

    #[tokio::test]
    async fn request_over_the_length_limit_receives_an_error() {
        let (mut server, mut client) = connected();
        let empty = request(1, r#"{"pad":""}"#).len();
        for (length, is_rejected) in [(MAX_BYTES - 1, false), (MAX_BYTES, false), (MAX_BYTES + 1, true)] {
            let pad = "x".repeat(length - 1 - empty);
            client.write(&request(1, &format!(r#"{{"pad":"{pad}"}}"#))).await;
            client.write(&request(2, "{}")).await;
            if !is_rejected {
                assert_eq!(received(&mut server).await, RequestId::Number(1), "{length}");
            }
            assert_eq!(received(&mut server).await, RequestId::Number(2), "{length}");
        }
        let (id, message) = client.error(&mut server).await;
        assert_eq!(id, 1);
        assert!(
            message.starts_with("the request is 10001 bytes; the maximum over standard input is 10000"),
            "{message}"
        );
    }

    #[tokio::test]
    async fn request_with_too_many_levels_receives_an_error() {
        let (mut server, mut client) = connected();
        let nested = |depth: usize| format!(r#"{{"a":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        client.write(&request(1, &nested(98))).await;
        client.write(&request(2, &nested(99))).await;
        client.write(&request(3, "{}")).await;
        for id in [1, 3] {
            assert_eq!(received(&mut server).await, RequestId::Number(id));
        }
        let (id, message) = client.error(&mut server).await;
        assert_eq!(id, 2);
        assert!(message.contains("more than 100 levels"), "{message}");
    }

    #[tokio::test]
    async fn other_messages_over_a_limit_are_ignored() {
        let (mut server, mut client) = connected();
        let pad = "x".repeat(MAX_BYTES);
        client.write(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"pad":"{pad}"}}}}"#)).await;
        client.write(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{{"pad":"{pad}"}}}}"#)).await;
        client.write(&pad).await;
        client.write(&request(2, &format!(r#"{{"pad":"{pad}"}}"#))).await;
        let (id, _) = client.error(&mut server).await;
        assert_eq!(id, 2);
    }

    #[test]
    fn id_of_a_request_is_found_in_any_position() {
        let text = |text: &str| RequestId::String(text.into());
        for (json, expected) in [
            (r#"{"id":1,"method":"m","params":{}}"#, Some(RequestId::Number(1))),
            (r#" { "method" : "m" , "id" : "a\"}" } "#, Some(text("a\"}"))),
            (r#"{"params":{"id":2,"x":["id",3]},"s":"\"id\":4,","method":"m","id":5}"#, Some(RequestId::Number(5))),
            (r#"{"params":{"id":2,"method":"m"}}"#, None),
            (r#"{"id":1,"result":{"method":"m"}}"#, None),
            (r#"{"method":"m","id":null}"#, None),
            (r#"{"method":"m","id":{"id":1}}"#, None),
            (r#"[{"method":"m","id":1}]"#, None),
            ("}}}]{", None),
        ] {
            let mut scanner = RequestScanner::default();
            json.bytes().for_each(|byte| scanner.read(&[byte]));
            assert_eq!(scanner.id(), expected, "{json}");
        }
        for (length, is_found) in [(MAX_ID_BYTES, true), (MAX_ID_BYTES + 1, false)] {
            let mut scanner = RequestScanner::default();
            scanner.read(format!(r#"{{"method":"m","id":"{}"}}"#, "x".repeat(length - 2)).as_bytes());
            assert_eq!(scanner.id().is_some(), is_found, "{length}");
        }
    }
}
