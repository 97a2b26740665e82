//! The `network` table of a policy, and its validation.

use std::collections::BTreeMap;

use glovebox_core::PolicyError;
use serde::{Deserialize, Serialize};
use url::{Host, Url};

use super::pattern::{AddressRules, UrlPatterns};

/// Network access for scripts and its limits. Default: no access.
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
    /// Allowed URLs: `SCHEME://HOST[:PORT][/PATH]`, where the scheme is `https` or `http`. Default: none, which means
    /// no network.
    ///
    /// A host `*.example.com` matches every name below `example.com`, but not `example.com` itself. Without a path,
    /// every path is allowed. A path allows only itself. A path with a final `*` allows every path with that prefix.
    /// Query strings are not restricted.
    pub allow: Vec<String>,
    /// Non-public address ranges that requests may reach, such as `127.0.0.0/8`. Default: none.
    pub allow_private: Vec<String>,
    /// Allowed methods. Default: `GET`, `HEAD`, `POST`, `PUT`, `PATCH`, `DELETE` and `OPTIONS`. Other methods are not
    /// supported.
    pub methods: Vec<String>,
    /// Maximum number of requests in one execution. Each request is also charged as a tool call. Redirects that the
    /// host follows are not counted separately. Default: 50.
    pub request_count: u64,
    /// Maximum size of a request body in bytes. Default: 1 MiB.
    pub request_bytes: u64,
    /// Maximum size of a response body in bytes, after decompression. Default: 4 MiB.
    pub response_bytes: u64,
    /// The timeout of a request in milliseconds, including redirects and the body. Default: 10,000.
    /// `limits.tool_timeout_ms` and `limits.timeout_ms` still apply.
    pub timeout_ms: u64,
    /// Maximum number of redirects that the host follows for one request. Default: 5, which is also the upper bound.
    pub redirects: u32,
    /// Secrets, by the name of the environment variable that contains the placeholder. Default: none.
    pub secrets: BTreeMap<String, SecretPolicy>,
}

/// The source and the destination of a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SecretPolicy {
    /// The host environment variable that contains the secret. Read when a sandbox is built.
    pub env: String,
    /// The network host that receives the secret, in the form used in URLs. With a port, only that port of the host
    /// receives the secret.
    pub host: String,
}

impl SecretPolicy {
    /// Returns the policy for the secret in the host environment variable `env`, which is sent only to the network host
    /// `host`.
    #[must_use]
    pub fn new(env: impl Into<String>, host: impl Into<String>) -> Self {
        Self { env: env.into(), host: host.into() }
    }

    /// Returns `true` if the URL's server may receive the secret.
    #[must_use]
    pub fn is_for(&self, url: &Url) -> bool {
        self.destination().is_some_and(|(host, port)| {
            url.host().map(|host| host.to_owned()) == Some(host)
                && port.is_none_or(|port| url.port_or_known_default() == Some(port))
        })
    }

    /// Checks the names. Does not read the secret.
    fn check(&self, name: &str) -> Result<(), PolicyError> {
        let refuse = |reason: &str| Err(wrong(format!("secrets.{name}"), reason));
        if name.is_empty() || name.contains(['=', '\0']) {
            return refuse("the name must be a valid environment variable name, without `=` or NUL");
        }
        if self.env.is_empty() || self.env.contains(['=', '\0']) {
            return refuse("`env` must name the host's environment variable that contains the secret");
        }
        match self.destination() {
            Some(_) => Ok(()),
            None => refuse("`host` must be a single host as in a URL, such as `api.example.com`"),
        }
    }

    fn destination(&self) -> Option<(Host, Option<u16>)> {
        let text = &self.host;
        if text.contains(['/', '\\', '@', '?', '#', '*']) || text.contains(char::is_whitespace) {
            return None;
        }
        // The parser drops the default port of `http`, so find `:80` in the text.
        let url = Url::parse(&format!("http://{text}")).ok()?;
        let port = url.port().or_else(|| text.ends_with(":80").then_some(80));
        Some((url.host()?.to_owned(), port))
    }
}

/// The supported HTTP methods.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Maximum size of a message without its body, in bytes: URL, headers and JSON escapes.
const ENVELOPE_BYTES: u64 = 1 << 20;

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
    /// Maximum number of patterns and of address ranges.
    pub const MAX_PATTERNS: usize = 256;
    /// Maximum number of secrets.
    pub const MAX_SECRETS: usize = 64;
    /// Maximum number of redirects.
    pub const MAX_REDIRECTS: u32 = 5;
    /// The prefix of the placeholders that scripts see instead of secrets.
    pub const PLACEHOLDER_START: &str = "glovebox-secret-";

    /// Returns a policy that allows these URL patterns.
    #[must_use]
    pub fn allowing<T: Into<String>>(patterns: impl IntoIterator<Item = T>) -> Self {
        Self { allow: patterns.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Returns `true` if scripts have network access.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !self.allow.is_empty()
    }

    /// Returns the maximum size of a JSON message from or to a script, in bytes. Base64 enlarges a body by a third, and
    /// JSON escapes enlarge text.
    pub(crate) fn message_bytes(&self) -> u64 {
        self.request_bytes.max(self.response_bytes).saturating_mul(2).saturating_add(ENVELOPE_BYTES)
    }
}

/// Creates the error for an invalid value at `key`.
pub(super) fn wrong(key: impl Into<String>, reason: impl Into<String>) -> PolicyError {
    PolicyError::Network { key: key.into(), reason: reason.into() }
}

impl NetworkPolicy {
    /// Checks the values of all keys.
    pub(crate) fn check(&self) -> Result<(), PolicyError> {
        for (key, value, min, max) in [
            ("request_count", self.request_count, 0, 1_000_000),
            ("request_bytes", self.request_bytes, 0, 64 << 20),
            ("response_bytes", self.response_bytes, 0, 64 << 20),
            ("timeout_ms", self.timeout_ms, 1, 365 * 24 * 3600 * 1000),
            ("redirects", u64::from(self.redirects), 0, u64::from(Self::MAX_REDIRECTS)),
        ] {
            if !(min..=max).contains(&value) {
                return Err(wrong(key, format!("the value is {value}; it must be between {min} and {max}")));
            }
        }
        for (key, count, max) in [
            ("allow", self.allow.len(), Self::MAX_PATTERNS),
            ("allow_private", self.allow_private.len(), Self::MAX_PATTERNS),
            ("secrets", self.secrets.len(), Self::MAX_SECRETS),
        ] {
            if count > max {
                return Err(wrong(key, format!("it has {count} entries; the maximum is {max}; remove some")));
            }
        }
        if let Some(method) = self.methods.iter().find(|method| !METHODS.contains(&method.as_str())) {
            return Err(wrong("methods", format!("`{method}` is not one of {}", METHODS.join(", "))));
        }
        UrlPatterns::new(&self.allow)?;
        AddressRules::new(&self.allow_private)?;
        self.secrets.iter().try_for_each(|(name, secret)| secret.check(name))
    }

    /// Rejects variables with the name of a secret. Accepts variables that contain placeholders, because the policy of
    /// an existing sandbox contains them.
    pub(crate) fn check_environment(&self, env: &BTreeMap<String, String>) -> Result<(), PolicyError> {
        let is_taken = |name: &&String| env.get(*name).is_some_and(|value| !value.starts_with(Self::PLACEHOLDER_START));
        self.secrets.keys().find(is_taken).map_or(Ok(()), |name| {
            Err(wrong(format!("secrets.{name}"), "`env` has a variable with the same name; rename one of them"))
        })
    }
}
