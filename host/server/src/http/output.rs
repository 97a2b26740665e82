//! Streamed responses: server-sent events, or JSON lines.

use std::{
    convert::Infallible,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use axum::{
    Extension,
    body::{Body, Bytes},
    http::{HeaderMap, HeaderName, header},
    response::{IntoResponse as _, Response},
};
use glovebox::Stream;
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::{
    BodyBudget, Problem, Shared,
    budget::{AlreadyCharged, ChargedBytes, ReservedResponse, charged_bytes, in_pieces},
};
use crate::{OnOutput, ServiceError, Tenant, byte_budget::Room, text::Utf8Pieces};

/// Maximum number of queued chunks per client. A guest that writes output waits while the queue is full.
const PIECES: usize = 64;
/// Maximum number of output bytes in a chunk. Their JSON is at most six times as long.
pub(super) const OUTPUT_BYTES: usize = 16 << 10;
/// Maximum total time that a guest waits for its client. Afterwards, streaming stops at the first chunk that would have
/// to wait. A slow client must not occupy a permit for which other executions wait.
const MAX_STREAM_WAIT: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseForm {
    /// A single JSON object after the execution.
    Whole,
    /// Server-sent events: `text/event-stream`.
    Events,
    /// JSON lines: `application/x-ndjson`.
    Lines,
}

impl ResponseForm {
    /// Returns the format for the first supported media type in `Accept`. Default: [`Whole`](Self::Whole).
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let types = accepts.split(',').map(|part| part.split(';').next().unwrap_or_default().trim());
        for name in types {
            match name.to_ascii_lowercase().as_str() {
                "text/event-stream" => return Self::Events,
                "application/x-ndjson" | "application/jsonl" => return Self::Lines,
                "application/json" | "*/*" => return Self::Whole,
                _ => {}
            }
        }
        Self::Whole
    }

    /// Returns the text that precedes and follows a chunk's JSON.
    pub(super) fn frame(self, name: &str) -> [String; 2] {
        match self {
            Self::Whole => [String::new(), String::new()],
            Self::Events => [format!("event: {name}\ndata: "), "\n\n".to_owned()],
            Self::Lines => [String::new(), "\n".to_owned()],
        }
    }

    /// Frames a chunk's JSON object, which already contains a `type`.
    pub(super) fn frame_chunk(self, name: &str, json: &[u8]) -> Bytes {
        let [before, after] = self.frame(name);
        [before.as_bytes(), json, after.as_bytes()].concat().into()
    }
}

/// The format of a response, and the budget to which it is charged.
#[derive(Clone)]
pub(crate) struct Responder {
    pub(super) form: ResponseForm,
    pub(super) bodies: BodyBudget,
    pub(super) tenant: Arc<str>,
}

impl Responder {
    pub(super) fn new(shared: &Shared, tenant: &Tenant, form: ResponseForm) -> Self {
        Self { form, bodies: shared.bodies.clone(), tenant: tenant.name().into() }
    }

    /// Reserves memory for a response, or its last chunk, without waiting.
    pub(super) fn reserve(&self, bytes: usize) -> Result<Room, ServiceError> {
        self.bodies.reserve(&self.tenant, bytes)
    }
}

/// The sender of the chunks of a streamed response.
#[derive(Clone)]
pub(crate) struct Pieces {
    pub(super) responder: Responder,
    sender: mpsc::Sender<Bytes>,
    /// The amount of streamed output when streaming stopped. Not set while output is streamed.
    stopped: Arc<OnceLock<StreamedBytes>>,
}

/// The amount of output that was streamed as text, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StreamedBytes {
    pub(super) stdout: usize,
    pub(super) stderr: usize,
}

