//! The memory that a request over HTTP and its answer hold.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, Bytes},
    http::request::Parts,
    response::Response,
};
use rmcp::{RoleServer, service::RequestContext};
use serde::Serialize;

use crate::{
    byte_budget::{Held, NoRoom},
    http::{BodyBudget, PIECE_BYTES, counted},
    json_cost::json_len,
};

/// How often an answer is in memory: as values, and as JSON.
const COPIES: usize = 2;

/// Counts a request until its answer is written, and the answer from the moment on in which its length is known.
#[derive(Clone, Debug)]
pub(super) struct Account {
    bodies: BodyBudget,
    tenant: Arc<str>,
    held: Arc<Mutex<Held>>,
}

impl Account {
    /// `held`: what the request takes already.
    pub(super) fn new(bodies: &BodyBudget, tenant: &str, held: Held) -> Self {
        Self { bodies: bodies.clone(), tenant: tenant.into(), held: Arc::new(Mutex::new(held)) }
    }

    /// Takes room for what a request is answered. There is no limit where none came over HTTP.
    pub(super) async fn count(context: &RequestContext<RoleServer>, answer: &impl Serialize) -> Result<(), NoRoom> {
        let account = context.extensions.get::<Parts>().and_then(|parts| parts.extensions.get::<Self>());
        let Some(Self { bodies, tenant, held }) = account else { return Ok(()) };
        // What cannot be written is not sent either.
        let len = json_len(answer).unwrap_or_default();
        let more = bodies.bytes().room(Some(tenant), COPIES * len).await?;
        held.lock().unwrap_or_else(PoisonError::into_inner).join(more);
        Ok(())
    }

    /// The response with a body for which everything is held until it is written.
    pub(super) fn hold(self, response: Response) -> Response {
        response.map(|body| Body::new(AccountedBody { body, left: Bytes::new(), held: self.held }))
    }
}

/// A body that is given in pieces, each of which counts until it is written.
struct AccountedBody {
    body: Body,
    left: Bytes,
    held: Arc<Mutex<Held>>,
}

impl http_body::Body for AccountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, axum::Error>>> {
        while self.left.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.left = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                end => return Poll::Ready(end),
            }
        }
        let len = self.left.len().min(PIECE_BYTES);
        let piece = self.left.split_to(len);
        Poll::Ready(Some(Ok(http_body::Frame::data(counted(piece, &self.held)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        if self.left.is_empty() { self.body.size_hint() } else { http_body::SizeHint::default() }
    }
}
