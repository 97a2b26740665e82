//! The server's configuration, a TOML file.

use std::{collections::BTreeSet, net::SocketAddr, num::NonZeroU32, path::PathBuf, time::Duration};

use glovebox::{Policy, PolicyError, UrlPatterns, escaped};
use glovebox_fleet::{FleetUrl, FleetUrlError};
use glovebox_sessions::{Save, SessionId, StorePolicy};
use serde::{Deserialize, Serialize};

use crate::{
    Admission, AuditTable, SuspensionLimits,
    http::{HttpConfig, TokenHash},
    workers::{MAX_WORKERS, SESSION_BYTES, SESSION_FILES, WORKER_BYTES, WORKER_FILES, WorkersTable},
};

/// The contents of the server's TOML configuration file. Every top-level key has a default.
///
/// ```
/// use glovebox_server::ServerConfig;
///
/// let config = ServerConfig::from_toml(r#"
///     listen = "127.0.0.1:8700"
///     runtimes = ["python", "javascript"]
///     drain_ms = 30_000
///     [policy.limits]
///     timeout_ms = 5_000
///     [sessions]
///     idle_ms = 60_000
///     [admission]
///     running = 16
///     [http]
///     hosts = ["box.example.com"]
///     [audit]
///     file = "/var/log/glovebox/audit.jsonl"
///     [[tokens]]
///     name = "ci"
///     sha256 = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
///     executions_per_minute = 600
/// "#)?;
/// assert_eq!(config.policy.limits.timeout_ms, 5_000);
/// assert_eq!(config.tokens.len(), 1);
/// # Ok::<(), glovebox_server::ConfigError>(())
/// ```
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ServerConfig {
    /// The address to listen on. Default `127.0.0.1:8700`.
    pub listen: SocketAddr,
    /// The names or aliases of the runtimes to serve. Default: the default runtime of each language.
    pub runtimes: Vec<String>,
    /// The directory or object-store URL for stored sessions, with one subdirectory or prefix per token. Default: the
    /// directory `server` in the state directory.
    pub store: Option<PathBuf>,
    /// A file with the secret that seals stored sessions and suspended executions, 32 to 64 bytes. Default: none, so
    /// they are not sealed.
    pub key_file: Option<PathBuf>,
    /// The fleet that stores and runs the sessions: `restate://HOST[:INGRESS][?admin=PORT]`. Default: none; the server
    /// stores and runs them.
    pub fleet: Option<String>,
    /// Maximum time in milliseconds for running executions to finish at shutdown, before they are cancelled. Default
    /// 30,000.
    pub drain_ms: u64,
    /// The policy granted to tokens that do not set `policy`.
    pub policy: Policy,
    /// Rules for saving sessions and evicting them from memory.
    pub sessions: StorePolicy,
    /// Limits on concurrent executions.
    pub admission: Admission,
    /// Limits on connections and requests.
    pub http: HttpConfig,
    /// The web page at `/`.
    pub page: PageTable,
    /// The audit log. Default: none.
    pub audit: Option<AuditTable>,
    /// Tools that requests define.
    pub tools: ToolsTable,
    /// Routes for E2B clients. Default: disabled.
    pub e2b: E2bTable,
    /// Worker processes that run all executions. Default: one per processor.
    pub workers: WorkersTable,
    /// Export of traces. Default: none.
    pub telemetry: TelemetryTable,
    /// The tokens with which clients authenticate.
    pub tokens: Vec<TokenTable>,
}

/// The settings of tools that requests define.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ToolsTable {
    /// Patterns of the URLs that tools may use for callbacks, for tokens that do not set `callbacks`. Default: none.
    pub callbacks: Vec<String>,
    /// A file with the secret that signs callbacks: `whsec_` followed by 24 to 64 bytes in base64. Required with
    /// `callbacks`.
    pub secret_file: Option<PathBuf>,
    /// Maximum number of suspended executions and unread results across all tokens. Default 64.
    pub suspended: Option<usize>,
    /// Maximum time in milliseconds that a suspended execution waits for its next answer, before it is cancelled.
    /// Default 60,000.
    pub suspended_ms: Option<u64>,
    /// The directory or object-store URL for suspended executions that requests with `suspend` store, with one
    /// subdirectory or prefix per token. Default: in the sessions' store; with `fleet`, none. All servers of a fleet
    /// need the same store.
    pub suspended_store: Option<PathBuf>,
}

