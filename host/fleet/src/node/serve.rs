//! The engine's connections.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::{Request, StatusCode};
use hyper::{body::Incoming, server::conn::http2, service::Service};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use restate_sdk::{endpoint::Endpoint, hyper::HyperEndpoint};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};

use super::{NodeConfig, Registered, error::NodeError, machine::Machine, services};
use crate::name::image_service;

/// Maximum connections. Engines and balancers open a few each.
const MAX_CONNECTIONS: usize = 1_024;
/// Maximum concurrent requests per connection; more wait in the engine.
const MAX_STREAMS: u32 = 1_024;
/// HTTP/2 keep-alive: how long a connection may be silent before a ping, and how long to wait for its reply.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(5));
/// Where balancers ask whether this node takes requests.
const HEALTH: &str = "/health";
/// How long balancers have to notice draining before existing connections are told.
const NOTICE: Duration = Duration::from_secs(1);
/// Pause after a failed accept.
const PAUSE: Duration = Duration::from_millis(100);

/// A node of a fleet.
pub struct Node {
    endpoint: Endpoint,
    machine: Arc<Machine>,
    listener: TcpListener,
    address: SocketAddr,
    drain: Duration,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Node {
    /// Prepares the runtimes, which takes a minute or more the first time, and listens.
    ///
    /// # Errors
    /// [`NodeError`].
    pub async fn bind(config: NodeConfig, listen: SocketAddr) -> Result<Self, NodeError> {
        let (drain, identity_key) = (config.drain, config.identity_key.clone());
        let made = tokio::task::spawn_blocking(move || Machine::new(config)).await;
        let machine = Arc::new(made.map_err(|_| NodeError::Refused("the node panicked".to_owned()))??);
        let endpoint = services::endpoint(&machine, identity_key.as_deref())?;
        let failed = |source| NodeError::Listen { address: listen, source };
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { endpoint, machine, listener, address, drain })
    }

    /// The address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The identities of its images.
    pub fn images(&self) -> impl Iterator<Item = &str> {
        self.machine.images()
    }

    /// Registers nodes like this one with the engine. The engine must reach one of them at `advertised`: the `http://` URL of this node or of
    /// a balancer. Nodes of another version at that address are an error, unless `replaces`: these then replace them, and no other node may
    /// have sessions of theirs. Retries for half a minute; the node must be [serving](Self::serve) meanwhile.
    ///
    /// # Errors
    /// [`NodeError::OtherVersion`], [`NodeError::Refused`] and [`NodeError::Engine`].
    pub fn register(
        &self,
        advertised: String,
        replaces: bool,
    ) -> impl Future<Output = Result<Registered, NodeError>> + Send + 'static {
        let admin = self.machine.admin.clone();
        let images = self.machine.images().map(image_service).collect();
        async move { admin.register(&advertised, &images, replaces).await }
    }

    /// Serves until `end`, then drains: running executions get [`NodeConfig::drain`] to finish, and the rest restart on another node. Everything
    /// acknowledged is already stored.
    pub async fn serve(self, end: impl Future<Output = ()>) {
        let answering = Answering {
            endpoint: HyperEndpoint::new(self.endpoint),
            health: HyperEndpoint::new(Endpoint::builder().build()),
            is_draining: Arc::default(),
        };
        let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let graceful = GracefulShutdown::new();
        tokio::select! {
            never = accept(&self.listener, &room, &answering, Some(&graceful)) => match never {},
            () = end => answering.is_draining.store(true, Ordering::Relaxed),
        }
        // Health checks are answered to the end: a node that does not answer counts as lost, and its executions restart elsewhere.
        let notice = NOTICE.min(self.drain);
        tokio::select! {
            never = accept(&self.listener, &room, &answering, Some(&graceful)) => match never {},
            () = tokio::time::sleep(notice) => {}
        }
        tokio::select! {
            never = accept(&self.listener, &room, &answering, None) => match never {},
            _ = tokio::time::timeout(self.drain.saturating_sub(notice), graceful.shutdown()) => {}
        }
    }
}

/// Accepts connections while there is room. `graceful`, if given, shuts them down; otherwise nobody waits for them.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
    answering: &Answering,
    graceful: Option<&GracefulShutdown>,
) -> Infallible {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(target: "glovebox", %error, "no connection can be taken");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        // Over the limit: closed.
        let Ok(place) = Arc::clone(room).try_acquire_owned() else { continue };
        let connection = connection(stream, answering.clone());
        match graceful {
            Some(graceful) => tokio::spawn(log(graceful.watch(connection), place)),
            None => tokio::spawn(log(connection, place)),
        };
    }
}

/// Holds a connection's permit until it ends.
async fn log(connection: impl Future<Output = hyper::Result<()>>, _place: OwnedSemaphorePermit) {
    if let Err(error) = connection.await {
        tracing::debug!(target: "glovebox", %error, "a connection of the engine broke off");
    }
}

/// The service of a connection.
#[derive(Clone)]
struct Answering {
    endpoint: HyperEndpoint,
    /// Has no services and no identity key: health checks are not signed.
    health: HyperEndpoint,
    is_draining: Arc<AtomicBool>,
}

impl Service<Request<Incoming>> for Answering {
    type Response = <HyperEndpoint as Service<Request<Incoming>>>::Response;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        if request.uri().path() != HEALTH {
            return self.endpoint.call(request);
        }
        ready(self.health.call(request).into_inner().map(|mut answer| {
            // 404: draining, takes no new requests.
            if self.is_draining.load(Ordering::Relaxed) {
                *answer.status_mut() = StatusCode::NOT_FOUND;
            }
            answer
        }))
    }
}

/// A connection without Nagle's algorithm: the SDK's server leaves it on, which adds 40 ms to each call.
fn connection(
    stream: TcpStream,
    answering: Answering,
) -> http2::Connection<TokioIo<TcpStream>, Answering, TokioExecutor> {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(target: "glovebox", %error, "a connection of the engine waits before it sends");
    }
    http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE.0)
        .keep_alive_timeout(KEEP_ALIVE.1)
        .max_concurrent_streams(MAX_STREAMS)
        .serve_connection(TokioIo::new(stream), answering)
}
