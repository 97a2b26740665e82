//! Configuration of the HTTP server.

use std::time::Duration;

/// Options of the HTTP server and limits on its clients. Create it with `default()` and set the fields that differ.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// Maximum number of open connections. Default 4,096. Further connections wait until another one ends.
    pub connections: usize,
    /// Maximum size of a request body, in bytes. Default 48 MiB.
    pub body_bytes: usize,
    /// Memory for all requests and responses together, in bytes. Default 512 MiB. Requests without room get status 503,
    /// as do responses that find no room in time.
    pub bodies_bytes: usize,
    /// Maximum bytes of a request's line and headers. Default 16 KiB; at least 8 KiB. Requests that are not complete
    /// yet hold at most `connections` times `header_bytes` of memory: 64 MiB by default.
    pub header_bytes: usize,
    /// Timeout for receiving the headers of a request, and idle time between two requests. Default 60 s.
    pub header_time: Duration,
    /// Timeout for receiving a request body. Responses wait for room as long. Default 30 s.
    pub body_time: Duration,
    /// Names that requests may use in `Host`, with or without a port. Default: the address that the server listens on,
    /// `localhost`, and the loopback addresses. Requests with other names are refused, so that no web page can reach a
    /// local server by DNS rebinding.
    pub hosts: Vec<String>,
    /// Origins of web pages that may send requests (`Origin`), such as `https://app.example.com`. Default: only the
    /// server's own origin, which is always allowed.
    pub origins: Vec<String>,
    /// Serves the web page at `/`. Default: yes.
    pub page: bool,
    /// Serves the routes for E2B's clients. Default: no.
    pub e2b: bool,
    /// Maximum number of responses per token that are stored for requests with an `Idempotency-Key`. Default 10,000.
    /// Each response is stored for ten minutes.
    pub idempotency_keys: usize,
    /// Maximum total size of the stored responses of each token, in bytes. Default 64 MiB.
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
