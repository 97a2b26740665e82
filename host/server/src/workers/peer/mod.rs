//! Calls between the server and a worker process, in both directions over a single socket.
//!
//! [`frame`] defines the messages, their encoding on the socket, and the set of calls in progress.

mod frame;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
    fmt, io, mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use glovebox::{CancelToken, OnCancel};
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncRead, BufReader},
    net::{UnixStream, unix::OwnedWriteHalf},
    sync::{Notify, OwnedSemaphorePermit, oneshot},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Service, ServiceError,
    byte_budget::{ByteBudget, Room},
    tenant::CancelOnDrop,
};
use frame::{CALL, CANCEL, Calls, Frame, Header, MAX_PART_BYTES, REPLY, read_header, read_message, skip_message};

pub(super) use frame::{MAX_SHORT_BYTES, Message};

/// Maximum length of a call's JSON in bytes, which is more than the default limit on request bodies. Longer JSON is
/// rejected, because parsed values can occupy many times the memory of their text.
const MAX_CALL_JSON_BYTES: u32 = 64 << 20;

/// A handler of calls from the other side.
pub(super) trait CallHandler: Send + Sync + 'static {
    /// Starts to answer a call. Must not block. Called within a Tokio runtime. `cancel` is cancelled when the other
    /// side cancels the call or disconnects.
    fn answer(self: Arc<Self>, call: Message, cancel: CancelToken, reply: Reply);
}

/// A handle for replying to a call. Dropping the handle without a reply reports a panic.
pub(super) struct Reply {
    peer: Peer,
    calls: Calls,
    number: u64,
    reply: Result<Message, ServiceError>,
    /// The call's share of `MAX_CALL_BYTES`.
    _room: OwnedSemaphorePermit,
}

impl Reply {
    pub(super) fn send(mut self, reply: Result<Message, ServiceError>) {
        self.reply = reply;
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.calls.end(self.number);
        let message = match mem::replace(&mut self.reply, Err(ServiceError::NoRoom)) {
            Ok(message) if message.fits(MAX_PART_BYTES) => message,
            Ok(_) => Message::failure(&ServiceError::NoRoom),
            Err(error) => Message::failure(&error),
        };
        self.peer.send(Frame { kind: REPLY, number: self.number, message });
    }
}

/// The other side of the socket, which may have disconnected. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Peer(Arc<PeerState>);

struct PeerState {
    output: Mutex<Output>,
    /// Notified when output waits for the socket, or when the exchange ends.
    has_output: Notify,
    /// Calls to the other side, keyed by number.
    waiting: Mutex<HashMap<u64, WaitingCall>>,
    next: AtomicU64,
    /// Cancelled while `waiting` is locked, when the other side disconnects.
    disconnected: CancellationToken,
}

/// The socket and the frames that it has not yet accepted.
struct Output {
    /// `None` after the last frame.
    socket: Option<Arc<OwnedWriteHalf>>,
    /// Parts that the socket has not yet accepted completely. The queue needs no limit: each frame belongs to a call,
    /// and the number of calls is limited.
    rest: VecDeque<UnsentPart>,
}

/// A part of a frame that waits for the socket.
struct UnsentPart {
    bytes: Vec<u8>,
    written: usize,
    /// The memory reserved for the frame. Held by the frame's last part.
    _room: Option<Room>,
}

/// A call to the other side, waiting for its reply.
struct WaitingCall {
    then: Box<dyn FnOnce(Result<Message, ServiceError>) + Send>,
    memory: ReplyMemory,
    /// Sends a cancellation when the caller cancels the call.
    _hook: Option<OnCancel>,
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("in_progress", &self.in_progress()).finish_non_exhaustive()
    }
}

