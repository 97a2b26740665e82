//! A server's configuration: one file in TOML.

use std::{collections::BTreeSet, net::SocketAddr, num::NonZeroU32, path::PathBuf, time::Duration};

use glovebox::{Policy, PolicyError, Save, SessionId, StorePolicy, UrlPatterns, escaped};
use glovebox_fleet::{FleetUrl, FleetUrlError};
use serde::{Deserialize, Serialize};

use crate::{
    Admission, Suspension,
    http::{HttpConfig, TokenHash},
};

/// More workers than any machine has use for.
const MAX_WORKERS: usize = 256;

/// Everything about a server, as its file says it. All of it has a default.
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
    /// Where to listen. Default `127.0.0.1:8700`.
    pub listen: SocketAddr,
    /// The runtimes that are served. Default: the default of each language.
    pub runtimes: Vec<String>,
    /// The directory of the sessions; each token has one in it. Default: `server` beside the sessions of the command.
    pub store: Option<PathBuf>,
    /// A file with a secret of 32 to 64 bytes that seals sessions. Default: they are not sealed.
    pub key_file: Option<PathBuf>,
    /// The fleet that has the sessions in place of a store: `restate://HOST[:INGRESS][?admin=PORT]`. Default: none.
    pub fleet: Option<String>,
    /// Milliseconds that executions have to end in when the server is told to. Default 30,000. Then they are cancelled.
    pub drain_ms: u64,
    /// What every token is granted that has no policy of its own.
    pub policy: Policy,
    /// When sessions are written, and when they give up their memory.
    pub sessions: StorePolicy,
    /// How many executions there are at once.
    pub admission: AdmissionTable,
    /// Bounds of what clients may do.
    pub http: HttpTable,
    /// The page at `/`.
    pub page: PageTable,
    /// The audit log. Default: none.
    pub audit: Option<AuditTable>,
    /// Tools that requests bring along.
    pub tools: ToolsTable,
    /// The routes that clients of E2B ask.
    pub e2b: E2bTable,
    /// Processes in which everything is executed. Default: none, and it is done in the server's own.
    pub workers: WorkersTable,
    /// Where traces go. Default: nowhere.
    pub telemetry: TelemetryTable,
    /// Who may ask.
    pub tokens: Vec<TokenTable>,
}

/// Tools that requests bring along.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ToolsTable {
    /// The addresses that may be called back, of every token that has no list of its own. Default: none.
    pub callbacks: Vec<String>,
    /// A file with the secret that signs these calls: `whsec_` and base64 of 24 to 64 bytes.
    pub secret_file: Option<PathBuf>,
    /// How many executions may wait for answers at once, of all tokens.
    pub suspended: Option<usize>,
    /// For how many milliseconds one waits.
    pub suspended_ms: Option<u64>,
}

/// The routes that clients of E2B ask.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct E2bTable {
    /// Whether they are there. Default: no.
    pub enabled: bool,
}

/// Where traces go.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TelemetryTable {
    /// A collector of OpenTelemetry: `http://HOST:PORT`, over OTLP. Default: none.
    pub otlp: Option<String>,
}

/// As [`WorkersConfig`](crate::WorkersConfig), and the limits of each.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct WorkersTable {
    /// How many there are. Default 0: everything is executed in the server's own process. At most 256.
    pub count: usize,
    /// Bytes of memory that each may have of its own (`RLIMIT_DATA`). Default 64 GiB: what is mapped counts, used or not.
    pub memory_bytes: u64,
    /// Files that each may have open. Default 4,096.
    pub open_files: u64,
}

impl Default for WorkersTable {
    fn default() -> Self {
        Self { count: 0, memory_bytes: 64 << 30, open_files: 4_096 }
    }
}

/// As [`Admission`].
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct AdmissionTable {
    /// How many executions run at once.
    pub running: Option<usize>,
    /// How many may wait.
    pub waiting: Option<usize>,
    /// How many of a fleet are under way at once.
    pub in_fleet: Option<usize>,
    /// For how many milliseconds one waits.
    pub wait_ms: Option<u64>,
}