/// The settings of the routes for E2B clients.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct E2bTable {
    /// `true` to serve the routes that E2B clients call. Default `false`.
    pub enabled: bool,
}

/// The settings for the export of traces.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TelemetryTable {
    /// The URL of an OpenTelemetry collector that accepts OTLP over HTTP: `http://HOST:PORT`. Default: none.
    pub otlp: Option<String>,
}

/// The settings of the web page at `/`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PageTable {
    /// `true` to serve the page. Default `true`.
    pub enabled: bool,
}

impl Default for PageTable {
    fn default() -> Self {
        Self { enabled: true }
    }
}

/// A token with which a client authenticates.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TokenTable {
    /// The tenant's name, used in the audit log and as the directory name in the store. Follows the rules for session
    /// names.
    pub name: String,
    /// The SHA-256 of the token, in hexadecimal. `glovebox serve --new-token NAME` creates a token and prints its hash.
    pub sha256: String,
    /// The policy granted to this token. Default: the server's `policy`.
    pub policy: Option<Policy>,
    /// Maximum number of sessions. Default 1,000.
    pub sessions: Option<usize>,
    /// Maximum total size of the tenant's sessions and suspended executions in the store, in bytes. Default 4 GiB.
    pub stored_bytes: Option<u64>,
    /// Maximum number of executions and session operations that run, wait or are suspended simultaneously. Default 64.
    pub executions_at_once: Option<usize>,
    /// Maximum number of executions per minute. Syntax checks, reading or setting a variable, and closing a session
    /// count as executions. Default: unlimited.
    pub executions_per_minute: Option<NonZeroU32>,
    /// Patterns of the URLs that tools may use for callbacks in requests with this token. Default: `callbacks` in
    /// `[tools]`.
    pub callbacks: Option<Vec<String>>,
    /// Maximum number of suspended executions and unread results. Default 16.
    pub suspended: Option<usize>,
    /// Maximum number of suspended executions in the store. Default 1,000.
    pub stored_suspended: Option<usize>,
    /// `true` if this token can read the metrics of all tokens at `/metrics`, not only its own. Default `false`.
    #[serde(default)]
    pub metrics: bool,
}

/// An invalid configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A syntax error in the TOML, an unknown key, or a value of the wrong type.
    #[error("{0}")]
    Syntax(String),
    /// An invalid policy.
    #[error("{of}: {source}")]
    Policy {
        /// The location of the policy: the `policy` key, or the token with the policy.
        of: String,
        /// The error in the policy.
        source: PolicyError,
    },
    /// An invalid URL pattern in `callbacks`.
    #[error("`callbacks`: {0}")]
    Callbacks(#[from] glovebox::UrlPatternError),
    /// The fleet's URL is invalid.
    #[error("`fleet`: {0}")]
    Fleet(#[from] FleetUrlError),
    /// Any other invalid value, or settings that exclude each other. The message names the settings.
    #[error("{0}")]
    Invalid(String),
}

fn invalid(message: impl Into<String>) -> Result<(), ConfigError> {
    Err(ConfigError::Invalid(message.into()))
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8700)),
            runtimes: Vec::new(),
            store: None,
            key_file: None,
            fleet: None,
            drain_ms: 30_000,
            policy: Policy::default(),
            sessions: StorePolicy::default(),
            admission: Admission::default(),
            http: HttpConfig::default(),
            page: PageTable::default(),
            audit: None,
            tools: ToolsTable::default(),
            e2b: E2bTable::default(),
            workers: WorkersTable::default(),
            telemetry: TelemetryTable::default(),
            tokens: Vec::new(),
        }
    }
}

