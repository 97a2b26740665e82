//! Configuration of the daemon.

use std::time::Duration;

/// Limits on the clients of a daemon and on their sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DaemonConfig {
    /// Maximum number of open connections. Default 64. Further connections get an error and are closed.
    pub connections: usize,
    /// Maximum number of open sessions over all connections. Default 256.
    pub sessions: usize,
    /// Maximum number of open sessions per connection. Default 64.
    pub connection_sessions: usize,
    /// Maximum number of unanswered requests per connection. Default 64.
    pub outstanding: usize,
    /// Maximum size of one message, in bytes without its line feed. Default 32 MiB.
    pub message_bytes: usize,
    /// Memory for the incoming messages of all connections, in bytes. Outgoing messages have a separate budget of the
    /// same size. Default 256 MiB.
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
