//! The component's export with WASI 0.2: `wasi:http/incoming-handler`.

use super::{Adapter, READ_BYTES, fields, head, settings, unreadable_body, unwritable_response};
use crate::{
    bindings::{
        exports::wasi::http::incoming_handler::{Guest, IncomingRequest, ResponseOutparam},
        wasi::{
            http::types::{IncomingBody, OutgoingBody, OutgoingResponse},
            io::streams::{OutputStream, StreamError},
        },
    },
    http::{Answer, Problem},
    router,
};

impl Guest for Adapter {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        let headers = request.headers().entries();
        let head = head(request.method(), request.path_with_query(), request.authority(), headers);
        let answer = match router::admit(settings(), &head) {
            Ok(admitted) => admitted.answer(read(&request, admitted.max_body_bytes())),
            Err(answer) => answer,
        };
        send(answer, out);
    }
}

/// Reads a request's body. Fails if the body exceeds `max` bytes, and buffers at most `max` bytes.
fn read(request: &IncomingRequest, max: usize) -> Result<Vec<u8>, Problem> {
    let body = request.consume().map_err(|()| unreadable_body())?;
    let mut bytes = Vec::new();
    let stream = body.stream().map_err(|()| unreadable_body())?;
    loop {
        match stream.blocking_read(READ_BYTES as u64) {
            Ok(piece) if bytes.len() + piece.len() > max => return Err(router::body_too_large(max)),
            Ok(piece) => bytes.extend_from_slice(&piece),
            Err(StreamError::Closed) => break,
            Err(StreamError::LastOperationFailed(_)) => return Err(unreadable_body()),
        }
    }
    drop(stream);
    drop(IncomingBody::finish(body));
    Ok(bytes)
}

/// Sends a response, unless the client has disconnected.
fn send(answer: Answer, out: ResponseOutparam) {
    let Some((response, body)) = prepared(&answer) else {
        return ResponseOutparam::set(out, Err(unwritable_response()));
    };
    ResponseOutparam::set(out, Ok(response));
    let Ok(stream) = body.write() else { return };
    let written = write(&stream, &answer.body);
    drop(stream);
    // An unfinished body tells the client that the response is incomplete.
    if written.is_ok() {
        let _ = OutgoingBody::finish(body, None);
    }
}

fn prepared(answer: &Answer) -> Option<(OutgoingResponse, OutgoingBody)> {
    let response = OutgoingResponse::new(fields(answer).ok()?);
    response.set_status_code(answer.status).ok()?;
    let body = response.body().ok()?;
    Some((response, body))
}

/// Writes bytes as fast as the client accepts them.
fn write(stream: &OutputStream, mut bytes: &[u8]) -> Result<(), StreamError> {
    while !bytes.is_empty() {
        let room = usize::try_from(stream.check_write()?).unwrap_or(usize::MAX);
        let (piece, rest) = bytes.split_at(room.min(bytes.len()));
        if piece.is_empty() {
            stream.subscribe().block();
            continue;
        }
        stream.write(piece)?;
        bytes = rest;
    }
    stream.blocking_flush()
}
