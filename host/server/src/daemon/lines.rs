//! Reads and writes messages in bounded memory. Each message is a line.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
    sync::{OwnedSemaphorePermit, mpsc},
    time::Instant,
};

use super::DaemonConfig;
use crate::byte_budget::{ByteBudget, HeldBytes, NoRoom};

/// Reads lines from a client. Dropping a pending read loses no data.
#[derive(Debug)]
pub(super) struct Lines<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    held: HeldBytes,
    /// The deadline for the current line. `None` before its first byte.
    due: Option<Instant>,
    budget: ByteBudget,
    config: DaemonConfig,
}

/// A received message and the memory charged for it.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) bytes: Vec<u8>,
    pub(super) held: HeldBytes,
}

/// An error that ends the connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum LineError {
    #[error("the message is longer than {0} bytes; split it")]
    TooLong(usize),
    #[error("the message was incomplete after {0} s; end each message with a line feed")]
    TooSlow(u64),
    #[error("the daemon's memory for messages is full; connect again later")]
    NoRoom,
    #[error("the connection was lost")]
    Broken,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(input: R, budget: ByteBudget, config: DaemonConfig) -> Self {
        Self { input: BufReader::new(input), line: Vec::new(), held: HeldBytes::default(), due: None, budget, config }
    }

    /// Returns the next non-blank line, or `None` at the end of the input. The last line needs no line feed.
    pub(super) async fn next(&mut self) -> Result<Option<Line>, LineError> {
        loop {
            let has_ended = match self.due {
                Some(due) => tokio::time::timeout_at(due, self.more())
                    .await
                    .unwrap_or(Err(LineError::TooSlow(self.config.message_time.as_secs())))?,
                None => self.more().await?,
            };
            match has_ended {
                Read::Part => {}
                Read::Line | Read::End if !self.line.trim_ascii().is_empty() => {
                    self.due = None;
                    let (bytes, held) = (std::mem::take(&mut self.line), std::mem::take(&mut self.held));
                    return Ok(Some(Line { bytes, held }));
                }
                Read::Line => self.forget(),
                Read::End => return Ok(None),
            }
        }
    }

    fn forget(&mut self) {
        self.line.clear();
        self.held = HeldBytes::default();
        self.due = None;
    }

    /// Appends the available bytes up to the next line feed to the current line.
    async fn more(&mut self) -> Result<Read, LineError> {
        let max_bytes = self.config.message_bytes;
        let available = self.input.fill_buf().await.map_err(|_| LineError::Broken)?;
        if available.is_empty() {
            return Ok(Read::End);
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let len = end.unwrap_or(available.len());
        if self.line.len() + len > max_bytes {
            return Err(LineError::TooLong(max_bytes));
        }
        self.due.get_or_insert_with(|| Instant::now() + self.config.message_time);
        // Reserve memory for the vector's capacity, which doubles as it grows.
        let wanted = (self.line.len() + len).next_power_of_two().min(max_bytes);
        self.budget.grow(None, &mut self.held, wanted).await.map_err(|_| LineError::NoRoom)?;
        self.line.extend_from_slice(available.get(..len).unwrap_or_default());
        self.input.consume(len + usize::from(end.is_some()));
        Ok(if end.is_some() { Read::Line } else { Read::Part })
    }
}

/// The progress of reading the current line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    Part,
    Line,
    End,
}

/// Maximum number of queued messages to a client.
const MESSAGES: usize = 64;
/// Maximum size of a single write in bytes. Each write has its own timeout.
const PIECE_BYTES: usize = 64 << 10;

/// A queue of messages to a client. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Outbox {
    sender: mpsc::Sender<Outgoing>,
    budget: ByteBudget,
    /// The name of the connection's slot, which selects its share of the budget.
    connection: Arc<str>,
}

/// A message that is charged to the memory budget until it is written.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) text: String,
    pub(super) held: HeldBytes,
    /// Permits of the answered requests. They are released when the message is queued, and so limit the requests whose
    /// answers wait for the queue.
    pub(super) places: Vec<OwnedSemaphorePermit>,
}

/// The client has disconnected or reads too slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gone;

