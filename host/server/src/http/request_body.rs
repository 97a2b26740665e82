//! Request bodies. The unread rest of a body is read after its handler has dropped the body.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use tokio::runtime::Handle;

/// The maximum number of bytes that are read after the handler has dropped the body.
const MAX_REST: u64 = 64 << 10;

/// The body of a request.
///
/// If a connection with unread data is closed, TCP resets the connection, and the client may lose the response. With
/// `Connection: close`, a handler that does not read its body would cause such a reset. After such a handler, a task
/// reads up to [`MAX_REST`] bytes and discards them chunk by chunk.
///
/// The discarded bytes are not charged to the budget for bodies. At any time, only the connection's own read buffer,
/// whose size is limited, holds some of them. [`HttpConfig::connections`](super::HttpConfig::connections) limits the
/// number of connections and of these tasks.
#[derive(Debug)]
pub(crate) struct RequestBody {
    /// `None` only while the value is dropped.
    body: Option<Incoming>,
    /// The timeout for reading the rest of the body. If zero, the rest is not read.
    rest_time: Duration,
}

impl RequestBody {
    pub(crate) fn new(body: Incoming, rest_time: Duration) -> Self {
        Self { body: Some(body), rest_time }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let Some(mut body) = self.body.take() else { return };
        if self.rest_time.is_zero() || body.is_end_stream() || body.size_hint().lower() > MAX_REST {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(tokio::time::timeout(self.rest_time, async move {
            let mut read = 0;
            while let Some(Ok(frame)) = body.frame().await {
                read += frame.data_ref().map_or(0, Bytes::len) as u64;
                if read > MAX_REST {
                    break;
                }
            }
        }));
    }
}
