//! Connections.

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

use super::HttpConfig;
use crate::Service;

/// How long a client may read nothing of its answer.
const WRITE_TIME: Duration = Duration::from_secs(60);
/// How long to wait after the system had no descriptor for a connection.
const PAUSE: Duration = Duration::from_millis(50);
/// How long answers may take to be sent once all executions have ended.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// A server that is bound to its address and accepts nothing yet.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Bound {
    /// Binds to an address; port 0 is any that is free.
    ///
    /// # Errors
    /// When the address is in use or not this machine's.
    pub async fn new(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }
}

/// Serves `routes` until the service shuts down ([`Service::drain`]): then it accepts no connection, lets those that are doing something
/// finish, and returns.
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
            // Those that come besides wait in the system's own queue.
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let stream = match bound.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(target: "glovebox", %error, "a connection could not be accepted");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let connection =
                http.serve_connection(TokioIo::new(slow(stream)), TowerToHyperService::new(routes.clone()));
            let watched = ending.watch(connection);
            tokio::spawn(async move {
                let _place = place;
                // A client that breaks off, or is too slow, is no event.
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

/// A connection that ends when its client reads nothing for too long.
fn slow(stream: TcpStream) -> std::pin::Pin<Box<TimeoutStream<TcpStream>>> {
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_TIME));
    Box::pin(stream)
}
