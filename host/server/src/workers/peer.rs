//! Calls between the server and a worker process, in both directions over a single socket.
//!
//! A frame consists of a 17-byte header, a JSON part, and a binary part. The header contains the kind of the frame (1
//! byte), the call number (8 bytes), and the lengths of both parts (4 bytes each), in little-endian order. Each side
//! numbers its own calls.

use std::{
    collections::{HashMap, VecDeque},
    fmt, io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use glovebox::{CancelToken, OnCancel};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, BufReader},
    net::{UnixStream, unix::OwnedWriteHalf},
    sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot, watch},
};

use super::protocol::RelayedError;
use crate::{
    Service, ServiceError,
    byte_budget::{ByteBudget, HeldBytes, Room},
};

const CALL: u8 = 0;
const REPLY: u8 = 1;
const CANCEL: u8 = 2;

const HEADER_BYTES: usize = 17;
/// Maximum length of a part in bytes. Parts are buffered as they arrive, so a large length in a header allocates
/// nothing.
const MAX_PART_BYTES: u32 = 1 << 30;
/// Maximum length of a call's JSON in bytes, which exceeds the maximum request body. Parsed JSON can occupy many times
/// the memory of its text.
const MAX_CALL_JSON_BYTES: u32 = 64 << 20;
/// Maximum number of bytes in the other side's calls in progress. Further calls are read only after others have been
/// answered.
const MAX_CALL_BYTES: usize = 4 << 30;
/// The unit in which these bytes are counted.
const UNIT_BYTES: usize = 1 << 10;
/// Maximum length of a reply that is read even if the budget is exhausted, in bytes. An error would be as long.
const SHORT_REPLY_BYTES: usize = 4 << 10;
/// Maximum number of the other side's calls in progress.
const MAX_CALLS: usize = 16_384;

/// A JSON part with its binary part.
#[derive(Default)]
pub(super) struct Message {
    pub(super) json: Vec<u8>,
    pub(super) bytes: Vec<u8>,
    /// The memory reserved for a reply, until its receiver takes it or until it is sent.
    room: Option<Room>,
}

/// The memory budget for the replies to a tenant's calls, and for the calls that the server answers for the tenant.
#[derive(Clone, Debug)]
pub(super) struct ReplyBudget {
    pub(super) bytes: ByteBudget,
    pub(super) tenant: String,
}

