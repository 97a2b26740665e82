//! Serves the engine's connections to this node, and registers the node with the engine's admin API.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    future::{Ready, ready},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use glovebox::{BuildError, escaped};
use http::{Request, StatusCode};
use hyper::{body::Incoming, server::conn::http2, service::Service};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use restate_sdk::{endpoint::Endpoint, hyper::HyperEndpoint};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};

use super::{NodeConfig, machine::Machine, services};
use crate::{
    FleetUrl,
    address::{IMAGE_PREFIX, image_service},
    client::{FleetError, Http},
};

/// Maximum number of connections. Engines and load balancers open a few each.
const MAX_CONNECTIONS: usize = 1_024;
/// Maximum number of concurrent requests per connection. Further requests wait in the engine.
const MAX_STREAMS: u32 = 1_024;
/// HTTP/2 keep-alive: the idle time before a ping, and the timeout for the reply.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(5));
/// The path of the health check for load balancers.
const HEALTH: &str = "/health";
/// Time for load balancers to notice that the node is draining, before it asks existing connections to close.
const NOTICE: Duration = Duration::from_secs(1);
/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A fleet node in this process: listens for the engine's requests and runs executions.
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
    /// Prepares the runtimes and starts to listen. The first preparation on a machine takes a minute or more.
    ///
    /// # Errors
    /// [`NodeError`] if the configuration is invalid, a runtime cannot be prepared, or `listen` cannot be used.
    pub async fn bind(config: NodeConfig, listen: SocketAddr) -> Result<Self, NodeError> {
        let (drain, identity_key) = (config.drain, config.identity_key.clone());
        let made = tokio::task::spawn_blocking(move || Machine::new(config)).await;
        let machine = Arc::new(made.map_err(|_| NodeError::Panicked)??);
        let endpoint = services::endpoint(&machine, identity_key.as_deref())?;
        let failed = |source| NodeError::Listen { address: listen, source };
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { endpoint, machine, listener, address, drain })
    }

    /// Returns the address that the node listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the identities of the node's images.
    pub fn images(&self) -> impl Iterator<Item = &str> {
        self.machine.images()
    }

    /// Registers this node, or identical nodes behind a load balancer, with the engine. `advertised` is the `http://`
    /// URL of the node or the load balancer, which the engine must be able to reach. The node must be
    /// [serving](Self::serve) during the call. Retries for half a minute.
    ///
    /// Fails if nodes of another version are registered at `advertised`. With `replaces`, this registration replaces
    /// them. First close all sessions that only the replaced nodes can run.
    ///
    /// # Errors
    /// [`NodeError::OtherVersion`] if nodes of another version are registered at the address. [`NodeError::Refused`] if
    /// the engine rejects the registration. [`NodeError::Engine`] if the engine cannot be reached.
    pub fn register(
        &self,
        advertised: String,
        replaces: bool,
    ) -> impl Future<Output = Result<Registration, NodeError>> + Send + 'static {
        let admin = self.machine.admin.clone();
        let images = self.machine.images().map(image_service).collect();
        async move { admin.register(&advertised, &images, replaces).await }
    }

    /// Serves until `end` completes, and then drains: running executions have [`NodeConfig::drain`] to finish, and
    /// unfinished executions restart on another node. Acknowledged executions are already stored.
    pub async fn serve(self, end: impl Future<Output = ()>) {
        let answering = NodeService {
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
        // The node accepts health checks until it stops. If it were unreachable, it would be considered lost, and its
        // executions would restart on other nodes.
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

/// Accepts connections up to the limit. With `graceful`, the connections can be shut down gracefully. Without it, they
/// are not awaited.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
    answering: &NodeService,
    graceful: Option<&GracefulShutdown>,
) -> Infallible {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(target: "glovebox", %error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Connections beyond the limit are closed.
        let Ok(place) = Arc::clone(room).try_acquire_owned() else { continue };
        let connection = connection(stream, answering.clone());
        match graceful {
            Some(graceful) => tokio::spawn(log(graceful.watch(connection), place)),
            None => tokio::spawn(log(connection, place)),
        };
    }
}

/// Holds a connection's permit until the connection ends, and logs its error.
async fn log(connection: impl Future<Output = hyper::Result<()>>, _place: OwnedSemaphorePermit) {
    if let Err(error) = connection.await {
        tracing::debug!(target: "glovebox", %error, "a connection from the engine failed");
    }
}

/// The service of a connection: the node's endpoint and its health check.
#[derive(Clone)]
struct NodeService {
    endpoint: HyperEndpoint,
    /// An endpoint without services or an identity key, because health checks are not signed.
    health: HyperEndpoint,
    is_draining: Arc<AtomicBool>,
}

impl Service<Request<Incoming>> for NodeService {
    type Response = <HyperEndpoint as Service<Request<Incoming>>>::Response;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        if request.uri().path() != HEALTH {
            return self.endpoint.call(request);
        }
        ready(self.health.call(request).into_inner().map(|mut answer| {
            // Status 404 tells load balancers that the node is draining and accepts no new requests.
            if self.is_draining.load(Ordering::Relaxed) {
                *answer.status_mut() = StatusCode::NOT_FOUND;
            }
            answer
        }))
    }
}

