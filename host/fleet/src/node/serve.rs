//! Connections of the engine.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use hyper::server::conn::http2;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use restate_sdk::{endpoint::Endpoint, hyper::HyperEndpoint};
use tokio::net::{TcpListener, TcpStream};

use super::{NodeConfig, Registered, error::NodeError, machine::Machine, services};

/// The most connections: engines and what balances calls have a few each.
const MAX_CONNECTIONS: usize = 1_024;
/// The most that is asked at once on one connection; more waits for its turn with the engine.
const MAX_STREAMS: u32 = 1_024;
/// How long a connection may be silent before it is asked whether it is there, and then until it is taken for lost.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(5));
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
        async move { admin.register(&advertised, replaces).await }
    }

    /// Serves until `end`; what runs then may go on for a while ([`NodeConfig::drain`]), and what has not ended by then is begun anew on another
    /// node. Whatever was answered is stored already.
    pub async fn serve(self, end: impl Future<Output = ()>) {
        let endpoint = HyperEndpoint::new(self.endpoint);
        let graceful = GracefulShutdown::new();
        let mut end = std::pin::pin!(end);
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = &mut end => break,
            };
            match accepted {
                Ok((stream, _)) if graceful.count() < MAX_CONNECTIONS => {
                    let watched = graceful.watch(connection(stream, endpoint.clone()));
                    tokio::spawn(async move {
                        if let Err(error) = watched.await {
                            tracing::debug!(target: "glovebox", %error, "a connection of the engine broke off");
                        }
                    });
                }
                // One too many is closed.
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(target: "glovebox", %error, "no connection can be taken");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        drop(self.listener);
        let _ = tokio::time::timeout(self.drain, graceful.shutdown()).await;
    }
}

/// A connection, on which nothing waits for more to send: the server of the SDK leaves that on, and each call takes 40 ms more.
fn connection(
    stream: TcpStream,
    endpoint: HyperEndpoint,
) -> http2::Connection<TokioIo<TcpStream>, HyperEndpoint, TokioExecutor> {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(target: "glovebox", %error, "a connection of the engine waits before it sends");
    }
    http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE.0)
        .keep_alive_timeout(KEEP_ALIVE.1)
        .max_concurrent_streams(MAX_STREAMS)
        .serve_connection(TokioIo::new(stream), endpoint)
}