/// As [`HttpConfig`].
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct HttpTable {
    /// Connections at once.
    pub connections: Option<usize>,
    /// Bytes of one request's body.
    pub body_bytes: Option<usize>,
    /// Bytes of all bodies in memory at once.
    pub bodies_bytes: Option<usize>,
    /// Names by which the server is called.
    pub hosts: Vec<String>,
    /// Origins of pages that may ask.
    pub origins: Vec<String>,
}

/// The page at `/`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PageTable {
    /// Whether there is one. Default: yes.
    pub enabled: bool,
}

impl Default for PageTable {
    fn default() -> Self {
        Self { enabled: true }
    }
}

/// Where what was done is written down.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct AuditTable {
    /// The file, which is appended to.
    pub file: PathBuf,
    /// Whether it has the scripts' source. Default: only its SHA-256.
    #[serde(default)]
    pub source: bool,
}

/// One who may ask.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TokenTable {
    /// The name in the audit log, and of the directory of its sessions: as a session's.
    pub name: String,
    /// The SHA-256 of the token, in hexadecimal: `glovebox serve --new-token NAME` makes both.
    pub sha256: String,
    /// What it is granted, in place of the server's policy.
    pub policy: Option<Policy>,
    /// How many sessions it may have. Default 1,000.
    pub sessions: Option<usize>,
    /// How many bytes its sessions may take in the store. Default 4 GiB.
    pub stored_bytes: Option<u64>,
    /// How many of its executions may run or wait at once. Default 64.
    pub executions_at_once: Option<usize>,
    /// How many executions it may ask for in a minute. Default: any number.
    pub executions_per_minute: Option<NonZeroU32>,
    /// The addresses that may be called back for it, in place of those of `[tools]`.
    pub callbacks: Option<Vec<String>>,
    /// How many of its executions may wait for answers at once. Default 16.
    pub suspended: Option<usize>,
    /// Whether `/metrics` has what all tokens have used together, or what this one has. Default: this one.
    #[serde(default)]
    pub metrics: bool,
}

