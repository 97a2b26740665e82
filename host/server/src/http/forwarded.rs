//! Requests that a worker gets from its parent, and responses of workers.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderName, StatusCode, header, response::Parts},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

use super::{
    BodyBudget, Problem, Shared,
    budget::{Counted, HeldBytes},
    output::{Form, error_piece},
};
use crate::{
    ServiceError, Tenant,
    workers::{REQUEST, RUNNING_PATH},
};

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
    _room: HeldBytes,
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

/// Header with the tenant's name.
pub(super) const TENANT: &str = "glovebox-tenant";

/// The tenant that the parent has authenticated. Only [`from_parent`] creates this extension.
#[derive(Clone)]
pub(crate) struct FromParent(pub(super) Tenant);

/// Middleware that accepts the parent's statement of the tenant, and reports when the work for a request has ended.
pub(crate) async fn from_parent(State(shared): State<Shared>, mut request: Request, next: Next) -> Response {
    let number = text(request.headers(), REQUEST).and_then(|number| number.parse().ok());
    let (Some(reporter), Some(number)) = (&shared.service.0.reporter, number) else { return unknown() };
    if request.uri().path() == RUNNING_PATH {
        let status = if reporter.is_running(number) { StatusCode::OK } else { StatusCode::NOT_FOUND };
        return status.into_response();
    }
    let report = reporter.begin(number);
    let tenant = text(request.headers(), TENANT);
    let Some(tenant) = shared.tenants.all().find(|known| Some(known.name()) == tenant) else { return unknown() };
    request.extensions_mut().insert(FromParent(tenant.in_worker(report)));
    next.run(request).await
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn unknown() -> Response {
    Problem::new(StatusCode::BAD_REQUEST, "invalid-argument", "not a request from the worker's parent").into_response()
}
