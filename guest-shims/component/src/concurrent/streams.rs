//! The streams that the provider returns and reads.

use std::rc::Rc;

use glovebox_core::contract::part;
use glovebox_wasi::Stream;
use wit_bindgen::{StreamReader, StreamResult, StreamWriter};

use crate::{
    Blob, Files, Live,
    bindings::{exports::glovebox::sandbox0_3_0::sandbox::Event, types::SandboxError, wit_stream},
};

/// The maximum size of one write to a stream, in bytes.
const CHUNK_BYTES: u64 = 64 << 10;

/// The maximum number of open streams of one execution. Each of them is polled when one can continue.
const MAX_STREAMS: usize = 256;

/// Opens a stream of an execution's output.
pub(super) fn output(live: &Rc<Live>, stream: Stream) -> Result<StreamReader<u8>, SandboxError> {
    check_count(live)?;
    let (mut writer, reader) = wit_stream::new();
    let observed = Rc::clone(live);
    live.spawn(Box::pin(async move {
        let mut offset = 0;
        loop {
            let next = || {
                let chunk = observed.with_output(stream, |bytes| part(bytes, offset, CHUNK_BYTES).to_vec());
                (!chunk.is_empty() || observed.has_ended()).then_some(chunk)
            };
            let chunk = observed.changed(next).await;
            offset = offset.saturating_add(chunk.len() as u64);
            if chunk.is_empty() || !writer.write_all(chunk).await.is_empty() {
                return;
            }
        }
    }));
    Ok(reader)
}

/// Opens a stream of an execution's events. All of them are displays, because the caller has no tools.
pub(super) fn events(live: &Rc<Live>) -> Result<StreamReader<Event>, SandboxError> {
    check_count(live)?;
    let (mut writer, reader): (StreamWriter<Event>, _) = wit_stream::new();
    let observed = Rc::clone(live);
    live.spawn(Box::pin(async move {
        for index in 0_u32.. {
            let next = || {
                let exists = u32::try_from(observed.display_count()).unwrap_or(u32::MAX) > index;
                (exists || observed.has_ended()).then_some(exists)
            };
            if !observed.changed(next).await || writer.write_one(Event::Display(index)).await.is_some() {
                return;
            }
        }
    }));
    Ok(reader)
}

fn check_count(live: &Live) -> Result<(), SandboxError> {
    if live.task_count() < MAX_STREAMS {
        return Ok(());
    }
    let text = format!("the execution has {MAX_STREAMS} open streams, which is the maximum; drop some of them");
    Err(SandboxError::QuotaExceeded(text))
}

/// Opens a stream of these bytes. The calling task continues until the stream has been read or dropped.
pub(super) fn bytes(bytes: Vec<u8>) -> StreamReader<u8> {
    let (mut writer, reader) = wit_stream::new();
    wit_bindgen::spawn_local(async move { writer.write_all(bytes).await });
    reader
}

/// Opens a stream of a file. The calling task continues until the stream has been read or dropped.
pub(super) fn file(files: Files, path: String) -> Result<StreamReader<u8>, SandboxError> {
    let mut chunk = files.read(&path, 0, CHUNK_BYTES)?;
    let (mut writer, reader) = wit_stream::new();
    wit_bindgen::spawn_local(async move {
        let mut offset = 0;
        while !chunk.is_empty() {
            offset += chunk.len() as u64;
            if !writer.write_all(chunk).await.is_empty() {
                return;
            }
            // Reading part of a file has succeeded before, and a snapshot never changes.
            chunk = files.read(&path, offset, CHUNK_BYTES).unwrap_or_default();
        }
    });
    Ok(reader)
}

/// Reads a stream to its end. Fails with `too_large` as soon as it exceeds `max_bytes`.
pub(super) async fn read_all(
    mut stream: StreamReader<u8>,
    max_bytes: u64,
    too_large: impl Fn() -> SandboxError,
) -> Result<Blob, SandboxError> {
    let mut blob = Blob::default();
    let mut buffer = Vec::with_capacity(usize::try_from(CHUNK_BYTES).unwrap_or(0));
    loop {
        let (result, read) = stream.read(buffer).await;
        if blob.as_slice().len() as u64 + read.len() as u64 > max_bytes || !blob.append(&read) {
            return Err(too_large());
        }
        if matches!(result, StreamResult::Dropped | StreamResult::Cancelled) {
            return Ok(blob);
        }
        buffer = read;
        buffer.clear();
    }
}
