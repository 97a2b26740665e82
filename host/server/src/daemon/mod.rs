//! A JSON-RPC 2.0 daemon for programs on this machine, over a socket that belongs to the current user or over standard
//! input and output.
//!
//! * [`Daemon`]: the in-memory sessions of all connections, which share one [`Tenant`].
//! * [`Listener`]: a socket to which only the current user can connect. [`serve`] serves its clients; [`serve_stdio`]
//!   serves a single client.
//! * [`DaemonConfig`]: limits on clients and sessions.
//!
//! Each message is a line of JSON. The daemon also sends requests to the client when scripts call it: `llm_query`,
//! `rlm_query` and `tool`.
//!
//! | file | contents |
//! |---|---|
//! | `connection` | dispatch of a client's messages |
//! | `message`, `params` | messages, errors, and parameters |
//! | `lines` | reads and writes messages in bounded memory |
//! | `methods` | handlers of the protocol's methods |
//! | `sessions`, `interpreter_pool` | a client's sessions and their queues, and the pool of started interpreters |
//! | `client_calls` | calls from scripts to the client |
//! | `socket`, `pipe`, `serve` | client connections |

mod client_calls;
mod connection;
mod interpreter_pool;
mod lines;
mod message;
mod methods;
mod params;
#[cfg(windows)]
mod pipe;
mod serve;
mod sessions;
#[cfg(unix)]
mod socket;

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicUsize},
    time::{Duration, Instant},
};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{Service, Tenant, byte_budget::ByteBudget};
use interpreter_pool::InterpreterPool;

#[cfg(windows)]
pub use pipe::{Listener, serve};
pub use serve::serve_stdio;
#[cfg(unix)]
pub use serve::{serve, serve_stream};
#[cfg(unix)]
pub use socket::{Listener, SocketError};

/// A daemon that serves in-memory sessions over several connections. Cheap to clone.
#[derive(Clone)]
pub struct Daemon(Arc<Shared>);

struct Shared {
    service: Service,
    config: DaemonConfig,
    interpreters: Arc<InterpreterPool>,
    incoming: ByteBudget,
    outgoing: ByteBudget,
    /// The names of the free connection slots. Each name selects the share of `outgoing` for the slot's connection.
    places: Mutex<Vec<Arc<str>>>,
    sessions: Arc<Semaphore>,
    connected: AtomicUsize,
    begun: Instant,
    stop: CancellationToken,
}

impl fmt::Debug for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Daemon").field("config", &self.0.config).finish_non_exhaustive()
    }
}

impl Daemon {
    /// Creates a daemon whose clients all use `tenant`, with its policy and quotas. Must be called within a Tokio
    /// runtime, because it starts interpreters in the background.
    #[must_use]
    pub fn new(tenant: &Tenant, config: DaemonConfig) -> Self {
        let places: Vec<Arc<str>> =
            (0..config.connections.clamp(1, MAX_CONNECTIONS)).map(|number| number.to_string().into()).collect();
        let (bytes, time) = (config.messages_bytes, config.message_time);
        let daemon = Self(Arc::new(Shared {
            service: tenant.service().clone(),
            config,
            interpreters: InterpreterPool::new(tenant.clone(), &config),
            incoming: ByteBudget::new(bytes, time, []),
            outgoing: ByteBudget::new(bytes, time, places.iter().map(AsRef::as_ref)),
            places: Mutex::new(places),
            sessions: Arc::new(Semaphore::new(config.sessions.clamp(1, Semaphore::MAX_PERMITS))),
            connected: AtomicUsize::new(0),
            begun: Instant::now(),
            stop: CancellationToken::new(),
        }));
        daemon.0.interpreters.fill();
        daemon
    }

    /// Takes a slot for a connection. Returns `None` if all slots are in use.
    fn place(&self) -> Option<ConnectionSlot> {
        let name = self.0.places.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        Some(ConnectionSlot { daemon: self.clone(), name })
    }

    /// Stops accepting connections. The daemon ends when all running requests have finished; [`Service::drain`] limits
    /// the wait.
    pub fn stop(&self) {
        self.0.stop.cancel();
    }

    /// Waits until [`stop`](Self::stop) is called or a client sends `shutdown`. Running requests may still be in
    /// progress.
    pub async fn stopped(&self) {
        self.0.stop.cancelled().await;
    }
}

/// The upper bound of [`DaemonConfig::connections`].
const MAX_CONNECTIONS: usize = 1 << 16;

/// A connection slot, freed on drop.
struct ConnectionSlot {
    daemon: Daemon,
    name: Arc<str>,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.daemon.0.places.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&self.name));
    }
}

/// Limits on a daemon's clients and sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DaemonConfig {
    /// Maximum number of open connections. Default 64, at most 65,536. Further connections receive an error and are
    /// closed.
    pub connections: usize,
    /// Maximum number of open sessions across all connections. Default 256.
    pub sessions: usize,
    /// Maximum number of open sessions per connection. Default 64.
    pub connection_sessions: usize,
    /// Maximum number of running requests per connection. A request counts until its response is queued, so responses
    /// that wait for a slow client count as well. Default 64.
    pub outstanding: usize,
    /// Maximum size of a message in bytes, without its line feed. Default 32 MiB.
    pub message_bytes: usize,
    /// The memory budget for the incoming messages of all connections, in bytes. Default 256 MiB. Outgoing messages
    /// have a separate budget of the same size. Half of the outgoing budget is divided into equal shares, one for each
    /// of the `connections`. A connection can take at most half of the other half, so a client that does not read
    /// cannot block the others.
    pub messages_bytes: usize,
    /// Maximum total size of the initial files, contexts, policies and tools of all sessions, in bytes. Policies and
    /// tools count as parsed values. Default 256 MiB.
    pub initial_bytes: usize,
    /// The timeout for receiving a message, from its first to its last byte, and for waiting for memory. Default 30 s.
    pub message_time: Duration,
    /// The timeout for a write to a client that does not read, after which the client is disconnected. Default 30 s.
    pub write_time: Duration,
    /// The idle time after which a session with a started interpreter ends, or a connection without sessions is closed.
    /// Default 30 min.
    pub idle: Duration,
    /// The number of started interpreters that wait for sessions with default options. Default 2.
    pub ready: usize,
}

impl Default for DaemonConfig {
    fn default() -> Self {
        Self {
            connections: 64,
            sessions: 256,
            connection_sessions: 64,
            outstanding: 64,
            message_bytes: 32 << 20,
            messages_bytes: 256 << 20,
            initial_bytes: 256 << 20,
            message_time: Duration::from_secs(30),
            write_time: Duration::from_secs(30),
            idle: Duration::from_secs(30 * 60),
            ready: 2,
        }
    }
}
