//! The streams of a started execution. The host produces their contents when the component reads, so an unread stream
//! holds no memory. Output is copied directly to the component's memory. Events are buffered in the host until the
//! component's task receives them. The buffers are charged, because reads can be pending on many streams at the same
//! time. The event of a display is only its index, so that the buffers stay small.

use std::{
    collections::BTreeSet,
    pin::Pin,
    task::{Context, Poll},
};

use glovebox::{Stream, ToolRequest};
use wasmtime::{
    AsContextMut as _, StoreContextMut,
    component::{Destination, StreamProducer, StreamResult, VecBuffer},
};

use super::{
    observers::Observer,
    started::ConcurrentExecution,
    wit::{self, Event},
};
use crate::quotas::QuotaShare;

/// Maximum number of bytes per read or write of a byte stream.
pub(super) const MAX_CHUNK_BYTES: usize = 1 << 20;

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
                let mut direct = destination.as_direct(store, bytes.len());
                let count = direct.remaining().len().min(bytes.len());
                if let (Some(to), Some(from)) = (direct.remaining().get_mut(..count), bytes.get(..count)) {
                    to.copy_from_slice(from);
                }
                direct.mark_written(count);
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
