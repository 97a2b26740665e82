//! The policy settings that all backends share.

use glovebox_vfs::{escaped, escaped_text};
use std::collections::BTreeMap;

use glovebox_wasi::Entropy as WasiEntropy;
use serde::{Deserialize, Serialize};

use crate::{
    LimitError, Limits,
    session::{Checkpoints, SessionPolicy},
};

/// The time a guest sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// The host's clocks.
    #[default]
    Host,
    /// A clock that is fixed at this time, in nanoseconds since 1970-01-01T00:00:00Z. A sleep advances it immediately.
    Fixed(u64),
}

/// The randomness a guest sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Entropy {
    /// The host's generator.
    #[default]
    Host,
    /// ChaCha20 with this seed: the same numbers in every run. Unsuitable for secrets.
    Seeded(u64),
}

impl Clock {
    /// Returns `true` if the guest sees the same time in every run.
    pub fn is_repeatable(self) -> bool {
        matches!(self, Self::Fixed(_))
    }
}

impl Entropy {
    /// Returns `true` if the guest sees the same random numbers in every run.
    pub fn is_repeatable(self) -> bool {
        matches!(self, Self::Seeded(_))
    }

    /// Returns the guest's source of random numbers.
    pub fn wasi(self) -> WasiEntropy {
        match self {
            Self::Host => WasiEntropy::Host,
            Self::Seeded(seed) => WasiEntropy::seeded(seed),
        }
    }

    /// Returns the seeded generator's key; `None` for the host's entropy.
    pub fn key(self) -> Option<[u8; 32]> {
        match self.wasi() {
            WasiEntropy::Seeded(key) => Some(key),
            WasiEntropy::Host => None,
        }
    }
}

/// An invalid policy.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The text is not TOML, or has an unknown key or an invalid value.
    #[error("invalid policy: {0}")]
    Syntax(String),
    /// A value of the policy has no TOML form, such as a path that is not UTF-8.
    #[error("the policy cannot be written as TOML: {0}; use only UTF-8 in paths")]
    Unwritable(String),
    /// A limit is out of range.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The session settings are invalid.
    #[error("{0}")]
    Session(String),
    /// An environment variable is invalid.
    #[error("`env.{key}`: {reason}", key = escaped(.key), reason = escaped_text(.reason))]
    Env {
        /// The variable's name.
        key: String,
        /// The rule that the name or the value violates.
        reason: String,
    },
    /// An argument contains a NUL byte.
    #[error("`args[{index}]` contains a NUL byte; remove it")]
    Arg {
        /// The argument's index in the list.
        index: usize,
    },
    /// Arguments and environment variables together are too large.
    #[error(
        "`args` and `env` are {bytes} bytes in total; the maximum is {max}; shorten them, or pass the data in files"
    )]
    TooLarge {
        /// The total size in bytes.
        bytes: usize,
        /// The maximum size in bytes.
        max: usize,
    },
    /// The network settings are invalid.
    #[error("`network.{key}`: {reason}", key = escaped(.key), reason = escaped_text(.reason))]
    Network {
        /// The key within the `network` table.
        key: String,
        /// The rule that the value violates.
        reason: String,
    },
    /// The restrictions on a tool are invalid.
    #[error("`{key}`: {reason}", key = escaped(.key), reason = escaped_text(.reason))]
    Tool {
        /// The key, such as `tools.weather.schema`.
        key: String,
        /// The rule that the value violates.
        reason: String,
    },
    /// A package cannot be allowed.
    #[error("`packages`: `{name}`: {reason}", name = escaped(.name), reason = escaped_text(.reason))]
    Package {
        /// The package's name.
        name: String,
        /// The reason, such as `it is not in the catalogue`.
        reason: String,
    },
    /// A mount is invalid.
    #[error("mount `{mount}`: {reason}", mount = escaped(.mount), reason = escaped_text(.reason))]
    Mount {
        /// The mount, as the caller passed it.
        mount: String,
        /// The rule that the mount violates.
        reason: String,
    },
}

