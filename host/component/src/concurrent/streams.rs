//! The streams of components.
//!
//! The host produces the contents of an execution's streams when the component reads, so an unread stream holds no
//! memory. Output is copied directly to the component's memory. Events are buffered in the host until the component's
//! task receives them. The buffers are charged, because reads can be pending on many streams at the same time. The event
//! of a display is only its index, so that the buffers stay small.
//!
//! The host buffers files and saved sessions completely. It has all bytes of a stream before the component receives the
//! stream, so reading cannot fail halfway. It uses bytes from the component only after the component's stream has ended.
//! A component that stops halfway therefore changes nothing. In both directions, the host charges the bytes to the quota
//! while it holds them.

use std::{
    collections::BTreeSet,
    future::poll_fn,
    io::Write as _,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use glovebox::{Stream, ToolRequest};
use wasmtime::{
    AsContextMut as _, StoreContextMut,
    component::{
        Access, Destination, HasSelf, Source, StreamConsumer, StreamProducer, StreamReader, StreamResult, VecBuffer,
    },
};

use super::{
    live::Observer,
    started::ConcurrentExecution,
    wit::{self, Event},
};
use crate::{
    SandboxCtx,
    convert::SandboxFailure,
    quotas::{QuotaShare, QuotaUse},
    sandbox::Bytes,
    wit::types::SandboxError,
};

/// Maximum number of bytes per read or write of a byte stream.
const MAX_CHUNK_BYTES: usize = 1 << 20;

/// Maximum number of events per read.
const MAX_EVENTS: usize = 16;

/// A stream of an execution's output, starting at the first byte.
pub(super) struct Output {
    execution: ConcurrentExecution,
    stream: Stream,
    offset: u64,
    observer: Observer,
    _share: QuotaShare,
}

/// A stream of the displays, as indices, and of the calls to the component's tools.
pub(super) struct Events {
    execution: ConcurrentExecution,
    /// The number of displays that the component has read.
    displays_read: usize,
    /// The indices of the pending calls that the component has read.
    seen: BTreeSet<usize>,
    observer: Observer,
    /// The shares for the handle, and for calls that were read but not yet received by the component.
    _shares: [QuotaShare; 2],
}

impl Output {
    pub(super) fn new(execution: ConcurrentExecution, stream: Stream, share: QuotaShare) -> Self {
        let observer = execution.observer();
        Self { execution, stream, offset: 0, observer, _share: share }
    }
}

impl Events {
    pub(super) fn new(execution: ConcurrentExecution, shares: [QuotaShare; 2]) -> Self {
        let observer = execution.observer();
        Self { execution, displays_read: 0, seen: BTreeSet::new(), observer, _shares: shares }
    }
}

/// Returns the result of a read when no output and no event is available.
fn nothing(has_ended: bool, is_cancelled: bool) -> Poll<wasmtime::Result<StreamResult>> {
    if has_ended {
        Poll::Ready(Ok(StreamResult::Dropped))
    } else if is_cancelled {
        Poll::Ready(Ok(StreamResult::Cancelled))
    } else {
        Poll::Pending
    }
}

impl<D: 'static> StreamProducer<D> for Output {
    type Item = u8;
    type Buffer = VecBuffer<u8>;

    fn poll_produce<'a>(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut store: StoreContextMut<'a, D>,
        mut destination: Destination<'a, u8, Self::Buffer>,
        is_cancelled: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        self.observer.observe(context);
        // Frees the buffer that a host function has already read.
        drop(destination.take_buffer());
        let started = self.execution.started();
        // Checks for the end before reading. If the check came later, output from between the two steps could be
        // missed.
        let has_ended = started.has_ended();
        let room_of_component = destination.remaining(store.as_context_mut());
        let room = room_of_component.unwrap_or(MAX_CHUNK_BYTES).min(MAX_CHUNK_BYTES);
        // A read of zero bytes waits for the next byte.
        let bytes = started.read_output(self.stream, self.offset, room.max(1) as u64);
        if bytes.is_empty() {
            return nothing(has_ended, is_cancelled);
        }
        match room_of_component {
            Some(0) => {}
            Some(_) => {
                let count = destination.as_direct(store, bytes.len()).write(&bytes)?;
                self.offset = self.offset.saturating_add(count as u64);
            }
            // A host function, such as `session.write-file`, reads the stream through a buffer. Each read gets a new
            // buffer: Wasmtime would keep the buffer of a direct read while the stream waits for more output.
            None => {
                self.offset = self.offset.saturating_add(bytes.len() as u64);
                destination.set_buffer(bytes.into());
            }
        }
        Poll::Ready(Ok(StreamResult::Completed))
    }
}