impl ReplyBudget {
    /// Returns the budget of a tenant, or `None` if the service has none.
    pub(super) fn of(service: &Service, tenant: &str) -> Option<Self> {
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

impl Message {
    pub(super) fn new(value: &impl Serialize, bytes: Vec<u8>) -> Self {
        // Serialization cannot fail for the types of the protocol.
        Self { json: serde_json::to_vec(value).unwrap_or_default(), bytes, room: None }
    }

    /// Holds memory until the message is sent.
    pub(super) fn holding(self, held: HeldBytes) -> Self {
        Self { room: Some(Room::HeldBytes(held)), ..self }
    }

    fn is_too_long(&self) -> bool {
        [&self.json, &self.bytes].into_iter().any(|part| length_of(part).is_none())
    }

    /// Parses a reply. A malformed reply is treated like the death of the worker.
    pub(super) fn result<T: DeserializeOwned>(self) -> Result<(T, Vec<u8>), ServiceError> {
        let result = serde_json::from_slice::<Result<T, RelayedError>>(&self.json).map_err(|error| {
            tracing::error!(target: "glovebox", %error, "a process sent a malformed reply");
            ServiceError::WorkerDied
        })?;
        Ok((result?, self.bytes))
    }

    /// Like [`result`](Self::result), but also returns the memory reserved for the reply. It must be held while the
    /// value or the bytes exist.
    pub(super) fn held_result<T: DeserializeOwned>(mut self) -> Result<(T, Vec<u8>, Option<Room>), ServiceError> {
        let (mut room, len) = (self.room.take(), self.json.len() + self.bytes.len());
        let (value, bytes) = self.result()?;
        // The JSON no longer exists.
        if let Some(room) = &mut room {
            room.shrink(len);
        }
        Ok((value, bytes, room))
    }
}

struct Frame {
    kind: u8,
    number: u64,
    message: Message,
}

/// Answers the calls from the other side.
pub(super) trait Answering: Send + Sync + 'static {
    /// Starts to answer a call. Must not block. Called within a Tokio runtime. `cancel` is cancelled when the other
    /// side cancels the call or disconnects.
    fn answer(self: Arc<Self>, call: Message, cancel: CancelToken, reply: Reply);
}

/// A handle for replying to a call. Every call must receive a reply.
pub(super) struct Reply {
    peer: Peer,
    calls: Calls,
    number: u64,
    /// The call's share of `MAX_CALL_BYTES`.
    _room: OwnedSemaphorePermit,
}

impl Reply {
    pub(super) fn send(self, message: Message) {
        let Self { peer, calls, number, .. } = self;
        calls.end(number);
        let message = match message.is_too_long() {
            true => Message::new(&Err::<(), _>(RelayedError::from(&ServiceError::NoRoom)), Vec::new()),
            false => message,
        };
        peer.send(Frame { kind: REPLY, number, message });
    }
}

/// The other side of the socket, which may have disconnected. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Peer(Arc<PeerState>);

struct PeerState {
    output: Mutex<Output>,
    /// Notified when output waits for the socket, or when the exchange ends.
    has_output: Notify,
    waiting: Mutex<Waiting>,
    next: AtomicU64,
    is_gone: watch::Sender<bool>,
}

/// The socket and the frames that wait for it.
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
    /// The memory reserved for the frame, in its last part.
    _room: Option<Room>,
}

#[derive(Default)]
struct Waiting {
    calls: HashMap<u64, WaitingCall>,
    is_gone: bool,
}

