//! The table `network` of a policy.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use glovebox_core::PolicyError;

/// What scripts may reach of the network, and how much of it. By default nothing.
///
/// ```
/// # use glovebox::Policy;
/// let policy = Policy::from_toml(r#"
///     [network]
///     allow = ["https://api.example.com/v1/*", "https://*.example.org"]
///     response_bytes = 1_000_000
///     [network.secrets]
///     API_KEY = { env = "REAL_KEY", host = "api.example.com" }
/// "#)?;
/// assert!(policy.network.is_on());
/// # Ok::<(), glovebox::PolicyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct NetworkPolicy {
    /// Where requests may go: `SCHEME://HOST[:PORT][/PATH]`, with `https` or `http`. A host `*.example.com` is every name below
    /// `example.com`, and not itself. Without a path all are meant, with one that one alone, and with a `*` at its end all that begin so. A
    /// query is the script's in any case. Default: none, and no network.
    pub allow: Vec<String>,
    /// Ranges of addresses, such as `127.0.0.0/8`, that may be reached although they are not public. Default: none.
    pub allow_private: Vec<String>,
    /// The methods of requests. Default: `GET`, `HEAD`, `POST`, `PUT`, `PATCH`, `DELETE`, `OPTIONS`; there are no others.
    pub methods: Vec<String>,
    /// Requests of one execution; each counts as a call of a tool as well. Redirects that the host follows count with theirs. Default 50.
    pub request_count: u64,
    /// Bytes of a request's body. Default 1 MiB.
    pub request_bytes: u64,
    /// Bytes of a response's body, decompressed. Default 4 MiB.
    pub response_bytes: u64,
    /// Milliseconds that a request may take, redirects and its body included. Default 10,000. `limits.tool_timeout_ms` and
    /// `limits.timeout_ms` hold as well.
    pub timeout_ms: u64,
    /// Redirects that the host follows for one request. Default 5, and never more.
    pub redirects: u32,
    /// Secrets, by the names of the environment variables in which scripts find placeholders for them.
    pub secrets: BTreeMap<String, SecretPolicy>,
}

/// Where a secret comes from, and for whom it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SecretPolicy {
    /// The host's environment variable that has it. It is read when a sandbox is built.
    pub env: String,
    /// The one host that it is sent to, as in a URL, with a port if only that one is meant.
    pub host: String,
}

impl SecretPolicy {
    /// The secret in this environment variable of the host, for this host of the network.
    #[must_use]
    pub fn new(env: impl Into<String>, host: impl Into<String>) -> Self {
        Self { env: env.into(), host: host.into() }
    }
}

/// The methods that there are.
pub(super) const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// What a message has around a body: address, headers, and how JSON escapes them.
const ENVELOPE_BYTES: u64 = 1 << 20;

/// What every placeholder begins with.
pub(super) const PLACEHOLDER_START: &str = "glovebox-secret-";

impl Default for NetworkPolicy {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            allow_private: Vec::new(),
            methods: METHODS.map(str::to_owned).to_vec(),
            request_count: 50,
            request_bytes: 1 << 20,
            response_bytes: 4 << 20,
            timeout_ms: 10_000,
            redirects: Self::MAX_REDIRECTS,
            secrets: BTreeMap::new(),
        }
    }
}

impl NetworkPolicy {
    /// The most patterns, and the most ranges.
    pub const MAX_PATTERNS: usize = 256;
    /// The most secrets.
    pub const MAX_SECRETS: usize = 64;
    /// The most redirects.
    pub const MAX_REDIRECTS: u32 = 5;

    /// A policy that allows these addresses.
    #[must_use]
    pub fn allowing<T: Into<String>>(patterns: impl IntoIterator<Item = T>) -> Self {
        Self { allow: patterns.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Whether scripts have any of the network.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !self.allow.is_empty()
    }

    /// The most bytes of a message of a script, or to it, as JSON text: bodies that are no text are a third longer there, and text has
    /// characters that JSON escapes.
    pub(crate) fn message_bytes(&self) -> u64 {
        self.request_bytes.max(self.response_bytes).saturating_mul(2).saturating_add(ENVELOPE_BYTES)
    }
}

/// Why it cannot be.
pub(super) fn wrong(key: impl Into<String>, reason: impl Into<String>) -> PolicyError {
    PolicyError::Network { key: key.into(), reason: reason.into() }
}