impl Peer {
    /// Starts the exchange of frames. Must be called within a Tokio runtime.
    pub(super) fn start(stream: UnixStream, answering: Arc<dyn CallHandler>) -> Self {
        let (read, write) = stream.into_split();
        let peer = Self(Arc::new(PeerState {
            output: Mutex::new(Output { socket: Some(Arc::new(write)), rest: VecDeque::new() }),
            has_output: Notify::new(),
            waiting: Mutex::default(),
            next: AtomicU64::new(0),
            disconnected: CancellationToken::new(),
        }));
        let (reading, writing) = (peer.clone(), peer.clone());
        tokio::spawn(async move {
            if let Err(error) = writing.write_rest().await {
                tracing::debug!(target: "glovebox", %error, "cannot write to the peer process");
            }
            writing.close();
            // Output of a broken exchange is never sent. Its memory must not stay charged while the peer exists.
            writing.0.output.lock().rest.clear();
        });
        tokio::spawn(async move {
            let calls = Calls::default();
            if let Err(error) = reading.read_frames(read, &answering, &calls).await
                && error.kind() != io::ErrorKind::UnexpectedEof
            {
                tracing::error!(target: "glovebox", %error, "cannot read from the peer process");
            }
            calls.all.cancel();
            reading.disconnect();
        });
        peer
    }

