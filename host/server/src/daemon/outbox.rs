//! Messages as they go, one after the other.

use std::time::Duration;

use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _},
    sync::mpsc,
};

use crate::byte_budget::{ByteBudget, Held, NoRoom};

/// How many messages wait for a client that reads slowly.
const MESSAGES: usize = 64;
/// How much is written at once: each piece has its time.
const PIECE_BYTES: usize = 64 << 10;

/// Where messages to one client go. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Outbox {
    sender: mpsc::Sender<Outgoing>,
    budget: ByteBudget,
}

/// A message, which counts until it is written.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) text: String,
    pub(super) held: Held,
}

/// The client is gone, or reads too slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gone;

impl Outbox {
    pub(super) fn new(budget: ByteBudget) -> (Self, mpsc::Receiver<Outgoing>) {
        let (sender, receiver) = mpsc::channel(MESSAGES);
        (Self { sender, budget }, receiver)
    }

    /// Has a message count.
    pub(super) async fn outgoing(&self, text: String) -> Result<Outgoing, NoRoom> {
        let held = self.budget.room(None, text.len()).await?;
        Ok(Outgoing { text, held })
    }

    /// Sends a message, once there is a place for it.
    pub(super) async fn send(&self, message: Outgoing) -> Result<(), Gone> {
        self.sender.send(message).await.map_err(|_| Gone)
    }

    /// Sends a short message. A client for which there is no room in time reads too slowly.
    pub(super) async fn send_short(&self, text: String) -> Result<(), Gone> {
        let message = self.outgoing(text).await.map_err(|NoRoom| Gone)?;
        self.send(message).await
    }

    /// Sends a short message if there is room and a place for it now.
    pub(super) fn try_send_short(&self, text: String) {
        if let Ok(held) = self.budget.try_room(None, text.len()) {
            let _ = self.sender.try_send(Outgoing { text, held });
        }
    }
}

/// Writes messages until there are no more, or the client does not read any.
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
