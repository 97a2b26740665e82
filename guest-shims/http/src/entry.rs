//! The component's `wasi:http/incoming-handler` export.

use std::sync::OnceLock;

use crate::{
    bindings::{
        exports::wasi::http::incoming_handler::{Guest, IncomingRequest, ResponseOutparam},
        wasi::{
            cli::environment::get_environment,
            http::types::{ErrorCode, Fields, IncomingBody, Method, OutgoingBody, OutgoingResponse},
            io::streams::{OutputStream, StreamError},
        },
    },
    http::{Answer, Problem, Request},
    policy::{self, Settings},
    router,
};

/// The number of bytes in one read of a body.
const READ_BYTES: u64 = 64 << 10;

/// The component's implementation.
#[derive(Debug)]
pub struct Adapter;

impl Guest for Adapter {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        let answer = router::answer(settings(), &head(&request), &mut |max| read(&request, max));
        send(answer, out);
    }
}

/// Returns the settings, which are read once per instance.
fn settings() -> &'static Result<Settings, Problem> {
    static SETTINGS: OnceLock<Result<Settings, Problem>> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let provided = policy::from_provider(glovebox_guest::default_policy());
        Settings::read(&get_environment(), &provided)
    })
}

fn head(request: &IncomingRequest) -> Request {
    let method = match request.method() {
        Method::Get => "GET".into(),
        Method::Head => "HEAD".into(),
        Method::Post => "POST".into(),
        Method::Put => "PUT".into(),
        Method::Delete => "DELETE".into(),
        Method::Connect => "CONNECT".into(),
        Method::Options => "OPTIONS".into(),
        Method::Trace => "TRACE".into(),
        Method::Patch => "PATCH".into(),
        Method::Other(name) => name,
    };
    let target = request.path_with_query().unwrap_or_default();
    let path = target.split('?').next().unwrap_or_default().to_owned();
    let headers = request.headers().entries();
    let headers = headers.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
    Request { method, path, authority: request.authority(), headers }
}

/// Reads a request's body. Fails if the body exceeds `max` bytes, and buffers at most `max` bytes.
fn read(request: &IncomingRequest, max: usize) -> Result<Vec<u8>, Problem> {
    let broken = |()| Problem::invalid("cannot read the request body");
    let body = request.consume().map_err(broken)?;
    let mut bytes = Vec::new();
    let stream = body.stream().map_err(broken)?;
    loop {
        match stream.blocking_read(READ_BYTES) {
            Ok(piece) if bytes.len() + piece.len() > max => return Err(router::body_too_large(max)),
            Ok(piece) => bytes.extend_from_slice(&piece),
            Err(StreamError::Closed) => break,
            Err(StreamError::LastOperationFailed(_)) => return Err(broken(())),
        }
    }
    drop(stream);
    drop(IncomingBody::finish(body));
    Ok(bytes)
}

/// Sends a response, unless the client has disconnected.
fn send(answer: Answer, out: ResponseOutparam) {
    let Some((response, body)) = prepared(&answer) else {
        let error = ErrorCode::InternalError(Some("cannot write the response".into()));
        return ResponseOutparam::set(out, Err(error));
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
    let fields = Fields::new();
    let length = answer.body.len().to_string();
    // Browsers must never interpret text from a guest as a page of this server.
    let fixed =
        [("content-type", answer.content_type), ("content-length", &length), ("x-content-type-options", "nosniff")];
    for (name, value) in fixed.iter().chain(&answer.headers) {
        fields.set(name, &[value.as_bytes().to_vec()]).ok()?;
    }
    let response = OutgoingResponse::new(fields);
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
