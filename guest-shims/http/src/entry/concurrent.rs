//! The component's export with WASI 0.3: `wasi:http/handler`.
//!
//! A task waits without occupying the instance while it reads the request and sends the response. Between them, the
//! calls of the sandbox block the instance.

use wit_bindgen::{StreamResult, spawn_local};

use super::{Adapter, READ_BYTES, fields, head, settings, unreadable_body, unwritable_response};
use crate::{
    bindings::{
        exports::wasi::http::handler::{ErrorCode, Guest, Request, Response},
        wit_future, wit_stream,
    },
    http::{Answer, Problem},
    router,
};

impl Guest for Adapter {
    async fn handle(request: Request) -> Result<Response, ErrorCode> {
        let headers = request.get_headers().copy_all();
        let head = head(request.get_method(), request.get_path_with_query(), request.get_authority(), headers);
        let answer = match router::admit(settings(), &head) {
            Ok(admitted) => admitted.answer(read(request, admitted.max_body_bytes()).await),
            Err(answer) => answer,
        };
        respond(answer)
    }
}

/// Reads a request's body. Fails if the body exceeds `max` bytes.
async fn read(request: Request, max: usize) -> Result<Vec<u8>, Problem> {
    // The dropped writer reports success to the host.
    let (_, handled) = wit_future::new(|| Ok(()));
    let (mut stream, trailers) = Request::consume_body(request, handled);
    let mut bytes = Vec::new();
    loop {
        bytes.reserve(READ_BYTES);
        let result;
        (result, bytes) = stream.read(bytes).await;
        if bytes.len() > max {
            return Err(router::body_too_large(max));
        }
        if result == StreamResult::Dropped {
            break;
        }
    }
    drop(stream);
    // The stream also ends if the client disconnects.
    trailers.await.map_err(|_| unreadable_body())?;
    Ok(bytes)
}

/// Returns a response. A task sends its body, unless the client has disconnected.
fn respond(answer: Answer) -> Result<Response, ErrorCode> {
    let headers = fields(&answer).map_err(|_| unwritable_response())?;
    let (mut body, contents) = wit_stream::new();
    // Unless the task overwrites the error, it tells the client that the response is incomplete.
    let (end, trailers) = wit_future::new(|| Err(ErrorCode::HttpResponseIncomplete));
    let (response, _) = Response::new(headers, Some(contents), trailers);
    response.set_status_code(answer.status).map_err(|()| unwritable_response())?;
    spawn_local(async move {
        let unsent = body.write_all(answer.body).await;
        drop(body);
        if unsent.is_empty() {
            let _ = end.write(Ok(None)).await;
        }
    });
    Ok(response)
}
