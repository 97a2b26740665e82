//! Everything an execution may do, in one record.

use std::{collections::BTreeMap, path::PathBuf, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Checkpoints, LimitError, Limits, SessionPolicy};

/// The time a guest sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// The host's clocks.
    #[default]
    Host,
    /// A clock that stands still at this time, in nanoseconds since 1970-01-01T00:00:00Z; a sleep advances it at once.
    Fixed(u64),
}

/// The randomness a guest sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Entropy {
    /// The host's generator.
    #[default]
    Host,
    /// ChaCha20 from this seed: the same numbers every time. Not for secrets.
    Seeded(u64),
}

/// When what a guest wrote to a host directory reaches it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Commit {
    /// After every execution, whatever its outcome.
    #[default]
    Always,
    /// Only when the execution succeeded.
    OnSuccess,
    /// Never: changes are reported and dropped.
    Never,
}

/// A host directory that a guest sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// The directory on the host.
    pub host: PathBuf,
    /// The absolute path in the guest, such as `/data`.
    pub guest: String,
    /// Whether the guest may only read it.
    #[serde(default)]
    pub read_only: bool,
}

impl FromStr for Mount {
    type Err = PolicyError;

    /// Reads `HOST:GUEST` or `HOST:GUEST:ro` (or `:rw`).
    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let wrong = || PolicyError::Mount {
            mount: text.to_owned(),
            reason: "write it as `HOST:GUEST` or `HOST:GUEST:ro`".into(),
        };
        let (rest, read_only) = match text.rsplit_once(':') {
            Some((rest, "ro")) => (rest, true),
            Some((rest, "rw")) => (rest, false),
            _ => (text, false),
        };
        let (host, guest) = rest.rsplit_once(':').ok_or_else(wrong)?;
        if host.is_empty() || guest.is_empty() {
            return Err(wrong());
        }
        Ok(Self { host: host.into(), guest: guest.into(), read_only })
    }
}

/// Everything an execution may do.
///
/// In TOML (a policy file) the same names are used:
///
/// ```
/// # use glovebox::{Clock, Commit, Entropy, Policy};
/// let policy = Policy::from_toml(r#"
///     commit = "on-success"
///     clock = { fixed = 1_700_000_000_000_000_000 }
///     entropy = { seeded = 7 }
///     args = ["--fast"]
///     [limits]
///     fuel = 1_000_000_000
///     timeout_ms = 2_000
///     [session]
///     checkpoints = { every = 10 }
///     [env]
///     TZ = "UTC"
///     [[mounts]]
///     host = "data"
///     guest = "/data"
///     read_only = true
/// "#)?;
/// assert_eq!(policy.limits.timeout_ms, 2_000);
/// assert_eq!(policy.commit, Commit::OnSuccess);
/// assert_eq!(policy.entropy, Entropy::Seeded(7));
/// # Ok::<(), glovebox::PolicyError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Policy {
    /// The host directory behind `/app`. Without one the workspace is in memory and starts empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<PathBuf>,
    /// When changes reach host directories. Default: always.
    pub commit: Commit,
    /// The time the guest sees. Default: the host's.
    pub clock: Clock,
    /// The randomness the guest sees. Default: the host's.
    pub entropy: Entropy,
    /// Arguments after the script's name.
    pub args: Vec<String>,
    /// How much it may use.
    pub limits: Limits,
    /// How sessions keep and lose their state.
    pub session: SessionPolicy,
    /// Environment variables. The host's are never passed on.
    pub env: BTreeMap<String, String>,
    /// Further host directories.
    pub mounts: Vec<Mount>,
}