impl Pieces {
    /// Spawns `work` and responds with the chunks that it sends. Dropping the response aborts the task.
    pub(crate) fn answer<F: Future<Output = ()> + Send + 'static>(
        responder: Responder,
        work: impl FnOnce(Self) -> F,
    ) -> Response {
        let (sender, receiver) = mpsc::channel(PIECES);
        let form = responder.form;
        let pieces = Self { responder, sender, stopped: Arc::default() };
        let task = AbortOnDropHandle::new(tokio::spawn(work(pieces).in_current_span()));
        let stream = ReceiverStream::new(receiver).map(move |piece| {
            let _ = &task;
            Ok::<_, Infallible>(piece)
        });
        let headers = [
            (
                header::CONTENT_TYPE,
                if form == ResponseForm::Events { "text/event-stream" } else { "application/x-ndjson" },
            ),
            (header::CACHE_CONTROL, "no-store"),
            // nginx would otherwise buffer the response.
            (HeaderName::from_static("x-accel-buffering"), "no"),
        ];
        (Extension(AlreadyCharged), headers, Body::from_stream(stream)).into_response()
    }

    /// Sends the first chunk, with the ID that the client needs to cancel the execution. The chunk is short, so it is
    /// not charged.
    pub(super) async fn started(&self, execution: &str) {
        let json = json!({ "type": "started", "execution": execution }).to_string();
        // If the client has disconnected, the response is dropped, which cancels the execution.
        let _ = self.sender.send(self.responder.form.frame_chunk("started", json.as_bytes())).await;
    }

    /// Returns the amount of streamed output, if streaming stopped because the client read too slowly.
    pub(super) fn stopped_at(&self) -> Option<StreamedBytes> {
        self.stopped.get().copied()
    }

    /// Returns a callback that streams output. The guest waits while the client does not read, up to `MAX_STREAM_WAIT`
    /// in total. At the first lost chunk, streaming stops, because later chunks would follow a gap.
    pub(crate) fn on_output(&self) -> OnOutput {
        self.on_output_with(|name, text| json!({ "type": name, "text": text }))
    }

    /// Like [`on_output`](Self::on_output), but for chunks in a different form. `piece` builds a chunk from the name of
    /// the output stream and the text.
    pub(crate) fn on_output_with(&self, piece: impl Fn(&str, &str) -> Value + Send + 'static) -> OnOutput {
        let pieces = self.clone();
        let (mut stdout, mut stderr) = (Utf8Pieces::default(), Utf8Pieces::default());
        let (clock, mut remaining_wait) = (tokio::runtime::Handle::current(), MAX_STREAM_WAIT);
        let mut streamed = StreamedBytes::default();
        Box::new(move |stream, bytes| {
            if pieces.stopped_at().is_some() {
                return;
            }
            // An empty write is also sent as a chunk.
            let parts = bytes.chunks(OUTPUT_BYTES).chain(bytes.is_empty().then_some(bytes));
            for part in parts {
                let (name, decoder, sent) = match stream {
                    Stream::Stdout => ("stdout", &mut stdout, &mut streamed.stdout),
                    Stream::Stderr => ("stderr", &mut stderr, &mut streamed.stderr),
                };
                let pending = decoder.pending();
                let text = decoder.next(part);
                let piece = pieces.responder.form.frame_chunk(name, piece(name, &text).to_string().as_bytes());
                // If the client disconnects, the response is dropped, which cancels the execution.
                if let Err(piece) = pieces.try_send(piece) {
                    let begun = Instant::now();
                    let in_time = clock.block_on(tokio::time::timeout(remaining_wait, pieces.send(piece)));
                    remaining_wait = remaining_wait.saturating_sub(begun.elapsed());
                    if in_time != Ok(true) {
                        let _ = pieces.stopped.set(streamed);
                        return;
                    }
                }
                *sent += pending + part.len() - decoder.pending();
            }
        })
    }

    /// Sends a chunk if the memory budget and the queue have room. Otherwise returns the chunk.
    fn try_send(&self, piece: Bytes) -> Result<(), Bytes> {
        let Responder { bodies, tenant, .. } = &self.responder;
        let Ok(held) = bodies.bytes().try_room(Some(tenant), piece.len()) else { return Err(piece) };
        match self.sender.try_reserve() {
            Ok(place) => {
                place.send(charged_bytes(piece, &Arc::new(held)));
                Ok(())
            }
            Err(TrySendError::Full(())) => Err(piece),
            Err(TrySendError::Closed(())) => Ok(()),
        }
    }

    /// Sends a chunk, waiting for the memory budget and the client. Returns `false` if the chunk is lost.
    async fn send(&self, piece: Bytes) -> bool {
        let Responder { bodies, tenant, .. } = &self.responder;
        let mut held = ChargedBytes::default();
        bodies.bytes().grow(Some(tenant), &mut held, piece.len()).await.is_ok()
            && self.sender.send(charged_bytes(piece, &Arc::new(held))).await.is_ok()
    }

    /// Sends the last chunk.
    pub(crate) async fn end(&self, end: Result<ReservedResponse, ServiceError>) {
        let Responder { form, bodies, tenant } = &self.responder;
        let settled = match end {
            Ok(ReservedResponse { bytes, room }) => {
                bodies.settle(tenant, room, bytes.len()).await.map(|held| (held, bytes))
            }
            Err(failure) => Err(failure.into()),
        };
        // An error is short, so it is not charged.
        let (held, piece) = settled.unwrap_or_else(|problem: Problem| {
            let json = json!({ "type": "error", "problem": problem }).to_string();
            (ChargedBytes::default(), form.frame_chunk("error", json.as_bytes()))
        });
        let held = Arc::new(held);
        for part in in_pieces(piece) {
            if self.sender.send(charged_bytes(part, &held)).await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;
    use crate::http::HttpConfig;

    #[test]
    fn first_accepted_media_type_selects_the_form() {
        let form = |accept: &str| {
            ResponseForm::of(&HeaderMap::from_iter([(header::ACCEPT, accept.parse::<HeaderValue>().unwrap())]))
        };
        assert_eq!(ResponseForm::of(&HeaderMap::new()), ResponseForm::Whole);
        assert_eq!(form("text/event-stream"), ResponseForm::Events);
        assert_eq!(form("text/html, application/x-ndjson;q=0.9, */*"), ResponseForm::Lines);
        assert_eq!(form("*/*"), ResponseForm::Whole);
        assert_eq!(form("application/json, text/event-stream"), ResponseForm::Whole);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn streaming_stops_at_the_first_lost_chunk() {
        let bodies = BodyBudget::new(&HttpConfig::default(), 64 << 20, ["a"].into_iter());
        let (sender, mut receiver) = mpsc::channel(PIECES);
        let responder = Responder { form: ResponseForm::Lines, bodies, tenant: "a".into() };
        let pieces = Pieces { responder, sender, stopped: Arc::default() };
        let mut on_output = pieces.on_output();
        let writing = tokio::task::spawn_blocking(move || {
            for _ in 0..=PIECES {
                on_output(Stream::Stdout, "é".as_bytes());
            }
            on_output
        });
        let mut on_output = writing.await.unwrap();
        let mut chunks = 0;
        while receiver.try_recv().is_ok() {
            chunks += 1;
        }
        on_output(Stream::Stdout, b"x");
        assert!(receiver.try_recv().is_err(), "a chunk after a lost chunk would leave a gap");
        let expected = StreamedBytes { stdout: 2 * PIECES, stderr: 0 };
        assert_eq!((chunks, pieces.stopped_at()), (PIECES, Some(expected)));
    }
}
