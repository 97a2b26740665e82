//! Outgoing messages of one client.

use std::time::Duration;

use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _},
    sync::mpsc,
};

use crate::byte_budget::{ByteBudget, Held, NoRoom};

/// Maximum number of messages that are queued for a slow client.
const MESSAGES: usize = 64;
/// Maximum size of one write in bytes. Each write has its own timeout.
const PIECE_BYTES: usize = 64 << 10;

/// Queue of messages to one client. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Outbox {
    sender: mpsc::Sender<Outgoing>,
    budget: ByteBudget,
}

/// A message that counts against the memory budget until it is written.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) text: String,
    pub(super) held: Held,
}

/// Error: the client has disconnected or reads too slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gone;

impl Outbox {
    pub(super) fn new(budget: ByteBudget) -> (Self, mpsc::Receiver<Outgoing>) {
        let (sender, receiver) = mpsc::channel(MESSAGES);
        (Self { sender, budget }, receiver)
    }

    /// Waits for room in the memory budget for a message.
    pub(super) async fn outgoing(&self, text: String) -> Result<Outgoing, NoRoom> {
        let held = self.budget.room(None, text.len()).await?;
        Ok(Outgoing { text, held })
    }

    /// Queues a message, and waits while the queue is full.
    pub(super) async fn send(&self, message: Outgoing) -> Result<(), Gone> {
        self.sender.send(message).await.map_err(|_| Gone)
    }

    /// Queues a short message. If there is no room in memory in time, the client reads too slowly.
    pub(super) async fn send_short(&self, text: String) -> Result<(), Gone> {
        let message = self.outgoing(text).await.map_err(|NoRoom| Gone)?;
        self.send(message).await
    }

    /// Queues a short message, or drops it if there is no room now.
    pub(super) fn try_send_short(&self, text: String) {
        if let Ok(held) = self.budget.try_room(None, text.len()) {
            let _ = self.sender.try_send(Outgoing { text, held });
        }
    }
}

/// Writes messages until the queue closes. Fails if the client disconnects, or does not read a piece within `time`.
pub(super) async fn write_all<W: AsyncWrite + Unpin>(
    mut output: W,
    mut messages: mpsc::Receiver<Outgoing>,
    time: Duration,
) -> Result<(), Gone> {
    while let Some(Outgoing { mut text, held }) = messages.recv().await {
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
