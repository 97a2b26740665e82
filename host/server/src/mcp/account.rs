//! The memory accounted for a request over HTTP and its answer.

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

/// Copies of an answer in memory: as values, and as JSON.
const COPIES: usize = 2;

/// Accounts for a request until its answer is written, and for the answer as soon as its length is known.
#[derive(Clone, Debug)]
pub(super) struct Account {
    bodies: BodyBudget,
    tenant: Arc<str>,
    held: Arc<Mutex<Held>>,
}

impl Account {
    /// `held`: the bytes already reserved for the request.
    pub(super) fn new(bodies: &BodyBudget, tenant: &str, held: Held) -> Self {
        Self { bodies: bodies.clone(), tenant: tenant.into(), held: Arc::new(Mutex::new(held)) }
    }

    /// Reserves memory for an answer. Does nothing if the request did not arrive over HTTP.
    pub(super) async fn count(context: &RequestContext<RoleServer>, answer: &impl Serialize) -> Result<(), NoRoom> {
        let account = context.extensions.get::<Parts>().and_then(|parts| parts.extensions.get::<Self>());
        let Some(Self { bodies, tenant, held }) = account else { return Ok(()) };
        // An answer that cannot be serialized is not sent either.
        let len = json_len(answer).unwrap_or_default();
        let more = bodies.bytes().room(Some(tenant), COPIES * len).await?;
        held.lock().unwrap_or_else(PoisonError::into_inner).join(more);
        Ok(())
    }

    /// Wraps the response's body so that the reserved bytes are released when it is written.
    pub(super) fn hold(self, response: Response) -> Response {
        response.map(|body| Body::new(AccountedBody { body, left: Bytes::new(), held: self.held }))
    }
}

/// A body split into pieces, each of which is accounted for until it is written.
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