impl Outbox {
    pub(super) fn new(budget: ByteBudget, connection: Arc<str>) -> (Self, mpsc::Receiver<Outgoing>) {
        let (sender, receiver) = mpsc::channel(MESSAGES);
        (Self { sender, budget, connection }, receiver)
    }

    /// Charges a message to the memory budget, waiting for room if necessary. Fails if no room is freed in time.
    pub(super) async fn outgoing(&self, text: String) -> Result<Outgoing, NoRoom> {
        let held = self.budget.room(Some(&self.connection), text.len()).await?;
        Ok(Outgoing { text, held, places: Vec::new() })
    }

    /// Queues a message. Waits while the queue is full.
    pub(super) async fn send(&self, mut message: Outgoing) -> Result<(), Gone> {
        let place = self.sender.reserve().await.map_err(|_| Gone)?;
        // Release the permits before sending: a client can send its next request as soon as it has the answer.
        message.places.clear();
        place.send(message);
        Ok(())
    }

    /// Charges and queues a short message. Fails if the client has disconnected, or if no room is freed in the memory
    /// budget in time because clients read too slowly.
    pub(super) async fn send_short(&self, text: String) -> Result<(), Gone> {
        let message = self.outgoing(text).await.map_err(|NoRoom| Gone)?;
        self.send(message).await
    }

    /// Queues a short message, or drops it if the queue or the memory budget is full.
    pub(super) fn try_send_short(&self, text: String) {
        if let Ok(held) = self.budget.try_room(Some(&self.connection), text.len()) {
            let _ = self.sender.try_send(Outgoing { text, held, places: Vec::new() });
        }
    }
}

/// Writes messages until the queue closes. Fails if the client disconnects or does not read a chunk within `time`.
pub(super) async fn write_all<W: AsyncWrite + Unpin>(
    mut output: W,
    mut messages: mpsc::Receiver<Outgoing>,
    time: Duration,
) -> Result<(), Gone> {
    while let Some(Outgoing { mut text, held, .. }) = messages.recv().await {
        text.push('\n');
        for piece in text.as_bytes().chunks(PIECE_BYTES) {
            let written = tokio::time::timeout(time, output.write_all(piece)).await;
            written.map_err(|_| Gone)?.map_err(|_| Gone)?;
        }
        let flushed = tokio::time::timeout(time, output.flush()).await;
        flushed.map_err(|_| Gone)?.map_err(|_| Gone)?;
        drop(held);
    }
    let _ = output.shutdown().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncWriteExt as _;

    use super::*;

    fn config() -> DaemonConfig {
        DaemonConfig { message_bytes: 5, message_time: Duration::from_millis(30), ..DaemonConfig::default() }
    }

    fn lines<R: AsyncRead + Unpin>(input: R) -> Lines<R> {
        Lines::new(input, ByteBudget::new(1 << 20, Duration::from_millis(30), []), config())
    }

    async fn all(input: &[u8]) -> (Vec<String>, Option<String>) {
        let (mut lines, mut read) = (lines(input), Vec::new());
        loop {
            match lines.next().await {
                Ok(Some(line)) => read.push(String::from_utf8(line.bytes).unwrap()),
                Ok(None) => return (read, None),
                Err(error) => return (read, Some(error.to_string())),
            }
        }
    }

    #[tokio::test]
    async fn line_over_the_limit_is_rejected() {
        assert_eq!(all(b"12345\n\n \r\n123\r\n1").await, (vec!["12345".into(), "123\r".into(), "1".into()], None));
        let (read, error) = all(b"1\n123456\n2\n").await;
        assert_eq!(read, ["1"]);
        assert!(error.unwrap().contains("longer than 5 bytes"));
    }

    #[tokio::test]
    async fn unfinished_line_times_out_but_idle_client_does_not() {
        let (mut client, server) = tokio::io::duplex(64);
        let mut lines = lines(server);
        let idle = tokio::time::timeout(Duration::from_millis(100), lines.next()).await;
        assert!(idle.is_err(), "no message has started, so no timeout applies");
        client.write_all(b"12").await.unwrap();
        assert!(lines.next().await.unwrap_err().to_string().contains("incomplete after"));
    }
}
