//! Concurrent futures, and streams of bytes.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::Poll,
};

use super::{StreamReader, StreamWriter, bindings::wit_stream};

/// Number of bytes per write to a stream.
const CHUNK_BYTES: usize = 1 << 20;

/// Creates a stream of bytes. Drop the writer to end the stream.
#[must_use]
pub fn stream() -> (StreamWriter<u8>, StreamReader<u8>) {
    wit_stream::new()
}

/// Invokes `call` with a stream, and writes `bytes` to the stream while the call runs.
pub(super) async fn send<F: Future>(bytes: Vec<u8>, call: impl FnOnce(StreamReader<u8>) -> F) -> F::Output {
    let (mut writer, reader) = stream();
    let write = async move {
        for chunk in bytes.chunks(CHUNK_BYTES) {
            // Stop if the provider refuses more bytes. The call then returns the reason.
            if !writer.write_all(chunk.to_vec()).await.is_empty() {
                break;
            }
        }
        drop(writer);
    };
    let (mut call, mut write) = (pin!(call(reader)), pin!(write));
    let (mut result, mut is_written) = (None, false);
    poll_fn(|context| {
        if result.is_none()
            && let Poll::Ready(value) = call.as_mut().poll(context)
        {
            result = Some(value);
        }
        is_written = is_written || write.as_mut().poll(context).is_ready();
        if !is_written {
            return Poll::Pending;
        }
        result.take().map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

/// Waits for all futures, and returns their results in order.
///
/// Polls all futures whenever one of them is woken, which is cheap for a few hundred calls.
pub async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut waiting: Vec<Option<Pin<Box<F>>>> = futures.into_iter().map(|future| Some(Box::pin(future))).collect();
    let mut results: Vec<Option<F::Output>> = waiting.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, result) in waiting.iter_mut().zip(&mut results) {
            let Some(running) = future else { continue };
            if let Poll::Ready(value) = running.as_mut().poll(context) {
                (*result, *future) = (Some(value), None);
            }
        }
        if waiting.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    results.into_iter().flatten().collect()
}