/// A call to the other side, waiting for its reply.
struct WaitingCall {
    then: Box<dyn FnOnce(Result<Message, ServiceError>) + Send>,
    /// The memory budget for the reply. `None` if the caller has reserved memory or trusts the other side.
    budget: Option<ReplyBudget>,
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
    pub(super) fn start(stream: UnixStream, answering: Arc<dyn Answering>) -> Self {
        let (read, write) = stream.into_split();
        let peer = Self(Arc::new(PeerState {
            output: Mutex::new(Output { socket: Some(Arc::new(write)), rest: VecDeque::new() }),
            has_output: Notify::new(),
            waiting: Mutex::default(),
            next: AtomicU64::new(0),
            is_gone: watch::Sender::new(false),
        }));
        let (reading, writing) = (peer.clone(), peer.clone());
        tokio::spawn(async move {
            if let Err(error) = writing.write_rest().await {
                tracing::debug!(target: "glovebox", %error, "cannot write to a process");
            }
            writing.close();
        });
        tokio::spawn(async move {
            let calls = Calls::default();
            if let Err(error) = reading.read_frames(read, &answering, &calls).await
                && error.kind() != io::ErrorKind::UnexpectedEof
            {
                tracing::error!(target: "glovebox", %error, "cannot read from a process");
            }
            calls.0.all.cancel();
            reading.gone();
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
        self.call_until(request, bytes, &cancel).await
    }

    /// Calls the other side. If `cancel` is cancelled, the other side is notified, and its reply is still awaited.
    pub(super) async fn call_until<T: DeserializeOwned>(
        &self,
        request: &impl Serialize,
        bytes: Vec<u8>,
        cancel: &CancelToken,
    ) -> Result<(T, Vec<u8>), ServiceError> {
        self.call_raw(request, bytes, None, cancel).await?.result()
    }

    /// Like [`call`](Self::call), but reserves memory for the reply before reading it. Also returns the reservation,
    /// which must be held while the reply exists. Discards the reply if the budget has no room.
    pub(super) async fn call_within<T: DeserializeOwned>(
        &self,
        request: &impl Serialize,
        bytes: Vec<u8>,
        budget: Option<ReplyBudget>,
    ) -> Result<(T, Vec<u8>, Option<Room>), ServiceError> {
        let cancel = CancelToken::new();
        let _guard = CancelOnDrop(cancel.clone());
        self.call_raw(request, bytes, budget, &cancel).await?.held_result()
    }

    /// Like [`call_until`](Self::call_until), but returns the unparsed reply.
    async fn call_raw(
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

    /// Calls the other side. `then` receives the reply, or [`ServiceError::NoRoom`] if `budget` has no room for it.
    /// `then` must not block.
    pub(super) fn call_then(
        &self,
        request: &impl Serialize,
        bytes: Vec<u8>,
        budget: Option<ReplyBudget>,
        cancel: &CancelToken,
        then: impl FnOnce(Result<Message, ServiceError>) + Send + 'static,
    ) {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        {
            let mut waiting = self.waiting();
            if waiting.is_gone {
                drop(waiting);
                return then(Err(ServiceError::NoWorker));
            }
            waiting.calls.insert(number, WaitingCall { then: Box::new(then), budget, _hook: None });
        }
        self.send(Frame { kind: CALL, number, message: Message::new(request, bytes) });
        let canceller = self.clone();
        let hook = cancel.on_cancel(move || {
            canceller.send(Frame { kind: CANCEL, number, message: Message::default() });
        });
        // The reply may already have arrived.
        if let Some(call) = self.waiting().calls.get_mut(&number) {
            call._hook = Some(hook);
        }
    }

    /// Ends the exchange after the frames already sent. The other side reads the end of the stream.
    pub(super) fn close(&self) {
        self.output().socket = None;
        self.0.has_output.notify_one();
    }

    /// Returns the number of calls to the other side that are in progress.
    pub(super) fn in_progress(&self) -> usize {
        self.waiting().calls.len()
    }

    pub(super) fn is_gone(&self) -> bool {
        *self.0.is_gone.borrow()
    }

    /// Waits until the other side has disconnected.
    pub(super) async fn wait_gone(&self) {
        let _ = self.0.is_gone.subscribe().wait_for(|gone| *gone).await;
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn output(&self) -> MutexGuard<'_, Output> {
        self.0.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a frame. Queues the bytes that the socket does not accept immediately.
    fn send(&self, frame: Frame) {
        let Some(header) = frame.header() else {
            tracing::error!(target: "glovebox", "a message to a process is too long");
            return self.close();
        };
        let mut output = self.output();
        let Some(socket) = output.socket.clone() else { return };
        let Message { json, bytes, room } = frame.message;
        let parts = [header, json, bytes];
        let slices = parts.each_ref().map(|part| io::IoSlice::new(part));
        // The task that writes the queue encounters an error again.
        let mut taken = if output.rest.is_empty() { socket.try_write_vectored(&slices).unwrap_or(0) } else { 0 };
        for part in parts {
            let written = taken.min(part.len());
            taken -= written;
            if written < part.len() {
                output.rest.push_back(UnsentPart { bytes: part, written, _room: None });
            }
        }
        // All parts in the queue precede the frame's last part.
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
        let Some(socket) = self.output().socket.clone() else { return Ok(()) };
        loop {
            self.0.has_output.notified().await;
            while !self.write_some(&socket)? {
                socket.writable().await?;
            }
            if self.output().socket.is_none() {
                // Dropping the last handle shuts the socket down for writing.
                return Ok(());
            }
        }
    }

    /// Writes until the socket accepts no more. Returns `true` if the queue is empty. Frames sent meanwhile are
    /// appended in order.
    fn write_some(&self, socket: &OwnedWriteHalf) -> io::Result<bool> {
        let mut output = self.output();
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

    /// Fails all calls in progress.
    fn gone(&self) {
        self.close();
        let mut waiting = self.waiting();
        waiting.is_gone = true;
        let calls = std::mem::take(&mut waiting.calls);
        drop(waiting);
        calls.into_values().for_each(|call| (call.then)(Err(ServiceError::WorkerDied)));
        self.0.is_gone.send_replace(true);
    }

    async fn read_frames(
        &self,
        read: impl AsyncRead + Unpin,
        answering: &Arc<dyn Answering>,
        calls: &Calls,
    ) -> io::Result<()> {
        let mut read = BufReader::new(read);
        loop {
            let header = read_header(&mut read).await?;
            let Header { kind, number, .. } = header;
            match kind {
                CALL => {
                    if header.json > MAX_CALL_JSON_BYTES {
                        let error =
                            format!("a call has {} bytes of JSON; the maximum is {MAX_CALL_JSON_BYTES}", header.json);
                        return Err(io::Error::other(error));
                    }
                    let room = calls.room(&header).await?;
                    let message = read_message(&mut read, &header).await?;
                    let cancel = calls.begin(number)?;
                    let reply = Reply { peer: self.clone(), calls: calls.clone(), number, _room: room };
                    Arc::clone(answering).answer(message, cancel, reply);
                }
                CANCEL => calls.cancel(number),
                REPLY => {
                    // Waiting for the budget would delay all other replies.
                    let budget = self.waiting().calls.get(&number).and_then(|call| call.budget.clone());
                    let reply = match budget.map_or(Ok(None), |budget| budget.reserve(&header)) {
                        Ok(room) => Ok(Message { room, ..read_message(&mut read, &header).await? }),
                        Err(error) => {
                            skip_message(&mut read, &header).await?;
                            Err(error)
                        }
                    };
                    let call = self.waiting().calls.remove(&number);
                    if let Some(call) = call {
                        (call.then)(reply);
                    }
                }
                kind => return Err(io::Error::other(format!("unknown frame kind {kind}"))),
            }
        }
    }
}

/// Returns the length of a part, or `None` if it is too long.
fn length_of(part: &[u8]) -> Option<u32> {
    u32::try_from(part.len()).ok().filter(|length| *length <= MAX_PART_BYTES)
}

impl Frame {
    /// Returns the frame's header, or `None` if a part is too long.
    fn header(&self) -> Option<Vec<u8>> {
        let (json, bytes) = (length_of(&self.message.json)?, length_of(&self.message.bytes)?);
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.push(self.kind);
        header.extend_from_slice(&self.number.to_le_bytes());
        header.extend_from_slice(&json.to_le_bytes());
        header.extend_from_slice(&bytes.to_le_bytes());
        Some(header)
    }
}

struct CancelOnDrop(CancelToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The other side's calls in progress.
#[derive(Clone, Default)]
struct Calls(Arc<CallsInProgress>);

struct CallsInProgress {
    tokens: Mutex<HashMap<u64, CancelToken>>,
    /// The parent of all tokens.
    all: CancelToken,
    room: Arc<Semaphore>,
}

impl Default for CallsInProgress {
    fn default() -> Self {
        let room = Arc::new(Semaphore::new(MAX_CALL_BYTES / UNIT_BYTES));
        Self { tokens: Mutex::default(), all: CancelToken::new(), room }
    }
}

impl Calls {
    /// Waits until `MAX_CALL_BYTES` leaves room for a call.
    async fn room(&self, header: &Header) -> io::Result<OwnedSemaphorePermit> {
        // The sum of both parts fits into 32 bits.
        let bytes = header.json.min(MAX_PART_BYTES) + header.bytes.min(MAX_PART_BYTES);
        let units = bytes / u32::try_from(UNIT_BYTES).unwrap_or(u32::MAX) + 1;
        Arc::clone(&self.0.room).acquire_many_owned(units).await.map_err(io::Error::other)
    }

    fn begin(&self, number: u64) -> io::Result<CancelToken> {
        let mut tokens = self.0.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if tokens.len() >= MAX_CALLS {
            return Err(io::Error::other(format!("more than {MAX_CALLS} calls are in progress")));
        }
        let token = self.0.all.child();
        tokens.insert(number, token.clone());
        Ok(token)
    }

    fn cancel(&self, number: u64) {
        let token = self.0.tokens.lock().unwrap_or_else(PoisonError::into_inner).get(&number).cloned();
        if let Some(token) = token {
            token.cancel();
        }
    }

    fn end(&self, number: u64) {
        self.0.tokens.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }
}

struct Header {
    kind: u8,
    number: u64,
    json: u32,
    bytes: u32,
}

async fn read_header(read: &mut (impl AsyncRead + Unpin)) -> io::Result<Header> {
    Ok(Header {
        kind: read.read_u8().await?,
        number: read.read_u64_le().await?,
        json: read.read_u32_le().await?,
        bytes: read.read_u32_le().await?,
    })
}

async fn read_message(read: &mut (impl AsyncRead + Unpin), header: &Header) -> io::Result<Message> {
    let (json, bytes) = (read_part(read, header.json).await?, read_part(read, header.bytes).await?);
    Ok(Message { json, bytes, room: None })
}

/// Reads a message without keeping it.
async fn skip_message(read: &mut (impl AsyncRead + Unpin), header: &Header) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Replies with twice the number. Replies to 0 only after its cancellation.
    struct Double;

    impl Answering for Double {
        fn answer(self: Arc<Self>, call: Message, cancel: CancelToken, reply: Reply) {
            tokio::spawn(async move {
                let number: u64 = serde_json::from_slice(&call.json).unwrap();
                if number == 0 {
                    glovebox_requests::cancelled(&cancel).await;
                }
                reply.send(Message::new(&Ok::<_, RelayedError>(number * 2), call.bytes));
            });
        }
    }

    fn pair() -> (Peer, Peer) {
        let (one, two) = UnixStream::pair().unwrap();
        (Peer::start(one, Arc::new(Double)), Peer::start(two, Arc::new(Double)))
    }

    #[tokio::test]
    async fn both_sides_call_each_other() {
        let (one, two) = pair();
        let long = vec![7; 3 << 20];
        let (here, there) =
            tokio::join!(one.call::<u64>(&3_u64, long.clone()), two.call::<u64>(&4_u64, b"bytes".to_vec()));
        assert_eq!(here.unwrap(), (6, long));
        assert_eq!(there.unwrap(), (8, b"bytes".to_vec()));
        assert_eq!((one.in_progress(), two.in_progress()), (0, 0));
    }

    /// A discarded reply leaves the connection in order.
    #[tokio::test]
    async fn replies_beyond_the_budget_are_discarded() {
        let (one, _two) = pair();
        let bytes = ByteBudget::new(64 << 10, Duration::ZERO, []);
        let budget = ReplyBudget { bytes: bytes.clone(), tenant: "a".to_owned() };
        let call = |bytes: usize| one.call_within::<u64>(&3_u64, vec![7; bytes], Some(budget.clone()));
        // The JSON of the reply, `{"Ok":6}`, counts twice.
        let most = (64 << 10) - 16;
        let short = SHORT_REPLY_BYTES - 16;
        for (len, is_reserved) in [(0, false), (short, false), (short + 1, true), (most - 1, true), (most, true)] {
            let (value, read, room) = call(len).await.unwrap();
            assert_eq!((value, read.len(), room.is_some()), (6, len, is_reserved));
        }
        for _ in 0..2 {
            assert!(matches!(call(most + 1).await, Err(ServiceError::NoRoom)));
            assert!(matches!(call(3 << 20).await, Err(ServiceError::NoRoom)));
        }
        let held = call(most).await.unwrap();
        assert!(matches!(call(32 << 10).await, Err(ServiceError::NoRoom)), "the first reply still exists");
        for len in [0, 8 << 10] {
            assert_eq!(call(len).await.unwrap().0, 6, "short replies make progress");
        }
        drop(held);
        assert_eq!(bytes.free_bytes(None), 64 << 10);
        assert_eq!(call(most).await.unwrap().0, 6);
        // A call without a budget accepts any reply.
        assert_eq!(one.call::<u64>(&3_u64, vec![7; most + 1]).await.unwrap().1.len(), most + 1);
        assert_eq!(one.in_progress(), 0);
    }

    /// Replies with 3 MiB that are charged to a budget.
    struct Charged(ByteBudget);

    impl Answering for Charged {
        fn answer(self: Arc<Self>, _: Message, _: CancelToken, reply: Reply) {
            let held = self.0.try_room(None, 3 << 20).unwrap();
            reply.send(Message::new(&Ok::<_, RelayedError>(()), vec![7; 3 << 20]).holding(held));
        }
    }

    #[tokio::test]
    async fn a_reply_is_charged_until_it_is_sent() {
        let budget = ByteBudget::new(4 << 20, Duration::ZERO, []);
        let (one, mut raw) = UnixStream::pair().unwrap();
        let _peer = Peer::start(one, Arc::new(Charged(budget.clone())));
        let call = [&[CALL][..], &[0; 8], &1_u32.to_le_bytes(), &0_u32.to_le_bytes(), b"1"].concat();
        tokio::io::AsyncWriteExt::write_all(&mut raw, &call).await.unwrap();
        let header = read_header(&mut raw).await.unwrap();
        assert_eq!(budget.free_bytes(None), 1 << 20, "the reply does not fit into the socket's buffer");
        assert_eq!(read_message(&mut raw, &header).await.unwrap().bytes.len(), 3 << 20);
        assert_eq!(budget.free_bytes(None), 4 << 20);
    }

    #[tokio::test]
    async fn a_cancelled_call_returns_its_reply() {
        let (one, _two) = pair();
        let cancel = CancelToken::new();
        let other = cancel.clone();
        let call = one.call_until::<u64>(&0_u64, Vec::new(), &cancel);
        let (reply, ()) = tokio::join!(call, async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            other.cancel();
        });
        assert_eq!(reply.unwrap().0, 0);
    }

    #[tokio::test]
    async fn calls_fail_when_the_other_side_is_gone() {
        let (one, two) = pair();
        let call = one.call::<u64>(&0_u64, Vec::new());
        let (reply, ()) = tokio::join!(call, async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            two.close();
        });
        assert!(matches!(reply, Err(ServiceError::WorkerDied)));
        one.wait_gone().await;
        assert!(one.is_gone());
        assert!(matches!(one.call::<u64>(&1_u64, Vec::new()).await, Err(ServiceError::NoWorker)));
    }

    #[tokio::test]
    async fn refuses_malformed_frames() {
        for (header, is_allowed) in [
            ([&[CALL][..], &[0; 8], &1_u32.to_le_bytes(), &0_u32.to_le_bytes(), b"1"].concat(), true),
            ([&[9][..], &[0; 8], &1_u32.to_le_bytes(), &0_u32.to_le_bytes(), b"1"].concat(), false),
            ([&[CALL][..], &[0; 8], &(MAX_PART_BYTES + 1).to_le_bytes(), &0_u32.to_le_bytes()].concat(), false),
            ([&[CALL][..], &[0; 8], &0_u32.to_le_bytes(), &u32::MAX.to_le_bytes()].concat(), false),
            ([&[CALL][..], &[0; 8], &(MAX_CALL_JSON_BYTES + 1).to_le_bytes(), &0_u32.to_le_bytes()].concat(), false),
        ] {
            let (one, mut raw) = UnixStream::pair().unwrap();
            let peer = Peer::start(one, Arc::new(Double));
            tokio::io::AsyncWriteExt::write_all(&mut raw, &header).await.unwrap();
            match is_allowed {
                true => drop(read_header(&mut raw).await.unwrap()),
                false => peer.wait_gone().await,
            }
            assert_eq!(peer.is_gone(), !is_allowed);
        }
    }
}