impl<D: 'static> StreamProducer<D> for Events {
    type Item = Event;
    type Buffer = VecBuffer<Event>;

    fn poll_produce<'a>(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut store: StoreContextMut<'a, D>,
        mut destination: Destination<'a, Event, Self::Buffer>,
        is_cancelled: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        self.observer.observe(context);
        let Self { execution, displays_read, seen, .. } = &mut *self;
        // Checks for the end before counting. If the check came later, a display from between the two steps could be
        // missed.
        let has_ended = execution.started().has_ended();
        let room = destination.remaining(store.as_context_mut()).unwrap_or(MAX_EVENTS).min(MAX_EVENTS);
        let mut seen_after = seen.clone();
        let calls = if has_ended || *displays_read < execution.display_count() {
            None
        } else {
            execution.started().pending().new_calls(&mut seen_after, room, execution.tool_bytes())
        };
        // Counts again: a call must not precede a display that the script has shown before the call.
        let count = execution.display_count();
        let events: Vec<_> = if *displays_read < count {
            let displays = *displays_read..count.min(displays_read.saturating_add(room));
            *displays_read = displays.end;
            displays.filter_map(|index| u32::try_from(index).ok().map(Event::Display)).collect()
        } else if let Some(calls) = calls {
            *seen = seen_after;
            calls.into_iter().map(Event::from).collect()
        } else {
            return nothing(has_ended, is_cancelled);
        };
        destination.set_buffer(events.into());
        Poll::Ready(Ok(StreamResult::Completed))
    }
}

impl From<ToolRequest> for Event {
    fn from(ToolRequest { id, name, arguments, .. }: ToolRequest) -> Self {
        Self::ToolRequest(wit::ToolRequest { id, name, arguments })
    }
}

/// A stream that the component reads. Its bytes are freed after the last byte has been read.
pub(super) struct BytesStream {
    bytes: Option<Bytes>,
    offset: usize,
    _handle: QuotaShare,
}

impl BytesStream {
    pub(super) fn new(bytes: Bytes, handle: QuotaShare) -> Self {
        Self { bytes: Some(bytes), offset: 0, _handle: handle }
    }
}

impl<D: 'static> StreamProducer<D> for BytesStream {
    type Item = u8;
    type Buffer = VecBuffer<u8>;

    fn poll_produce<'a>(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut store: StoreContextMut<'a, D>,
        destination: Destination<'a, u8, Self::Buffer>,
        _: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        let Self { bytes, offset, .. } = &mut *self;
        let rest = bytes.as_ref().and_then(|bytes| bytes.as_slice().get(*offset..)).unwrap_or_default();
        let room = destination.remaining(store.as_context_mut()).unwrap_or(MAX_CHUNK_BYTES).min(MAX_CHUNK_BYTES);
        let chunk = rest.get(..room).unwrap_or(rest);
        if !chunk.is_empty() {
            let count = destination.as_direct(store, chunk.len()).write(chunk)?;
            *offset = offset.saturating_add(count);
        }
        let has_ended = bytes.as_ref().is_none_or(|bytes| *offset >= bytes.as_slice().len());
        if !has_ended {
            return Poll::Ready(Ok(StreamResult::Completed));
        }
        *bytes = None;
        Poll::Ready(Ok(StreamResult::Dropped))
    }
}

/// Maximum size of a stream that the component writes, and the error for a larger stream.
pub(super) struct SizeLimit {
    pub(super) bytes: u64,
    pub(super) error: SandboxError,
}

/// The bytes of a stream that the component writes. Dropping the value discards the bytes, and ends the stream at the
/// next write.
pub(super) struct UploadStream(Arc<UploadState>);