/// A policy that cannot be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The text is no TOML, or has a key or a value that a policy does not know.
    #[error("the policy is not valid: {0}")]
    Syntax(String),
    /// A limit is impossible.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// Sessions cannot be kept like this.
    #[error("{0}")]
    Session(String),
    /// An environment variable cannot be.
    #[error("`env.{key}`: {reason}")]
    Env {
        /// The variable.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An argument cannot be.
    #[error("`args[{index}]` holds a NUL byte; remove it")]
    Arg {
        /// Its place in the list.
        index: usize,
    },
    /// Arguments and environment together are too large.
    #[error("`args` and `env` take {bytes} bytes together; the most is {most}")]
    TooLarge {
        /// What they take.
        bytes: usize,
        /// What they may take.
        most: usize,
    },
    /// A mount cannot be.
    #[error("mount `{mount}`: {reason}")]
    Mount {
        /// The mount, as given.
        mount: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl Policy {
    /// The most bytes that arguments and environment may take together, as `ARG_MAX` bounds them elsewhere.
    pub const ARGS_AND_ENV_BYTES_MOST: usize = 128 << 10;
    /// The most mounts.
    pub const MOUNTS_MOST: usize = 64;

    /// Reads a policy from TOML. Unknown keys and impossible values are errors that name the key.
    pub fn from_toml(text: &str) -> Result<Self, PolicyError> {
        let policy: Self = toml::from_str(text).map_err(|error| PolicyError::Syntax(error.to_string()))?;
        policy.check()?;
        Ok(policy)
    }

    /// The policy as TOML, every default spelled out.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_default()
    }

    /// Checks what the types cannot: limits, variable names, guest paths.
    pub fn check(&self) -> Result<(), PolicyError> {
        self.limits.check()?;
        if self.session.checkpoints == Checkpoints::Every(0) {
            return Err(PolicyError::Session("`session.checkpoints.every` must be at least 1".into()));
        }
        if self.session.checkpoints_kept == 0 {
            return Err(PolicyError::Session("`session.checkpoints_kept` must be at least 1".into()));
        }
        for (key, value) in &self.env {
            let wrong = |reason: &str| PolicyError::Env { key: key.clone(), reason: reason.into() };
            if key.is_empty() || key.contains(['=', '\0']) {
                return Err(wrong("a variable's name is not empty and has neither `=` nor NUL in it"));
            }
            if value.contains('\0') {
                return Err(wrong("a variable's value has no NUL in it"));
            }
        }
        if let Some(index) = self.args.iter().position(|arg| arg.contains('\0')) {
            return Err(PolicyError::Arg { index });
        }
        let args: usize = self.args.iter().map(|arg| arg.len() + 1).sum();
        let env: usize = self.env.iter().map(|(key, value)| key.len() + value.len() + 2).sum();
        if args + env > Self::ARGS_AND_ENV_BYTES_MOST {
            return Err(PolicyError::TooLarge { bytes: args + env, most: Self::ARGS_AND_ENV_BYTES_MOST });
        }
        self.check_mounts()
    }

    /// Whether equal input gives equal executions, to the unit of fuel.
    pub(crate) fn is_repeatable(&self) -> bool {
        matches!((self.clock, self.entropy), (Clock::Fixed(_), Entropy::Seeded(_)))
    }

    fn check_mounts(&self) -> Result<(), PolicyError> {
        let wrong = |mount: &Mount, reason: &str| PolicyError::Mount {
            mount: format!("{}:{}", mount.host.display(), mount.guest),
            reason: reason.into(),
        };
        for (index, mount) in self.mounts.iter().enumerate() {
            if index >= Self::MOUNTS_MOST {
                return Err(wrong(mount, "a policy has at most 64 mounts"));
            }
            let Some(path) = mount.guest.strip_prefix('/') else {
                return Err(wrong(mount, "the guest path must be absolute, such as `/data`"));
            };
            if path.is_empty()
                || path.split('/').any(|part| part.is_empty() || part == "." || part == "..")
                || path.contains('\0')
            {
                return Err(wrong(
                    mount,
                    "the guest path must be plain, without `.`, `..`, empty parts or a slash at its end",
                ));
            }
            // Nested mounts would make one path mean two things depending on which preopen resolves it.
            let clashes = |other: &str| {
                let (a, b) = (format!("{}/", mount.guest), format!("{other}/"));
                a.starts_with(&b) || b.starts_with(&a)
            };
            if clashes("/app") {
                return Err(wrong(mount, "`/app` is the workspace; use `workspace` (`--workspace`) for it"));
            }
            if self.mounts.iter().take(index).any(|other| clashes(&other.guest)) {
                return Err(wrong(mount, "another mount has this path or one above or below it"));
            }
        }
        Ok(())
    }
}
