//! Streams that the host buffers completely: files and saved sessions.
//!
//! The host has all bytes of a stream before the component receives the stream, so reading cannot fail halfway. The
//! host uses bytes from the component only after the component's stream has ended. A component that stops halfway
//! therefore changes nothing. In both directions, the host charges the bytes to the quota while it holds them.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use wasmtime::{
    AsContextMut as _, StoreContextMut,
    component::{
        Access, Destination, HasSelf, Source, StreamConsumer, StreamProducer, StreamReader, StreamResult, VecBuffer,
    },
};

use super::streams::MAX_CHUNK_BYTES;
use crate::{
    SandboxCtx,
    convert::SandboxFailure,
    quotas::{QuotaShare, QuotaUse},
    sandbox::Bytes,
    wit::types::SandboxError,
};

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
            let mut direct = destination.as_direct(store, chunk.len());
            let count = direct.remaining().len().min(chunk.len());
            if let (Some(to), Some(from)) = (direct.remaining().get_mut(..count), chunk.get(..count)) {
                to.copy_from_slice(from);
            }
            direct.mark_written(count);
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