impl ServerConfig {
    /// Parses and checks a configuration.
    ///
    /// # Errors
    /// Fails on syntax errors, unknown keys and invalid values. The error names the key.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text).map_err(|error| ConfigError::Syntax(error.to_string()))?;
        config.check()?;
        Ok(config)
    }

    /// Checks constraints that the types do not express.
    ///
    /// # Errors
    /// Fails on the first invalid value.
    pub fn check(&self) -> Result<(), ConfigError> {
        let policy = |of: String| move |source| ConfigError::Policy { of, source };
        self.policy.check().map_err(policy("`policy`".into()))?;
        for (name, value) in [
            ("admission.running", self.admission.running),
            ("admission.in_fleet", self.admission.in_fleet),
            ("http.connections", self.http.connections),
            ("http.body_bytes", self.http.body_bytes),
            ("http.bodies_bytes", self.http.bodies_bytes),
        ] {
            if value == 0 {
                return invalid(format!("`{name}` is 0; remove it or set a positive number"));
            }
        }
        let count = self.workers.count;
        if count > MAX_WORKERS {
            return invalid(format!("`workers.count` is {count}; the maximum is {MAX_WORKERS}; use one per processor"));
        }
        // With `on-hibernate`, a session would be saved only after its executions are acknowledged.
        if self.sessions.save != Save::AfterEach {
            return invalid(
                "`sessions.save` must not be `on-hibernate`: the server saves sessions before it responds; remove the setting",
            );
        }
        if let Some(url) = &self.fleet {
            url.parse::<FleetUrl>()?;
            for (is_set, what, why) in [
                (self.store.is_some(), "store", "the fleet's nodes store the sessions"),
                (
                    self.key_file.is_some() && self.tools.suspended_store.is_none(),
                    "key_file",
                    "the fleet's nodes seal the sessions, and without `tools.suspended_store` nothing else is stored",
                ),
                (self.e2b.enabled, "e2b", "a fleet does not support session files"),
            ] {
                if is_set {
                    return invalid(format!(
                        "`{what}` is not supported with `fleet` (`--fleet`): {why}; remove one of them"
                    ));
                }
            }
        }
        let of_tokens = self.tokens.iter().filter_map(|token| token.callbacks.as_ref());
        for callbacks in of_tokens.chain([&self.tools.callbacks]) {
            if !UrlPatterns::new(callbacks)?.is_empty() && self.tools.secret_file.is_none() {
                return invalid(
                    "`callbacks` requires `tools.secret_file`; set it to the file that contains the secret used to sign calls",
                );
            }
        }
        let (mut names, mut hashes) = (BTreeSet::new(), BTreeSet::new());
        for token in &self.tokens {
            let wrong = |reason: &str| invalid(format!("token `{}`: {reason}", escaped(&token.name)));
            if SessionId::new(token.name.as_str()).is_err() {
                return wrong("the name must be 1 to 64 letters, digits, `.`, `_` or `-`, without a leading `.`");
            }
            if TokenHash::from_hex(&token.sha256).is_none() {
                return wrong(
                    "`sha256` must be 64 hexadecimal digits; create them with `glovebox serve --new-token NAME`",
                );
            }
            if !names.insert(token.name.to_ascii_lowercase()) {
                return wrong("another token has this name; rename one of them");
            }
            if !hashes.insert(token.sha256.to_ascii_lowercase()) {
                return wrong(
                    "another token has this `sha256`; create a new one with `glovebox serve --new-token NAME`",
                );
            }
            if let Some(own) = &token.policy {
                own.check().map_err(policy(format!("the policy of token `{}`", token.name)))?;
            }
        }
        Ok(())
    }

    /// Returns the limits on a worker process, with defaults filled in: maximum private memory in bytes, and maximum
    /// number of open files. The defaults allow `sessions.live_count` live sessions per token.
    pub fn worker_limits(&self) -> (u64, u64) {
        let each = u64::try_from(self.sessions.live_count).unwrap_or(u64::MAX);
        // Without tokens, there is a single tenant with the server's policy.
        let policies = self.tokens.iter().map(|token| token.policy.as_ref().unwrap_or(&self.policy));
        let tenants = if self.tokens.is_empty() { vec![&self.policy] } else { policies.collect() };
        let (mut bytes, mut files) = (WORKER_BYTES, WORKER_FILES);
        for policy in tenants {
            let session = SESSION_BYTES.saturating_add(policy.limits.memory_bytes);
            bytes = bytes.saturating_add(each.saturating_mul(session));
            files = files.saturating_add(each.saturating_mul(SESSION_FILES));
        }
        (self.workers.memory_bytes.unwrap_or(bytes), self.workers.open_files.unwrap_or(files))
    }

    /// Returns the limits on suspended executions, with defaults filled in.
    pub fn suspension(&self) -> SuspensionLimits {
        let default = SuspensionLimits::default();
        SuspensionLimits {
            count: self.tools.suspended.unwrap_or(default.count),
            time: self.tools.suspended_ms.map_or(default.time, Duration::from_millis),
        }
    }

    /// Returns the options of the HTTP server, including the settings in `[page]` and `[e2b]`.
    pub fn http(&self) -> HttpConfig {
        HttpConfig { page: self.page.enabled, e2b: self.e2b.enabled, ..self.http.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

    #[test]
    fn empty_configuration_has_the_defaults() {
        let config = ServerConfig::from_toml("").unwrap();
        assert_eq!(config.listen.to_string(), "127.0.0.1:8700");
        assert_eq!(config.admission, Admission::default());
        assert_eq!(config.http().connections, 1_024);
        assert!(config.http().page && !config.http().e2b);
        assert!(ServerConfig::from_toml("[e2b]\nenabled = true").unwrap().http().e2b);
        assert!(!ServerConfig::from_toml("[page]\nenabled = false").unwrap().http().page);
    }

    #[test]
    fn worker_limits_grow_with_live_sessions() {
        const MIB: u64 = 1 << 20;
        let limits = |text: &str| ServerConfig::from_toml(text).unwrap().worker_limits();
        let none = limits("[sessions]\nlive_count = 0");
        assert_eq!(none, (64 << 30, 4_096));
        let one = limits("[sessions]\nlive_count = 1\n[policy.limits]\nmemory_bytes = 16_777_216");
        assert_eq!(one, (none.0 + (256 + 16) * MIB, none.1 + 4));
        let token = |name: &str, digit: u8| {
            format!("[[tokens]]\nname = \"{name}\"\nsha256 = \"{}\"\n", digit.to_string().repeat(64))
        };
        let own = "[tokens.policy.limits]\nmemory_bytes = 33_554_432\n";
        let two = format!("[sessions]\nlive_count = 10\n{}{own}{}{own}", token("a", 1), token("b", 2));
        assert_eq!(limits(&two), (none.0 + 20 * (256 + 32) * MIB, none.1 + 80));
        let max = format!("[sessions]\nlive_count = {}", i64::MAX);
        assert_eq!(limits(&max), (u64::MAX, u64::MAX));
        assert_eq!(limits("[workers]\nmemory_bytes = 1\nopen_files = 2"), (1, 2));
    }

    #[test]
    fn configuration_error_names_the_invalid_setting() {
        let token = |name: &str, sha256: &str| format!("[[tokens]]\nname = \"{name}\"\nsha256 = \"{sha256}\"\n");
        for (text, expected) in [
            ("listem = \"x\"", "listem"),
            ("listen = \"nowhere\"", "invalid socket address"),
            ("[policy.limits]\nfule = 1", "fule"),
            ("[policy.session]\ncheckpoints_retained = 0", "`policy`: "),
            ("[sessions]\nsave = \"on-hibernate\"", "`sessions.save` must not be `on-hibernate`"),
            ("[admission]\nin_fleet = 0", "`admission.in_fleet` is 0"),
            ("fleet = \"http://engine\"", "`fleet`: `http://engine` is not the URL of a fleet"),
            (
                "fleet = \"restate://engine\"\nstore = \"/x\"",
                "`store` is not supported with `fleet` (`--fleet`): the fleet's nodes store",
            ),
            ("fleet = \"restate://engine\"\nkey_file = \"/x\"", "`key_file` is not supported with `fleet`"),
            (
                "fleet = \"restate://engine\"\nstore = \"/x\"\n[tools]\nsuspended_store = \"/y\"",
                "`store` is not supported with `fleet`",
            ),
            ("fleet = \"restate://engine\"\n[e2b]\nenabled = true", "`e2b` is not supported with `fleet`"),
            ("[admission]\nrunning = 0", "`admission.running` is 0"),
            ("[workers]\ncount = 257", "`workers.count` is 257; the maximum is 256"),
            ("[http]\nbody_bytes = 0", "`http.body_bytes` is 0"),
            (&token("a/b", HASH), "token `a/b`: the name must be"),
            (&token("a", "12"), "token `a`: `sha256` must be 64"),
            (
                &(token("a", HASH) + &token("a", &HASH.replace('2', "3"))),
                "token `a`: another token has this name; rename one of them",
            ),
            (
                &(token("a", HASH) + &token("b", &HASH.to_uppercase())),
                "token `b`: another token has this `sha256`; create a new one with `glovebox serve --new-token NAME`",
            ),
            (&(token("a", HASH) + "executions_per_minute = 0"), "executions_per_minute"),
            ("[tools]\ncallbacks = [\"ftp://a.example\"]", "`callbacks`: `ftp://a.example` begins with neither"),
            ("[tools]\ncallbacks = [\"https://a.example/*\"]", "`callbacks` requires `tools.secret_file`"),
            (&(token("a", HASH) + "callbacks = [\"https://a.example/*\"]"), "`callbacks` requires `tools.secret_file`"),
        ] {
            let error = ServerConfig::from_toml(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
