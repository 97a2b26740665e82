//! Messages, their encoding on the socket, and the calls in progress.
//!
//! A frame consists of a 17-byte header, a JSON part, and a binary part. The header contains the kind of the frame (1
//! byte), the call number (8 bytes), and the lengths of both parts (4 bytes each). Numbers are little-endian. Each side
//! numbers its own calls.

use std::{collections::HashMap, io, sync::Arc};

use glovebox::CancelToken;
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    sync::{OwnedSemaphorePermit, Semaphore},
};

use crate::{
    Service, ServiceError,
    byte_budget::{ChargedBytes, Room},
    workers::protocol::RelayedError,
};

pub(super) const CALL: u8 = 0;
pub(super) const REPLY: u8 = 1;
pub(super) const CANCEL: u8 = 2;

const HEADER_BYTES: usize = 17;
/// Maximum length of a part in bytes. Parts are buffered as they arrive, so a large length in a header does not cause a
/// large allocation.
pub(super) const MAX_PART_BYTES: u32 = 1 << 30;

/// A JSON part with its binary part.
#[derive(Default)]
pub(crate) struct Message {
    pub(crate) json: Vec<u8>,
    pub(crate) bytes: Vec<u8>,
    /// The memory reserved for a reply. Held until the receiver takes the memory, or until the reply is sent.
    pub(super) room: Option<Room>,
}

impl Message {
    pub(crate) fn new(value: &impl Serialize, bytes: Vec<u8>) -> Self {
        // Serialization cannot fail for the types of the protocol.
        Self { json: serde_json::to_vec(value).unwrap_or_default(), bytes, room: None }
    }

    /// Returns the reply to a successful call.
    pub(crate) fn reply(value: &impl Serialize, bytes: Vec<u8>) -> Self {
        Self::new(&Ok::<_, RelayedError>(value), bytes)
    }

    /// Returns the reply to a failed call.
    pub(crate) fn failure(error: &ServiceError) -> Self {
        Self::new(&Err::<(), _>(RelayedError::from(error)), Vec::new())
    }

    /// Holds memory until the message is sent.
    pub(crate) fn holding(self, held: ChargedBytes) -> Self {
        Self { room: Some(Room::ChargedBytes(held)), ..self }
    }

    /// Returns `true` if the JSON is at most `max_json_bytes` long, and both parts are at most `MAX_PART_BYTES` long.
    pub(super) fn fits(&self, max_json_bytes: u32) -> bool {
        length_of(&self.json).is_some_and(|length| length <= max_json_bytes) && length_of(&self.bytes).is_some()
    }

    /// Parses a reply. A malformed reply is treated like the death of the worker.
    pub(crate) fn result<T: DeserializeOwned>(self) -> Result<(T, Vec<u8>), ServiceError> {
        let result = serde_json::from_slice::<Result<T, RelayedError>>(&self.json).map_err(|error| {
            tracing::error!(target: "glovebox", %error, "the peer process sent a malformed reply");
            ServiceError::WorkerDied
        })?;
        Ok((result?, self.bytes))
    }

    /// Like [`result`](Self::result), but also returns the memory reserved for the reply. The memory must be held while
    /// the value or the bytes exist.
    pub(crate) fn held_result<T: DeserializeOwned>(mut self) -> Result<(T, Vec<u8>, Option<Room>), ServiceError> {
        let (mut room, len) = (self.room.take(), self.json.len() + self.bytes.len());
        let (value, bytes) = self.result()?;
        // The reservation counts the JSON twice, as text and as values. The text no longer exists.
        if let Some(room) = &mut room {
            room.shrink(len);
        }
        Ok((value, bytes, room))
    }

    /// Like [`held_result`](Self::held_result), but parses a long reply on a blocking thread.
    pub(crate) async fn parse<T: DeserializeOwned + Send + 'static>(
        self,
    ) -> Result<(T, Vec<u8>, Option<Room>), ServiceError> {
        if self.json.len() <= MAX_SHORT_BYTES {
            return self.held_result();
        }
        Service::blocking(move || self.held_result()).await?
    }
}

pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) number: u64,
    pub(super) message: Message,
}

/// Returns the length of a part, or `None` if it is too long.
fn length_of(part: &[u8]) -> Option<u32> {
    u32::try_from(part.len()).ok().filter(|length| *length <= MAX_PART_BYTES)
}

