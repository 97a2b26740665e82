//! Connection handling and configuration of the HTTP server, and request bodies, whose unread rest is read after the
//! handler has dropped the body.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::Router;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::{
    Request,
    body::{Bytes, Incoming},
    header::EXPECT,
    server::conn::http1,
    service::{Service as HyperService, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use serde::{Deserialize, Serialize};
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    runtime::Handle,
    sync::Semaphore,
};
use tokio_io_timeout::TimeoutStream;

#[cfg(unix)]
use super::SocketListener;
use crate::{Service, byte_budget::ClientProcess};

/// The timeout for a write to a client that does not read, after which the client is disconnected.
const WRITE_TIME: Duration = Duration::from_secs(60);
/// Pause after a failed `accept`, for example because no file descriptors are left.
const PAUSE: Duration = Duration::from_millis(50);
/// Maximum time for sending the last responses after all executions have ended.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// A server that is bound to its address but does not yet accept connections.
#[derive(Debug)]
pub struct BoundServer {
    listener: TcpListener,
    /// The address on which the server listens.
    pub address: SocketAddr,
}

impl BoundServer {
    /// Binds to an address. Port 0 selects a free port.
    ///
    /// # Errors
    /// Fails if the operating system refuses the address, for example because the address is in use.
    pub async fn new(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }
}

/// Serves `routes` until the service shuts down ([`Service::drain`]). Then accepts no further connections, waits until
/// all executions have ended, lets open connections finish within 5 s, and returns.
pub async fn serve(bound: BoundServer, service: &Service, routes: Router, config: &HttpConfig) {
    serve_connections(bound, service, routes, config).await;
}

/// Like [`serve`], but on a socket of the current user. `routes` are from [`socket_router`](super::socket_router).
#[cfg(unix)]
pub async fn serve_socket(listener: SocketListener, service: &Service, routes: Router, config: &HttpConfig) {
    serve_connections(listener, service, routes, config).await;
}

/// A listener for connections.
trait Listen: Send + Sync {
    type Stream: AsyncRead + AsyncWrite + Send + 'static;

    fn next(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;

    /// Returns the process at the other end, if this kind of connection can report it.
    fn client(&self, _: &Self::Stream) -> Option<ClientProcess> {
        None
    }
}

impl Listen for BoundServer {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<TcpStream> {
        let (stream, _) = self.listener.accept().await?;
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

#[cfg(unix)]
impl Listen for SocketListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<UnixStream> {
        self.accept().await
    }