    /// Calls the other side. Dropping the future cancels the call.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        request: &impl Serialize,
        bytes: Vec<u8>,
    ) -> Result<(T, Vec<u8>), ServiceError> {
        let cancel = CancelToken::new();
        let _guard = CancelOnDrop(cancel.clone());
        self.call_until(request, bytes, None, &cancel).await?.result()
    }

    /// Like [`call`](Self::call), but reserves memory for the reply before reading it. Also returns the reservation,
    /// which must be held while the reply exists. Discards the reply if the budget has no room. Parses a long reply on
    /// a blocking thread.
    pub(super) async fn call_within<T: DeserializeOwned + Send + 'static>(
        &self,
        request: &impl Serialize,
        bytes: Vec<u8>,
        budget: Option<ReplyBudget>,
    ) -> Result<(T, Vec<u8>, Option<Room>), ServiceError> {
        let cancel = CancelToken::new();
        let _guard = CancelOnDrop(cancel.clone());
        self.call_until(request, bytes, budget, &cancel).await?.parse().await
    }

    /// Like [`call`](Self::call), for a caller that has reserved memory for `max_bytes` of data in the reply. A longer
    /// reply is treated like the death of the worker, and is discarded before it is read.
    pub(super) async fn call_reserved<T: DeserializeOwned>(
        &self,
        request: &impl Serialize,
        bytes: Vec<u8>,
        max_bytes: usize,
    ) -> Result<(T, Vec<u8>), ServiceError> {
        let cancel = CancelToken::new();
        let _guard = CancelOnDrop(cancel.clone());
        let (sender, receiver) = oneshot::channel();
        self.call_with(request, bytes, ReplyMemory::Reserved(max_bytes), &cancel, move |reply| {
            let _ = sender.send(reply);
        });
        receiver.await.unwrap_or(Err(ServiceError::WorkerDied))?.result()
    }

    /// Calls the other side. If `cancel` is cancelled, the other side is notified, and its reply is still awaited.
    /// Returns the unparsed reply.
    pub(super) async fn call_until(
        &self,
        request: &impl Serialize,
        bytes: Vec<u8>,
        budget: Option<ReplyBudget>,
        cancel: &CancelToken,
    ) -> Result<Message, ServiceError> {
        let (sender, receiver) = oneshot::channel();
        self.call_then(request, bytes, budget, cancel, move |reply| {
            let _ = sender.send(reply);
        });
        receiver.await.unwrap_or(Err(ServiceError::WorkerDied))
    }

    /// Calls the other side. `then` receives the reply, or an error: [`ServiceError::NoRoom`] if `budget` has no room
    /// for the reply, and [`ServiceError::Invalid`] if the call is too long. If the other side has disconnected, the
    /// error is [`ServiceError::NoWorker`]; if it disconnects during the call, the error is
    /// [`ServiceError::WorkerDied`]. `then` must not block.
    pub(super) fn call_then(
        &self,
        request: &impl Serialize,
        bytes: Vec<u8>,
        budget: Option<ReplyBudget>,
        cancel: &CancelToken,
        then: impl FnOnce(Result<Message, ServiceError>) + Send + 'static,
    ) {
        let memory = budget.map_or(ReplyMemory::Unlimited, ReplyMemory::Budget);
        self.call_with(request, bytes, memory, cancel, then);
    }

    /// Like [`call_then`](Self::call_then), with any limit on the memory for the reply.
    fn call_with(
        &self,
        request: &impl Serialize,
        bytes: Vec<u8>,
        memory: ReplyMemory,
        cancel: &CancelToken,
        then: impl FnOnce(Result<Message, ServiceError>) + Send + 'static,
    ) {
        let message = Message::new(request, bytes);
        if !message.fits(MAX_CALL_JSON_BYTES) {
            return then(Err(ServiceError::Invalid(format!(
                "the request contains {} bytes of JSON and {} bytes of data; the maxima are {MAX_CALL_JSON_BYTES} and \
                 {MAX_PART_BYTES}; send less",
                message.json.len(),
                message.bytes.len()
            ))));
        }
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        {
            let mut waiting = self.0.waiting.lock();
            if self.is_gone() {
                drop(waiting);
                return then(Err(ServiceError::NoWorker));
            }
            waiting.insert(number, WaitingCall { then: Box::new(then), memory, _hook: None });
        }
        self.send(Frame { kind: CALL, number, message });
        let canceller = self.clone();
        let hook = cancel.on_cancel(move || {
            canceller.send(Frame { kind: CANCEL, number, message: Message::default() });
        });
        // The reply may already have arrived.
        if let Some(call) = self.0.waiting.lock().get_mut(&number) {
            call._hook = Some(hook);
        }
    }

    /// Ends the exchange after the queued frames are sent. The other side then reads the end of the stream.
    pub(super) fn close(&self) {
        self.0.output.lock().socket = None;
        self.0.has_output.notify_one();
    }

    /// Returns the number of calls to the other side that are in progress.
    pub(super) fn in_progress(&self) -> usize {
        self.0.waiting.lock().len()
    }

    pub(super) fn is_gone(&self) -> bool {
        self.0.disconnected.is_cancelled()
    }

    /// Waits until the other side has disconnected.
    pub(super) async fn wait_gone(&self) {
        self.0.disconnected.cancelled().await;
    }

    /// Sends a frame. Queues the bytes that the socket does not accept immediately.
    fn send(&self, frame: Frame) {
        let Some(header) = frame.header() else {
            tracing::error!(target: "glovebox", "a message to a process is too long");
            return self.close();
        };
        let mut output = self.0.output.lock();
        let Some(socket) = output.socket.clone() else { return };
        let Message { json, bytes, room } = frame.message;
        let parts = [header, json, bytes];
        let slices = parts.each_ref().map(|part| io::IoSlice::new(part));
        // Errors are ignored: the task that writes the queue encounters them again.
        let mut taken = if output.rest.is_empty() { socket.try_write_vectored(&slices).unwrap_or(0) } else { 0 };
        for part in parts {
            let written = taken.min(part.len());
            taken -= written;
            if written < part.len() {
                output.rest.push_back(UnsentPart { bytes: part, written, _room: None });
            }
        }
        // If the queue is not empty, its last part belongs to this frame and is written last.
        if let Some(last) = output.rest.back_mut() {
            last._room = room;
        }
        if !output.rest.is_empty() {
            drop(output);
            self.0.has_output.notify_one();
        }
    }

    /// Writes queued output until the exchange ends.
    async fn write_rest(&self) -> io::Result<()> {
        let Some(socket) = self.0.output.lock().socket.clone() else { return Ok(()) };
        loop {
            self.0.has_output.notified().await;
            while !self.write_some(&socket)? {
                socket.writable().await?;
            }
            if self.0.output.lock().socket.is_none() {
                // Dropping the last handle shuts the socket down for writing.
                return Ok(());
            }
        }
    }

    /// Writes until the socket accepts no more. Returns `true` if the queue is empty.
    fn write_some(&self, socket: &OwnedWriteHalf) -> io::Result<bool> {
        let mut output = self.0.output.lock();
        while let Some(part) = output.rest.front_mut() {
            match socket.try_write(part.bytes.get(part.written..).unwrap_or_default()) {
                Ok(written) => part.written += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
            if part.written >= part.bytes.len() {
                output.rest.pop_front();
            }
        }
        Ok(true)
    }

    /// Marks the other side as disconnected, and fails all calls in progress.
    fn disconnect(&self) {
        self.close();
        let mut waiting = self.0.waiting.lock();
        self.0.disconnected.cancel();
        let calls = mem::take(&mut *waiting);
        drop(waiting);
        calls.into_values().for_each(|call| (call.then)(Err(ServiceError::WorkerDied)));
    }

    async fn read_frames(
        &self,
        read: impl AsyncRead + Unpin,
        answering: &Arc<dyn CallHandler>,
        calls: &Calls,
    ) -> io::Result<()> {
        let mut read = BufReader::new(read);
        loop {
            let header = read_header(&mut read).await?;
            let Header { kind, number, .. } = header;
            match kind {
                CALL => {
                    if header.json > MAX_CALL_JSON_BYTES {
                        let error = format!(
                            "a call contains {} bytes of JSON; the maximum is {MAX_CALL_JSON_BYTES}",
                            header.json
                        );
                        return Err(io::Error::other(error));
                    }
                    let room = calls.room(&header).await?;
                    let message = read_message(&mut read, &header).await?;
                    let cancel = calls.begin(number)?;
                    let reply = Err(ServiceError::Panicked);
                    let reply = Reply { peer: self.clone(), calls: calls.clone(), number, reply, _room: room };
                    Arc::clone(answering).answer(message, cancel, reply);
                }
                CANCEL => calls.cancel(number),
                REPLY => {
                    // Waiting for the budget would delay all other replies.
                    let memory = self.0.waiting.lock().get(&number).map(|call| call.memory.clone());
                    let reply = match memory.map_or(Ok(None), |memory| memory.reserve(&header)) {
                        Ok(room) => Ok(Message { room, ..read_message(&mut read, &header).await? }),
                        Err(error) => {
                            skip_message(&mut read, &header).await?;
                            Err(error)
                        }
                    };
                    let call = self.0.waiting.lock().remove(&number);
                    if let Some(call) = call {
                        (call.then)(reply);
                    }
                }
                kind => return Err(io::Error::other(format!("unknown frame kind {kind}"))),
            }
        }
    }
}