struct UploadState(Mutex<UploadBuffer>);

struct UploadBuffer {
    /// `None` after an error, and after the call has taken the bytes or was dropped.
    bytes: Option<Bytes>,
    /// `None` if only the quota limits the size.
    limit: Option<SizeLimit>,
    /// The end of the stream, or the error at which the host has stopped reading.
    end: Option<Result<(), SandboxError>>,
    waker: Option<Waker>,
}

/// The host's reader of the stream. The store owns it until the component drops the writable end.
struct Reader {
    state: Arc<UploadState>,
    _handle: QuotaShare,
}

impl UploadStream {
    /// Starts to read a stream if `begin` admits the call. Closes the stream if `begin` fails.
    pub(super) fn begin<T: 'static, R>(
        mut access: Access<'_, T, HasSelf<SandboxCtx>>,
        mut stream: StreamReader<u8>,
        begin: impl FnOnce(&mut SandboxCtx) -> Result<(R, Option<SizeLimit>), SandboxFailure>,
    ) -> Result<(R, Self), SandboxFailure> {
        let begun = begin(access.get()).and_then(|(begun, limit)| {
            let meter = &access.get().caller.meter;
            Ok((begun, limit, Bytes::new(meter)?, meter.take(QuotaUse::Handle)?))
        });
        let (begun, limit, bytes, handle) = match begun {
            Ok(begun) => begun,
            Err(failure) => {
                stream.close(access)?;
                return Err(failure);
            }
        };
        let received = UploadBuffer { bytes: Some(bytes), limit, end: None, waker: None };
        let state = Arc::new(UploadState(Mutex::new(received)));
        stream.pipe(access, Reader { state: Arc::clone(&state), _handle: handle })?;
        Ok((begun, Self(state)))
    }

    /// Waits for the end of the stream and returns its bytes.
    pub(super) async fn all(self) -> Result<Bytes, SandboxFailure> {
        let end = poll_fn(|context| {
            let mut received = self.0.received();
            received.waker = Some(context.waker().clone());
            received.end.take().map_or(Poll::Pending, Poll::Ready)
        });
        end.await?;
        let bytes = self.0.received().bytes.take();
        bytes.ok_or_else(|| SandboxError::Unavailable("the stream was dropped".into()).into())
    }
}

impl Drop for UploadStream {
    fn drop(&mut self) {
        let bytes = self.0.received().bytes.take();
        drop(bytes);
    }
}

impl UploadState {
    fn received(&self) -> MutexGuard<'_, UploadBuffer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends bytes. Returns `false` if the host has stopped reading.
    fn append(&self, more: &[u8]) -> bool {
        let mut received = self.received();
        let UploadBuffer { bytes: Some(bytes), limit, .. } = &mut *received else { return false };
        let size = (bytes.as_slice().len() as u64).saturating_add(more.len() as u64);
        let refusal = match limit.take_if(|limit| size > limit.bytes) {
            Some(limit) => Some(limit.error),
            None => bytes.append(more).err().map(SandboxError::from),
        };
        let Some(refusal) = refusal else { return true };
        let refused = received.bytes.take();
        drop(received);
        drop(refused);
        self.end(Err(refusal));
        false
    }

    /// Reports the end of the stream, unless the host has already stopped reading.
    fn end(&self, end: Result<(), SandboxError>) {
        let mut received = self.received();
        received.end.get_or_insert(end);
        let waker = received.waker.take();
        drop(received);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.state.end(Ok(()));
    }
}

impl<D: 'static> StreamConsumer<D> for Reader {
    type Item = u8;

    fn poll_consume(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        store: StoreContextMut<'_, D>,
        source: Source<'_, u8>,
        _: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        let mut source = source.as_direct(store);
        let rest = source.remaining();
        let chunk = rest.get(..MAX_CHUNK_BYTES).unwrap_or(rest);
        let count = chunk.len();
        if !self.state.append(chunk) {
            return Poll::Ready(Ok(StreamResult::Dropped));
        }
        source.mark_read(count);
        Poll::Ready(Ok(StreamResult::Completed))
    }
}