/// A configuration cannot be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// It is not TOML, or has what no configuration has.
    #[error("{0}")]
    Syntax(String),
    /// A policy cannot be.
    #[error("{of}: {source}")]
    Policy {
        /// Whose.
        of: String,
        /// Why not.
        source: PolicyError,
    },
    /// A token cannot be.
    #[error("token `{name}`: {reason}", name = escaped(.name))]
    Token {
        /// Its name.
        name: String,
        /// Why not.
        reason: &'static str,
    },
    /// Sessions would be saved later than their executions are acknowledged.
    #[error("`sessions.save` is `on-hibernate`; a server saves a session before it answers, so leave it out")]
    Save,
    /// An address of callbacks cannot be one.
    #[error("`callbacks`: {0}")]
    Callbacks(#[from] glovebox::UrlPatternError),
    /// Calls would not be signed.
    #[error("`callbacks` are allowed, and `tools.secret_file` does not say with what they are signed")]
    NoSecret,
    /// Workers do not do this.
    #[error(
        "`{0}` cannot be had with workers, which have no network; leave it out, or leave `workers` (`--workers`) out"
    )]
    NotInWorkers(&'static str),
    /// The fleet's URL is none.
    #[error("`fleet`: {0}")]
    Fleet(#[from] FleetUrlError),
    /// Where sessions are in a fleet this has no meaning, or is not to be had.
    #[error("`{what}` cannot be had with a fleet, {why}; leave it out, or leave `fleet` (`--fleet`) out")]
    NotWithFleet {
        /// What was asked for.
        what: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// There would be too many workers.
    #[error("`workers.count` is {count}; at most {MAX_WORKERS} are started, and one for each processor is enough")]
    Workers {
        /// How many were asked for.
        count: usize,
    },
    /// A number cannot be 0.
    #[error("`{0}` is 0; leave it out, or give a number")]
    Zero(&'static str),
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
            admission: AdmissionTable::default(),
            http: HttpTable::default(),
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
    /// Reads a configuration. Unknown keys and impossible values are errors that name the key.
    ///
    /// # Errors
    /// When it cannot be.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text).map_err(|error| ConfigError::Syntax(error.to_string()))?;
        config.check()?;
        Ok(config)
    }

    /// Checks what the types cannot.
    ///
    /// # Errors
    /// When something cannot be.
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
            if value == Some(0) {
                return Err(ConfigError::Zero(name));
            }
        }
        if self.workers.count > MAX_WORKERS {
            return Err(ConfigError::Workers { count: self.workers.count });
        }
        if self.sessions.save != Save::AfterEach {
            return Err(ConfigError::Save);
        }
        if self.workers.count > 0
            && let Some(what) = self.not_in_workers()
        {
            return Err(ConfigError::NotInWorkers(what));
        }
        if let Some(url) = &self.fleet {
            url.parse::<FleetUrl>()?;
            if let Some((what, why)) = self.not_with_fleet() {
                return Err(ConfigError::NotWithFleet { what, why });
            }
        }
        let of_tokens = self.tokens.iter().filter_map(|token| token.callbacks.as_ref());
        for callbacks in of_tokens.chain([&self.tools.callbacks]) {
            if !UrlPatterns::new(callbacks)?.is_empty() && self.tools.secret_file.is_none() {
                return Err(ConfigError::NoSecret);
            }
        }
        let (mut names, mut hashes) = (BTreeSet::new(), BTreeSet::new());
        for token in &self.tokens {
            let wrong = |reason| ConfigError::Token { name: token.name.clone(), reason };
            if SessionId::new(token.name.as_str()).is_err() {
                return Err(wrong("the name is 1 to 64 letters, digits, `.`, `_`, `-`, and no `.` in front"));
            }
            if TokenHash::from_hex(&token.sha256).is_none() {
                return Err(wrong("`sha256` is 64 hexadecimal digits; `glovebox serve --new-token NAME` makes them"));
            }
            if !names.insert(token.name.to_ascii_lowercase()) {
                return Err(wrong("another token has this name"));
            }
            if !hashes.insert(token.sha256.to_ascii_lowercase()) {
                return Err(wrong("another entry has this `sha256`"));
            }
            if let Some(own) = &token.policy {
                own.check().map_err(policy(format!("the policy of token `{}`", token.name)))?;
            }
        }
        Ok(())
    }

    /// What is asked for that workers do not do.
    fn not_in_workers(&self) -> Option<&'static str> {
        let has = |callbacks: &[String]| !callbacks.is_empty();
        let calls_back =
            has(&self.tools.callbacks) || self.tokens.iter().filter_map(|token| token.callbacks.as_deref()).any(has);
        let mut policies = self.tokens.iter().filter_map(|token| token.policy.as_ref()).chain([&self.policy]);
        match (calls_back, policies.any(|policy| policy.network.is_on()), self.e2b.enabled) {
            (true, ..) => Some("callbacks"),
            (_, true, _) => Some("policy.network"),
            (.., true) => Some("e2b"),
            _ => None,
        }
    }

    /// What is asked for that has no meaning where sessions are in a fleet, and why.
    fn not_with_fleet(&self) -> Option<(&'static str, &'static str)> {
        match self {
            _ if self.store.is_some() => Some(("store", "whose nodes store the sessions")),
            _ if self.key_file.is_some() => Some(("key_file", "whose nodes seal the sessions")),
            _ if self.workers.count > 0 => Some(("workers", "whose nodes execute what is done in sessions")),
            _ if self.e2b.enabled => Some(("e2b", "which has no files of sessions")),
            _ => None,
        }
    }

    /// How many executions there are at once.
    #[must_use]
    pub fn admission(&self) -> Admission {
        let AdmissionTable { running, waiting, in_fleet, wait_ms } = self.admission;
        let default = Admission::default();
        Admission {
            running: running.unwrap_or(default.running),
            waiting: waiting.unwrap_or(default.waiting),
            in_fleet: in_fleet.unwrap_or(default.in_fleet),
            wait: wait_ms.map_or(default.wait, Duration::from_millis),
        }
    }

    /// How many executions may wait for answers.
    #[must_use]
    pub fn suspension(&self) -> Suspension {
        let default = Suspension::default();
        Suspension {
            count: self.tools.suspended.unwrap_or(default.count),
            time: self.tools.suspended_ms.map_or(default.time, Duration::from_millis),
        }
    }

    /// Bounds of what clients may do.
    #[must_use]
    pub fn http(&self) -> HttpConfig {
        let HttpTable { connections, body_bytes, bodies_bytes, hosts, origins } = self.http.clone();
        let default = HttpConfig::default();
        HttpConfig {
            connections: connections.unwrap_or(default.connections),
            body_bytes: body_bytes.unwrap_or(default.body_bytes),
            bodies_bytes: bodies_bytes.unwrap_or(default.bodies_bytes),
            hosts,
            origins,
            page: self.page.enabled,
            ..default
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

    #[test]
    fn nothing_at_all_is_a_configuration() {
        let config = ServerConfig::from_toml("").unwrap();
        assert_eq!(config.listen.to_string(), "127.0.0.1:8700");
        assert_eq!(config.admission(), Admission::default());
        assert!(config.http().page);
        assert!(!ServerConfig::from_toml("[page]\nenabled = false").unwrap().http().page);
    }

    #[test]
    fn what_cannot_be_is_named() {
        let token = |name: &str, sha256: &str| format!("[[tokens]]\nname = \"{name}\"\nsha256 = \"{sha256}\"\n");
        for (text, said) in [
            ("listem = \"x\"", "listem"),
            ("listen = \"nowhere\"", "invalid socket address"),
            ("[policy.limits]\nfule = 1", "fule"),
            ("[policy.session]\ncheckpoints_retained = 0", "`policy`: "),
            ("[sessions]\nsave = \"on-hibernate\"", "`sessions.save` is `on-hibernate`"),
            ("[admission]\nin_fleet = 0", "`admission.in_fleet` is 0"),
            ("fleet = \"http://engine\"", "`fleet`: `http://engine` is not the URL of a fleet"),
            ("fleet = \"restate://engine\"\nstore = \"/x\"", "`store` cannot be had with a fleet, whose nodes store"),
            ("fleet = \"restate://engine\"\nkey_file = \"/x\"", "`key_file` cannot be had with a fleet"),
            ("fleet = \"restate://engine\"\n[workers]\ncount = 1", "`workers` cannot be had with a fleet"),
            ("fleet = \"restate://engine\"\n[e2b]\nenabled = true", "`e2b` cannot be had with a fleet"),
            ("[admission]\nrunning = 0", "`admission.running` is 0"),
            ("[workers]\ncount = 257", "`workers.count` is 257; at most 256"),
            ("[http]\nbody_bytes = 0", "`http.body_bytes` is 0"),
            (&token("a/b", HASH), "token `a/b`: the name is"),
            (&token("a", "12"), "token `a`: `sha256` is 64"),
            (&(token("a", HASH) + &token("a", &HASH.replace('2', "3"))), "token `a`: another token has this name"),
            (&(token("a", HASH) + &token("b", &HASH.to_uppercase())), "token `b`: another entry has this `sha256`"),
            (&(token("a", HASH) + "executions_per_minute = 0"), "executions_per_minute"),
            ("[tools]\ncallbacks = [\"ftp://a.example\"]", "`callbacks`: `ftp://a.example` begins with neither"),
            ("[tools]\ncallbacks = [\"https://a.example/*\"]", "`tools.secret_file` does not say"),
            (&(token("a", HASH) + "callbacks = [\"https://a.example/*\"]"), "`tools.secret_file` does not say"),
        ] {
            let error = ServerConfig::from_toml(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
