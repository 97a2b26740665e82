//! Bounds of what clients may do.

use std::time::Duration;

/// Bounds of what clients may do to a server. Make one with `default()` and change what differs.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// Maximum number of connections at once. Default 4,096. Further ones wait until another ends.
    pub connections: usize,
    /// Bytes of one request's body. Default 48 MiB.
    pub body_bytes: usize,
    /// Bytes of all requests and answers that are in memory at once. Default 512 MiB. Then requests are refused (503), and answers that
    /// find no room in time.
    pub bodies_bytes: usize,
    /// Maximum bytes of a request's line and headers. Default 16 KiB; at least 8 KiB. Requests that are not complete
    /// yet hold at most `connections` times `header_bytes` of memory: 64 MiB by default.
    pub header_bytes: usize,
    /// How long a client may take to send a request's headers, and between two requests. Default 60 s.
    pub header_time: Duration,
    /// How long a client may take to send a request's body. Default 30 s.
    pub body_time: Duration,
    /// Names by which the server is called in `Host`, with or without a port. Default: the address it listens on, and `localhost`. Other
    /// names are refused, so that no page of the web can have a browser ask a server that only this machine reaches.
    pub hosts: Vec<String>,
    /// Origins of pages that may ask (`Origin`), such as `https://app.example.com`. Default: the server's own.
    pub origins: Vec<String>,
    /// Whether there is a page at `/`. Default: yes.
    pub page: bool,
    /// Whether the routes are there that clients of E2B ask. Default: no.
    pub e2b: bool,
    /// Answers that are held for requests of one token with an `Idempotency-Key`. Default 10,000, for ten minutes.
    pub idempotency_keys: usize,
    /// Bytes of these answers, for each token. Default 64 MiB.
    pub idempotency_bytes: usize,
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
            idempotency_bytes: 64 << 20,
        }
    }
}
