//! The answers of workers.

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

/// What a client is told of an answer's headers: a worker has no say about others.
const PASSED_ON: [HeaderName; 7] = [
    header::CACHE_CONTROL,
    header::CONTENT_TYPE,
    header::ETAG,
    header::RETRY_AFTER,
    header::X_CONTENT_TYPE_OPTIONS,
    HeaderName::from_static("x-accel-buffering"),
    header::ALLOW,
];
/// How much of an answer is in memory at once: what a worker may send before it is read.
const WINDOW_BYTES: u64 = 64 << 10;

/// The body of an answer, as the worker sends it.
pub(super) struct Forwarded {
    body: Incoming,
    /// Of an answer in pieces.
    form: Option<Form>,
    /// The last byte was that of a line.
    ends_line: bool,
    is_broken: bool,
    _room: Held,
}

impl Forwarded {
    /// A worker's answer for its client. One in pieces of this form ends with one that says so if the worker ends.
    pub(super) async fn answer(
        bodies: &BodyBudget,
        tenant: &str,
        response: hyper::Response<Incoming>,
        form: Option<Form>,
    ) -> Result<Response, Problem> {
        let (parts, body) = response.into_parts();
        if parts.status.is_informational() {
            // Nothing that is passed on has such an answer: it would hand over the client's connection.
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

    /// What a client is told before the body.
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
        // One in pieces may have one more.
        if self.form.is_some() { SizeHint::default() } else { self.body.size_hint() }
    }
}