/// Maximum length in bytes of a reply that is read even if the budget is exhausted. An error reply would be about as
/// long. The JSON part counts twice.
const SHORT_REPLY_BYTES: usize = 4 << 10;

/// The memory for the reply to a call.
#[derive(Clone, Debug)]
enum ReplyMemory {
    /// The caller trusts the other side.
    Unlimited,
    /// Reserved when the reply arrives.
    Budget(ReplyBudget),
    /// Reserved by the caller, for this many bytes of data and for short JSON.
    Reserved(usize),
}

impl ReplyMemory {
    /// Checks that there is memory for a reply, and reserves it if the caller has not done so.
    fn reserve(&self, header: &Header) -> Result<Option<Room>, ServiceError> {
        match self {
            Self::Unlimited => Ok(None),
            Self::Budget(budget) => budget.reserve(header),
            Self::Reserved(max_bytes) => {
                let [json, bytes] = [header.json, header.bytes].map(|part| usize::try_from(part).unwrap_or(usize::MAX));
                if json <= MAX_SHORT_BYTES && bytes <= *max_bytes {
                    return Ok(None);
                }
                // Callers that need no bytes discard every reply.
                if *max_bytes > 0 {
                    tracing::error!(
                        target: "glovebox", json, bytes, max_bytes, "the peer process sent a reply that is too long"
                    );
                }
                Err(ServiceError::WorkerDied)
            }
        }
    }
}

/// The memory budget for the replies to a tenant's calls, and for the calls that the server answers for the tenant.
#[derive(Clone, Debug)]
pub(crate) struct ReplyBudget {
    pub(crate) bytes: ByteBudget,
    pub(crate) tenant: String,
}

impl ReplyBudget {
    /// Returns the budget of a tenant, or `None` if the service has none.
    pub(crate) fn of(service: &Service, tenant: &str) -> Option<Self> {
        Some(Self { bytes: service.reply_budget()?.clone(), tenant: tenant.to_owned() })
    }

    /// Reserves memory for a reply and the values that are parsed from its JSON, without waiting. Reserves nothing for
    /// a short reply.
    fn reserve(&self, header: &Header) -> Result<Option<Room>, ServiceError> {
        let [json, bytes] = [header.json, header.bytes].map(|part| usize::try_from(part).unwrap_or(usize::MAX));
        let len = json.saturating_mul(2).saturating_add(bytes);
        if len <= SHORT_REPLY_BYTES {
            return Ok(None);
        }
        self.bytes.reserve(Some(&self.tenant), len).map(Some).map_err(|_| ServiceError::NoRoom)
    }
}