/// Creates a connection without Nagle's algorithm. The SDK's server leaves the algorithm enabled, which adds 40 ms to
/// each call.
fn connection(
    stream: TcpStream,
    answering: NodeService,
) -> http2::Connection<TokioIo<TcpStream>, NodeService, TokioExecutor> {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(target: "glovebox", %error, "cannot turn off Nagle's algorithm on a connection");
    }
    http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE.0)
        .keep_alive_timeout(KEEP_ALIVE.1)
        .max_concurrent_streams(MAX_STREAMS)
        .serve_connection(TokioIo::new(stream), answering)
}

/// The timeout for a request to the admin API. A registration includes the discovery of the node by the engine.
const WAIT: Duration = Duration::from_secs(60);
/// Maximum number of attempts to register while the engine or the node's address is unreachable.
const MAX_ATTEMPTS: u32 = 30;
/// The pause between attempts.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The HTTP status if other services are registered at the address.
const CONFLICT: u16 = 409;
/// The HTTP status for an unknown service.
const NOT_FOUND: u16 = 404;

#[derive(Serialize)]
struct RegisterRequest<'a> {
    uri: &'a str,
    force: bool,
}

#[derive(Deserialize)]
struct RegisterAnswer {
    id: String,
    services: Vec<RegisteredService>,
}

#[derive(Deserialize)]
struct RegisteredService {
    name: String,
}

impl RegisterAnswer {
    /// Returns `true` if the nodes known at the address have exactly these images. The engine does not rediscover known
    /// nodes.
    fn has(&self, images: &BTreeSet<String>) -> bool {
        let known = self.services.iter().map(|service| &service.name);
        known.filter(|name| name.starts_with(IMAGE_PREFIX)).collect::<BTreeSet<_>>() == images.iter().collect()
    }
}

/// The registration of nodes with the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Registration {
    /// The engine's deployment ID.
    pub deployment: String,
}

/// A client of the engine's admin API.
#[derive(Clone, Debug)]
pub(super) struct Admin {
    http: Http,
    url: String,
}

impl Admin {
    pub(super) fn new(fleet: &FleetUrl) -> Result<Self, FleetError> {
        Ok(Self { http: Http::new()?, url: fleet.admin() })
    }

    /// Registers the address at which the engine reaches this node or identical nodes. Does nothing if the same images
    /// are already registered there. Fails if other images are registered there, unless `replaces` is set.
    pub(super) async fn register(
        &self,
        advertised: &str,
        images: &BTreeSet<String>,
        replaces: bool,
    ) -> Result<Registration, NodeError> {
        let url = format!("{}/deployments", self.url);
        let question = RegisterRequest { uri: advertised, force: replaces };
        let mut tries = 0;
        loop {
            tries += 1;
            match self.http.ask::<RegisterAnswer>(&url, Some(&question), WAIT).await {
                Ok(Ok(answer)) if answer.has(images) => return Ok(Registration { deployment: answer.id }),
                Ok(Ok(_)) | Ok(Err((CONFLICT, _))) => return Err(NodeError::OtherVersion(advertised.to_owned())),
                // The engine cannot reach the node, perhaps because a load balancer is not up yet.
                Ok(Err((status, text))) if tries >= MAX_ATTEMPTS => {
                    return Err(NodeError::Refused(format!("status {status}: {text}")));
                }
                Err(error @ FleetError::Unreachable { .. }) if tries >= MAX_ATTEMPTS => return Err(error.into()),
                Ok(Err(_)) | Err(FleetError::Unreachable { .. }) => tokio::time::sleep(RETRY_PAUSE).await,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns `true` if a service with this name is registered.
    pub(super) async fn has_service(&self, name: &str) -> Result<bool, FleetError> {
        let url = format!("{}/services/{name}", self.url);
        match self.http.ask::<IgnoredAny>(&url, None::<&()>, WAIT).await? {
            Ok(IgnoredAny) => Ok(true),
            Err((NOT_FOUND, _)) => Ok(false),
            Err((status, text)) => Err(FleetError::Answer(format!("status {status}: {text}"))),
        }
    }
}

/// The reason why a node failed to start or to register.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// Nodes cannot use this policy.
    #[error(transparent)]
    Policy(#[from] super::NodePolicyError),
    /// A runtime cannot be prepared.
    #[error(transparent)]
    Runtime(#[from] BuildError),
    /// The node panicked while it prepared its runtimes and its store.
    #[error("the node panicked during startup; see its log")]
    Panicked,
    /// The identity key is malformed.
    #[error("invalid identity key; use the engine's public key in the form `publickeyv1_…`")]
    IdentityKey,
    /// The node cannot listen on its address.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address to listen on.
        address: SocketAddr,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The engine rejected the registration.
    #[error("the fleet's engine rejected the node's registration: {0}")]
    Refused(String),
    /// Nodes of another version are registered at this address.
    #[error(
        "nodes of another version are registered at `{url}` and may still have work; use a different address for nodes of this version (`--advertise`)",
        url = escaped(.0)
    )]
    OtherVersion(String),
    /// A call to the engine failed.
    #[error(transparent)]
    Engine(#[from] FleetError),
}
