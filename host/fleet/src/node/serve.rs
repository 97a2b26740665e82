//! Connections of the engine.

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

/// The most connections: engines and what balances calls have a few each.
const MAX_CONNECTIONS: usize = 1_024;
/// The most that is asked at once on one connection; more waits for its turn with the engine.
const MAX_STREAMS: u32 = 1_024;
/// How long a connection may be silent before it is asked whether it is there, and then until it is taken for lost.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(5));
/// Where whoever balances calls among nodes asks whether this one takes any.
const HEALTH: &str = "/health";
/// How long they have to notice that it takes none any more, before it says so on the connections that it has.
const NOTICE: Duration = Duration::from_secs(1);
/// How long to wait where no connection can be taken.
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
    /// Prepares the runtimes, which takes a minute or more where that was not done before, and listens.
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

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The identities of the images that it has.
    pub fn images(&self) -> impl Iterator<Item = &str> {
        self.machine.images()
    }

    /// Registers nodes like this one with the engine, which must reach one of them at the address: an `http://` URL of this node, or of what
    /// balances calls among several. Nodes of another version at that address are an error, unless these replace them: then nobody else may
    /// have sessions of theirs. It is tried for half a minute, while the node [serves](Self::serve).
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

    /// Serves until `end`; what runs then may go on for a while ([`NodeConfig::drain`]), and what has not ended by then is begun anew on another
    /// node. Whatever was answered is stored already.
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
        // Whoever asks for its health is answered until the end: a node that does not answer is taken for lost, and what runs on it is begun anew.
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

/// Takes connections as long as there is room. They end with `graceful`, where that is given; otherwise nobody waits for them.
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
        // One too many is closed.
        let Ok(place) = Arc::clone(room).try_acquire_owned() else { continue };
        let connection = connection(stream, answering.clone());
        match graceful {
            Some(graceful) => tokio::spawn(log(graceful.watch(connection), place)),
            None => tokio::spawn(log(connection, place)),
        };
    }
}

/// Holds a connection's place until it ends.
async fn log(connection: impl Future<Output = hyper::Result<()>>, _place: OwnedSemaphorePermit) {
    if let Err(error) = connection.await {
        tracing::debug!(target: "glovebox", %error, "a connection of the engine broke off");
    }
}

/// What is answered on a connection.
#[derive(Clone)]
struct Answering {
    endpoint: HyperEndpoint,
    /// It has no services, and no key of the engine: whoever asks for the node's health cannot sign.
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
            // 404 is a node that takes nothing new and ends what it has.
            if self.is_draining.load(Ordering::Relaxed) {
                *answer.status_mut() = StatusCode::NOT_FOUND;
            }
            answer
        }))
    }
}

/// A connection, on which nothing waits for more to send: the server of the SDK leaves that on, and each call takes 40 ms more.
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
