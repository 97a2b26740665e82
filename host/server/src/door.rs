//! The ways into a service.

/// Through which door something came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Door {
    /// HTTP and JSON.
    Http,
    /// The Model Context Protocol.
    Mcp,
    /// JSON-RPC over a socket of the user's own.
    Daemon,
    /// The routes of E2B's clients.
    E2b,
}

impl Door {
    /// Its name in metrics and in the audit log.
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
