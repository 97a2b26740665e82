//! Responses of workers.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderName, StatusCode, header, response::Parts},
    response::Response,
};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

use super::{
    BodyBudget, Problem,
    budget::Held,
    counted::Counted,
    output::{Form, error_piece},
};
use crate::ServiceError;

/// Response headers that clients receive. A worker cannot set any others.
const PASSED_ON: [HeaderName; 7] = [
    header::CACHE_CONTROL,
    header::CONTENT_TYPE,
    header::ETAG,
    header::RETRY_AFTER,
    header::X_CONTENT_TYPE_OPTIONS,
    HeaderName::from_static("x-accel-buffering"),
    header::ALLOW,
];
/// Maximum part of a response that is in memory at once, in bytes: the amount that a worker may send ahead.
const WINDOW_BYTES: u64 = 64 << 10;

/// The body of a worker's response.
pub(super) struct Forwarded {
    body: Incoming,
    /// Form of a streamed response. `None` for any other.
    form: Option<Form>,
    /// Set if the last byte was a line feed.
    ends_line: bool,
    is_broken: bool,
    _room: Held,
}

impl Forwarded {
    /// Turns a worker's response into one for the client. If the worker dies during a stream, the stream ends with an
    /// error piece in this form.
    pub(super) async fn answer(
        bodies: &BodyBudget,
        tenant: &str,
        response: hyper::Response<Incoming>,
        form: Option<Form>,
    ) -> Result<Response, Problem> {
        let (parts, body) = response.into_parts();
        if parts.status.is_informational() {
            // No forwarded request has such a response. It would hand the client's connection over to the worker.
            return Err(ServiceError::WorkerDied.into());
        }
        let held = body.size_hint().upper().unwrap_or(WINDOW_BYTES).min(WINDOW_BYTES);
        let room = bodies.room(tenant, usize::try_from(held).unwrap_or_default()).await?;
        let form = form.filter(|_| parts.status.is_success());
        let body = Self { body, form, ends_line: true, is_broken: false, _room: room };
        let mut response = Response::new(Body::new(body));
        (*response.status_mut(), *response.headers_mut()) = Self::head(&parts);
        response.extensions_mut().insert(Counted);
        Ok(response)
    }

    /// Returns the status and the headers for the client.
    pub(super) fn head(parts: &Parts) -> (StatusCode, HeaderMap) {
        let passed = PASSED_ON.into_iter().filter_map(|name| Some((name.clone(), parts.headers.get(&name)?.clone())));
        (parts.status, passed.collect())
    }
}

impl http_body::Body for Forwarded {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if self.is_broken {
            return Poll::Ready(None);
        }
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else { return Poll::Pending };
        match (frame, self.form) {
            (Some(Ok(frame)), _) => {
                if let Some(data) = frame.data_ref() {
                    self.ends_line = data.last().is_none_or(|byte| *byte == b'\n');
                }
                Poll::Ready(Some(Ok(frame)))
            }
            (Some(Err(_)), Some(form)) => {
                self.is_broken = true;
                let piece = error_piece(form, &Problem::from(ServiceError::WorkerDied));
                let piece = if self.ends_line { piece } else { [b"\n\n".as_slice(), &piece].concat().into() };
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            (other, _) => Poll::Ready(other),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_broken || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // A stream may have an error piece in addition.
        if self.form.is_some() { SizeHint::default() } else { self.body.size_hint() }
    }
}
