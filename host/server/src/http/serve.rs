//! Connections of the HTTP server, and its configuration.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_io_timeout::TimeoutStream;

use crate::Service;

/// Time after which a client that does not read its response is disconnected.
const WRITE_TIME: Duration = Duration::from_secs(60);
/// Pause after a failed `accept`, for instance for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);
/// Timeout for sending the last responses, after all executions have ended.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// A server that is bound to its address, but does not accept connections yet.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    /// Address that the server listens on.
    pub address: SocketAddr,
}

impl Bound {
    /// Binds to an address. Port 0 selects a free port.
    ///
    /// # Errors
    /// Returns an error if the address is in use or does not belong to this machine.
    pub async fn new(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }
}

/// Serves `routes` until the service shuts down ([`Service::drain`]). Then it accepts no further connections, lets busy
/// connections finish, and returns. Connections have at most 5 s to finish once all executions have ended.
pub async fn serve(bound: Bound, service: &Service, routes: Router, config: &HttpConfig) {
    let places = Arc::new(Semaphore::new(config.connections.clamp(1, Semaphore::MAX_PERMITS)));
    let ending = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(config.header_time)
        .max_buf_size(config.header_bytes.max(8 << 10))
        .half_close(false);
    let accept = async {
        loop {
            // Further connections wait in the backlog of the operating system.
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let stream = match bound.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(target: "glovebox", %error, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let connection =
                http.serve_connection(TokioIo::new(slow(stream)), TowerToHyperService::new(routes.clone()));
            let watched = ending.watch(connection);
            tokio::spawn(async move {
                let _place = place;
                // Clients that disconnect early or are too slow are not logged.
                let _ = watched.await;
            });
        }
    };
    tokio::select! {
        () = accept => {}
        () = service.draining() => {}
    }
    drop(bound);
    service.ended().await;
    let _ = tokio::time::timeout(LAST_ANSWERS, ending.shutdown()).await;
}

/// Wraps a connection so that it fails if its client reads nothing for `WRITE_TIME`.
fn slow(stream: TcpStream) -> std::pin::Pin<Box<TimeoutStream<TcpStream>>> {
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_TIME));
    Box::pin(stream)
}

/// Options of the HTTP server and limits on its clients. Create it with `default()` and set the fields that differ.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// Maximum number of open connections. Default 4,096. Further connections wait until another one ends.
    pub connections: usize,
    /// Maximum size of a request body, in bytes. Default 48 MiB.
    pub body_bytes: usize,
    /// Memory for all requests and responses together, in bytes. Default 512 MiB. Requests without room get status 503,
    /// as do responses that find no room in time. An eighth is for responses that are stored for requests with an
    /// `Idempotency-Key`.
    pub bodies_bytes: usize,
    /// Maximum bytes of a request's line and headers. Default 16 KiB; at least 8 KiB. Requests that are not complete
    /// yet hold at most `connections` times `header_bytes` of memory: 64 MiB by default.
    pub header_bytes: usize,
    /// Timeout for receiving the headers of a request, and idle time between two requests. Default 60 s.
    pub header_time: Duration,
    /// Timeout for receiving a request body. Responses wait for room as long. Default 30 s.
    pub body_time: Duration,
    /// Names that requests may use in `Host`, with or without a port. Default: the address that the server listens on,
    /// `localhost`, and the loopback addresses. Requests with other names are refused, so that no web page can reach a
    /// local server by DNS rebinding.
    pub hosts: Vec<String>,
    /// Origins of web pages that may send requests (`Origin`), such as `https://app.example.com`. Default: only the
    /// server's own origin, which is always allowed.
    pub origins: Vec<String>,
    /// Serves the web page at `/`. Default: yes.
    pub page: bool,
    /// Serves the routes for E2B's clients. Default: no.
    pub e2b: bool,
    /// Maximum number of keys (`Idempotency-Key`) per token that are remembered, for ten minutes each. Default 10,000.
    pub idempotency_keys: usize,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            connections: 4_096,
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
