//! The doors of a service.

/// The protocol through which a request arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Door {
    /// HTTP and JSON.
    Http,
    /// The Model Context Protocol.
    Mcp,
    /// JSON-RPC over a Unix socket of the current user, or over standard input and output.
    Daemon,
    /// The E2B routes.
    E2b,
}

impl Door {
    /// The door's name in metrics and in the audit log.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Mcp => "mcp",
            Self::Daemon => "daemon",
            Self::E2b => "e2b",
        }
    }
}