impl Frame {
    /// Returns the frame's header, or `None` if a part is too long.
    pub(super) fn header(&self) -> Option<Vec<u8>> {
        let (json, bytes) = (length_of(&self.message.json)?, length_of(&self.message.bytes)?);
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.push(self.kind);
        header.extend_from_slice(&self.number.to_le_bytes());
        header.extend_from_slice(&json.to_le_bytes());
        header.extend_from_slice(&bytes.to_le_bytes());
        Some(header)
    }
}

pub(super) struct Header {
    pub(super) kind: u8,
    pub(super) number: u64,
    pub(super) json: u32,
    pub(super) bytes: u32,
}

pub(super) async fn read_header(read: &mut (impl AsyncRead + Unpin)) -> io::Result<Header> {
    Ok(Header {
        kind: read.read_u8().await?,
        number: read.read_u64_le().await?,
        json: read.read_u32_le().await?,
        bytes: read.read_u32_le().await?,
    })
}

pub(super) async fn read_message(read: &mut (impl AsyncRead + Unpin), header: &Header) -> io::Result<Message> {
    let (json, bytes) = (read_part(read, header.json).await?, read_part(read, header.bytes).await?);
    Ok(Message { json, bytes, room: None })
}

/// Reads a message and discards it.
pub(super) async fn skip_message(read: &mut (impl AsyncRead + Unpin), header: &Header) -> io::Result<()> {
    let bytes = u64::from(header.json) + u64::from(header.bytes);
    if tokio::io::copy(&mut read.take(bytes), &mut tokio::io::sink()).await? < bytes {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

async fn read_part(read: &mut (impl AsyncRead + Unpin), length: u32) -> io::Result<Vec<u8>> {
    if length > MAX_PART_BYTES {
        return Err(io::Error::other(format!("a frame has a part of {length} bytes; the maximum is {MAX_PART_BYTES}")));
    }
    let mut part = Vec::new();
    if read.take(length.into()).read_to_end(&mut part).await? < usize::try_from(length).unwrap_or(usize::MAX) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(part)
}

/// Maximum length of a reply's JSON that is handled on an async thread, in bytes. Longer JSON is handled on a blocking
/// thread.
pub(crate) const MAX_SHORT_BYTES: usize = 64 << 10;

/// Maximum total size of the other side's calls in progress, in bytes. Further calls are not read until some calls have
/// been answered.
const MAX_CALL_BYTES: usize = 4 << 30;
/// The unit in which the bytes of calls are counted, because a semaphore grants at most `u32::MAX` permits at once.
const UNIT_BYTES: usize = 1 << 10;
/// Maximum number of the other side's calls in progress.
const MAX_CALLS: usize = 16_384;

/// The other side's calls in progress. Clones share this set.
#[derive(Clone)]
pub(super) struct Calls {
    tokens: Arc<Mutex<HashMap<u64, CancelToken>>>,
    /// The parent of all tokens.
    pub(super) all: CancelToken,
    room: Arc<Semaphore>,
}

impl Default for Calls {
    fn default() -> Self {
        let room = Arc::new(Semaphore::new(MAX_CALL_BYTES / UNIT_BYTES));
        Self { tokens: Arc::default(), all: CancelToken::new(), room }
    }
}

impl Calls {
    /// Waits until `MAX_CALL_BYTES` leaves room for a call.
    pub(super) async fn room(&self, header: &Header) -> io::Result<OwnedSemaphorePermit> {
        // The sum of both parts fits into 32 bits.
        let bytes = header.json.min(MAX_PART_BYTES) + header.bytes.min(MAX_PART_BYTES);
        let units = bytes / u32::try_from(UNIT_BYTES).unwrap_or(u32::MAX) + 1;
        Arc::clone(&self.room).acquire_many_owned(units).await.map_err(io::Error::other)
    }

    pub(super) fn begin(&self, number: u64) -> io::Result<CancelToken> {
        let mut tokens = self.tokens.lock();
        if tokens.len() >= MAX_CALLS {
            return Err(io::Error::other(format!("more than {MAX_CALLS} calls are in progress")));
        }
        let token = self.all.child();
        tokens.insert(number, token.clone());
        Ok(token)
    }

    pub(super) fn cancel(&self, number: u64) {
        let token = self.tokens.lock().get(&number).cloned();
        if let Some(token) = token {
            token.cancel();
        }
    }

    pub(super) fn end(&self, number: u64) {
        self.tokens.lock().remove(&number);
    }
}
