//! A JSON-RPC 2.0 daemon for programs on this machine, over a socket of the user or over standard input and output.
//!
//! * [`Daemon`]: in-memory sessions for any number of connections, over a [`Tenant`].
//! * [`Listener`]: the socket, which only its user can connect to. [`serve`] serves its clients, [`serve_stdio`] a
//!   single client.
//! * [`DaemonConfig`]: limits on clients.
//!
//! A message is a line of JSON. Scripts call the client: `llm_query`, `rlm_query` and `tool` are requests from the
//! daemon.
//!
//! | file | contents |
//! |---|---|
//! | `connection` | dispatch of the messages of one client |
//! | `message`, `params` | messages, errors, and parameters |
//! | `lines` | reading and writing of messages in bounded memory |
//! | `methods` | the methods |
//! | `sessions`, `interpreter_pool` | sessions of a client, the queue of each, and interpreters that are started ahead |
//! | `client_calls` | calls from scripts to the client |
//! | `socket`, `pipe`, `serve` | connections of clients |

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

/// A daemon with in-memory sessions for any number of connections. Cheap to clone.
#[derive(Clone)]
pub struct Daemon(Arc<Shared>);

struct Shared {
    service: Service,
    config: DaemonConfig,
    interpreters: Arc<InterpreterPool>,
    incoming: ByteBudget,
    outgoing: ByteBudget,
    /// Slots for connections. Each has its share of `outgoing`, by this name.
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
    /// Creates a daemon whose clients share the tenant's grant. Must be called on a Tokio runtime, where it starts
    /// interpreters ahead.
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

    /// Takes a slot for a connection. Returns `None` if all are taken.
    fn place(&self) -> Option<ConnectionSlot> {
        let name = self.0.places.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        Some(ConnectionSlot { daemon: self.clone(), name })
    }

    /// Stops accepting connections. The daemon ends once all running requests have ended; [`Service::drain`] bounds the
    /// time for that.
    pub fn stop(&self) {
        self.0.stop.cancel();
    }

    /// Waits until the daemon is stopped, by [`stop`](Self::stop) or by a client's `shutdown`.
    pub async fn stopped(&self) {
        self.0.stop.cancelled().await;
    }
}

/// Upper bound of [`DaemonConfig::connections`].
const MAX_CONNECTIONS: usize = 1 << 16;

/// The slot of a connection, freed on drop.
struct ConnectionSlot {
    daemon: Daemon,
    name: Arc<str>,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.daemon.0.places.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&self.name));
    }
}

/// Limits on the clients of a daemon and on their sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DaemonConfig {
    /// Maximum number of open connections. Default 64, at most 65,536. Further connections get an error and are closed.
    pub connections: usize,
    /// Maximum number of open sessions over all connections. Default 256.
    pub sessions: usize,
    /// Maximum number of open sessions per connection. Default 64.
    pub connection_sessions: usize,
    /// Maximum number of unanswered requests per connection, including those whose responses the client does not read.
    /// Default 64.
    pub outstanding: usize,
    /// Maximum size of one message, in bytes without its line feed. Default 32 MiB.
    pub message_bytes: usize,
    /// Memory for the incoming messages of all connections, in bytes. Outgoing messages have a separate budget of the
    /// same size, of which one half is divided into equal shares. A connection takes at most half of the other, so that a
    /// client that does not read its messages does not hold up the others. Default 256 MiB.
    pub messages_bytes: usize,
    /// Maximum total size of the initial files and contexts of all sessions, in bytes. Default 256 MiB.
    pub initial_bytes: usize,
    /// Timeout for receiving a message, from its first byte to its last, and for waiting for room in memory.
    /// Default 30 s.
    pub message_time: Duration,
    /// Time after which a client that does not read its messages is disconnected. Default 30 s.
    pub write_time: Duration,
    /// Idle time after which a session ends, and after which a connection without sessions is closed. Default 30 min.
    pub idle: Duration,
    /// Number of interpreters to start ahead for sessions with default options. Default 2.
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