/// The policy settings that every backend checks.
#[derive(Clone, Copy, Debug)]
pub struct PolicyParts<'a> {
    /// The limits of each execution.
    pub limits: &'a Limits,
    /// The settings of sessions.
    pub session: &'a SessionPolicy,
    /// Arguments after the script's name.
    pub args: &'a [String],
    /// The environment variables.
    pub env: &'a BTreeMap<String, String>,
}

impl PolicyParts<'_> {
    /// Maximum total size of arguments and environment variables, in bytes, like `ARG_MAX` on other systems.
    pub const MAX_ARGS_AND_ENV_BYTES: usize = 128 << 10;

    /// Checks the limits, the session settings, the arguments and the environment variables.
    pub fn check(&self) -> Result<(), PolicyError> {
        self.limits.check()?;
        if self.session.checkpoints == Checkpoints::Every(0) {
            return Err(PolicyError::Session("`session.checkpoints.every` must be at least 1".into()));
        }
        if self.session.checkpoints_retained == 0 {
            return Err(PolicyError::Session("`session.checkpoints_retained` must be at least 1".into()));
        }
        for (key, value) in self.env {
            let wrong = |reason: &str| PolicyError::Env { key: key.clone(), reason: reason.into() };
            if key.is_empty() || key.contains(['=', '\0']) {
                return Err(wrong("the name must not be empty or contain `=` or NUL"));
            }
            if value.contains('\0') {
                return Err(wrong("the value must not contain NUL"));
            }
        }
        if let Some(index) = self.args.iter().position(|arg| arg.contains('\0')) {
            return Err(PolicyError::Arg { index });
        }
        let args: usize = self.args.iter().map(|arg| arg.len() + 1).sum();
        let env: usize = self.env.iter().map(|(key, value)| key.len() + value.len() + 2).sum();
        if args + env > Self::MAX_ARGS_AND_ENV_BYTES {
            return Err(PolicyError::TooLarge { bytes: args + env, max: Self::MAX_ARGS_AND_ENV_BYTES });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(args: &[String], env: &[(&str, &str)]) -> Result<(), PolicyError> {
        let (limits, session) = (&Limits::default(), &SessionPolicy::default());
        let env = &env.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        PolicyParts { limits, session, args, env }.check()
    }

    #[test]
    fn arguments_and_environment_have_a_maximum() {
        const MAX: usize = PolicyParts::MAX_ARGS_AND_ENV_BYTES;
        // Each argument ends with a NUL byte; each variable also contains `=`.
        for (length, fits) in [(MAX - 6, true), (MAX - 5, true), (MAX - 4, false)] {
            assert_eq!(check(&["x".repeat(length)], &[("k", "v")]).is_ok(), fits, "{length}");
        }
    }

    #[test]
    fn arguments_and_environment_with_nul_are_rejected() {
        assert!(check(&["a b".into()], &[("K", "a=b")]).is_ok());
        assert!(matches!(check(&["a".into(), "\0".into()], &[]), Err(PolicyError::Arg { index: 1 })));
        for env in [("", "v"), ("a=b", "v"), ("a\0", "v"), ("a", "\0")] {
            assert!(matches!(check(&[], &[env]), Err(PolicyError::Env { .. })), "{env:?}");
        }
    }

    #[test]
    fn invalid_session_policy_is_rejected() {
        let (limits, env) = (&Limits::default(), &BTreeMap::new());
        for (checkpoints, checkpoints_retained, fits) in
            [(Checkpoints::Every(0), 1, false), (Checkpoints::Every(1), 1, true), (Checkpoints::Auto, 0, false)]
        {
            let session = &SessionPolicy { checkpoints, checkpoints_retained, ..SessionPolicy::default() };
            assert_eq!(PolicyParts { limits, session, args: &[], env }.check().is_ok(), fits);
        }
    }
}