    fn client(&self, stream: &UnixStream) -> Option<ClientProcess> {
        Some(ClientProcess(stream.peer_cred().ok().and_then(|peer| peer.pid())))
    }
}

/// Serves the connections of `listener` until the service shuts down. Then waits until all executions have ended, and
/// lets open connections finish.
async fn serve_connections(listener: impl Listen, service: &Service, routes: Router, config: &HttpConfig) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(config.header_time)
        .max_buf_size(config.header_bytes.max(8 << 10))
        .half_close(false);
    let places = Arc::new(Semaphore::new(config.connections.clamp(1, Semaphore::MAX_PERMITS)));
    let (ending, body_time) = (GracefulShutdown::new(), config.body_time);
    let accept = async {
        loop {
            // Further connections wait in the operating system's backlog.
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let stream = match listener.next().await {
                Ok(stream) => stream,
                Err(error) => {
                    tracing::warn!(target: "glovebox", %error, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let (client, routes) = (listener.client(&stream), TowerToHyperService::new(routes.clone()));
            let answering = service_fn(move |request: Request<Incoming>| {
                // A client that waits for `100 Continue` has not sent its body yet, so there is no rest to read.
                let rest_time = if request.headers().contains_key(EXPECT) { Duration::ZERO } else { body_time };
                let mut request = request.map(|body| RequestBody::new(body, rest_time));
                if let Some(client) = client {
                    request.extensions_mut().insert(client);
                }
                HyperService::call(&routes, request)
            });
            let watched = ending.watch(http.serve_connection(TokioIo::new(with_write_timeout(stream)), answering));
            tokio::spawn(async move {
                let _place = place;
                // Errors of clients that disconnect early or are too slow are not logged.
                let _ = watched.await;
            });
        }
    };
    tokio::select! {
        () = accept => {}
        () = service.draining() => {}
    }
    drop(listener);
    service.drained().await;
    let _ = tokio::time::timeout(LAST_ANSWERS, ending.shutdown()).await;
}

/// Wraps a connection so that it fails if the client reads nothing for `WRITE_TIME`.
fn with_write_timeout<S: AsyncRead + AsyncWrite>(stream: S) -> Pin<Box<TimeoutStream<S>>> {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_TIME));
    Box::pin(stream)
}

/// Options of the HTTP server and limits on clients. Start from `default()` and change fields. The table
/// `[http]` of a configuration sets `connections`, `body_bytes`, `bodies_bytes`, `hosts` and `origins`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpConfig {
    /// Maximum number of open connections. Default 1,024. Further connections wait until another connection closes.
    /// With the default `header_bytes`, a connection occupies at most 64 KiB of memory in addition to `bodies_bytes`.
    pub connections: usize,
    /// Maximum size of a request body, in bytes. Default 48 MiB.
    pub body_bytes: usize,
    /// The memory budget for all requests, responses and replies of workers, in bytes. Default 512 MiB. A request, a
    /// response or a reply for which the budget has no room fails with status 503. A response that exceeds the tenant's
    /// part of the budget fails with status 413. Responses wait for at most `body_time`. An eighth of the budget is
    /// reserved for responses stored for `Idempotency-Key`. On a Unix socket, each client process uses at most half of
    /// the rest.
    pub bodies_bytes: usize,
    /// Maximum size of a request's line and headers in bytes. Default 16 KiB; at least 8 KiB.
    #[serde(skip)]
    pub header_bytes: usize,
    /// The timeout for receiving a request's headers, and the maximum idle time between two requests. Default 60 s.
    #[serde(skip)]
    pub header_time: Duration,
    /// The timeout for receiving a request body, and for a response to wait for memory. Default 30 s.
    #[serde(skip)]
    pub body_time: Duration,
    /// Names to accept in the `Host` header, in addition to the address on which the server listens, `localhost`, and
    /// the loopback addresses. Ports are ignored. Requests with other names are refused, so that web pages cannot reach
    /// a local server through DNS rebinding. Default: no others.
    pub hosts: Vec<String>,
    /// Origins of web pages that may send requests (`Origin`), such as `https://app.example.com`. The server's own
    /// origin is always allowed. Default: no others.
    pub origins: Vec<String>,
    /// `true` to serve the web page at `/`. Default: `true`.
    #[serde(skip)]
    pub page: bool,
    /// `true` to serve the routes for E2B clients. Default: `false`.
    #[serde(skip)]
    pub e2b: bool,
    /// Maximum number of remembered `Idempotency-Key` values per token. A key is forgotten ten minutes after its
    /// request was completed, or earlier if newer keys exceed the maximum. Default 10,000.
    #[serde(skip)]
    pub idempotency_keys: usize,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            connections: 1_024,
            body_bytes: 48 << 20,
            bodies_bytes: 512 << 20,
            header_bytes: 16 << 10,
            header_time: Duration::from_secs(60),
            body_time: Duration::from_secs(30),
            hosts: Vec::new(),
            origins: Vec::new(),
            page: true,
            e2b: false,
            idempotency_keys: 10_000,
        }
    }
}

/// The maximum number of bytes that are read after the handler has dropped the body.
const MAX_REST: u64 = 64 << 10;

/// The body of a request.
///
/// If a connection with unread data is closed, TCP resets the connection, and the client may lose the response. With
/// `Connection: close`, a handler that does not read its body would cause such a reset. After such a handler, a task
/// reads up to [`MAX_REST`] bytes and discards them chunk by chunk.
///
/// The discarded bytes are not charged to the budget for bodies. At any time, only the connection's own read buffer,
/// whose size is limited, holds some of them. [`HttpConfig::connections`] limits the
/// number of connections and of these tasks.
#[derive(Debug)]
struct RequestBody {
    /// `None` only while the value is dropped.
    body: Option<Incoming>,
    /// The timeout for reading the rest of the body. If zero, the rest is not read.
    rest_time: Duration,
}

impl RequestBody {
    fn new(body: Incoming, rest_time: Duration) -> Self {
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
