//! Bounds of what clients may do.

use std::time::Duration;

/// Bounds of what clients may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DaemonConfig {
    /// Connections at once. Default 64. One more is told so and closed.
    pub connections: usize,
    /// Sessions of all connections. Default 256.
    pub sessions: usize,
    /// Sessions of one connection. Default 64.
    pub connection_sessions: usize,
    /// Requests of one connection that have no answer yet. Default 64.
    pub outstanding: usize,
    /// Bytes of one message. Default 32 MiB.
    pub message_bytes: usize,
    /// Bytes of the messages of all connections that are in memory; and again as many of answers. Default 256 MiB.
    pub messages_bytes: usize,
    /// Bytes of the files and contexts that all sessions began with. Default 256 MiB.
    pub initial_bytes: usize,
    /// How long a message may take from its first byte to its last, and how long it may wait for room. Default 30 s.
    pub message_time: Duration,
    /// How long a client may read nothing of what it is sent. Default 30 s.
    pub write_time: Duration,
    /// How long a session may be left alone, and a connection that has none. Default 30 min. Then it is ended.
    pub idle: Duration,
    /// How many interpreters are ready for sessions that ask for nothing special. Default 2.
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
