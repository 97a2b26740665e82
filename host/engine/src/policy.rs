//! Everything an execution may do, in one record.

use std::{collections::BTreeMap, path::PathBuf, str::FromStr};

pub use glovebox_core::{Clock, Entropy, PolicyError};
use glovebox_core::{Metering, PolicyParts};
use serde::{Deserialize, Serialize};

use crate::{Limits, NetworkPolicy, SessionPolicy};

/// When a guest's changes are committed to host directories.
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
///     auto_persist_globals = true
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Policy {
    /// The host directory behind `/app`. Without one the workspace is in memory and starts empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<PathBuf>,
    /// When changes reach host directories. Default: always.
    pub commit: Commit,
    /// Whether an execution loads the globals that the previous one stored in the workspace, and stores its own there: in
    /// `/app/.globals_py.json` and `/app/.globals_js.json`, each language for itself. Default: no.
    ///
    /// Values that JSON can express are stored, under names without a leading `_`, and the whole of `_state`, an object that is
    /// always there. A script that raises or ends itself leaves its globals too; one that is stopped leaves the file as it
    /// was. A session's globals persist anyway: it neither reads nor writes these files.
    pub auto_persist_globals: bool,
    /// The time the guest sees. Default: the host's.
    pub clock: Clock,
    /// The randomness the guest sees. Default: the host's.
    pub entropy: Entropy,
    /// Whether fuel is counted. Default: it is. Code that counts none runs faster. It is compiled, beside the other,
    /// when the first sandbox asks for it. `limits.fuel` then holds nothing back: `limits.timeout_ms` does.
    pub metering: Metering,
    /// Arguments after the script's name.
    pub args: Vec<String>,
    /// Whether Python scripts find packages at `/app/site-packages`: whether that is in `sys.path`. Default: true. A session that
    /// began without does not find them later.
    pub inject_setup: bool,
    /// The limits of each execution.
    pub limits: Limits,
    /// How sessions save and lose their state.
    pub session: SessionPolicy,
    /// What scripts may reach of the network. Default: nothing.
    pub network: NetworkPolicy,
    /// Environment variables. The host's are never passed on.
    pub env: BTreeMap<String, String>,
    /// Further host directories.
    pub mounts: Vec<Mount>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            workspace: None,
            commit: Commit::default(),
            clock: Clock::default(),
            entropy: Entropy::default(),
            metering: Metering::Fuel,
            args: Vec::new(),
            inject_setup: true,
            auto_persist_globals: false,
            limits: Limits::default(),
            session: SessionPolicy::default(),
            network: NetworkPolicy::default(),
            env: BTreeMap::new(),
            mounts: Vec::new(),
        }
    }
}

impl Policy {
    /// The most bytes that arguments and environment may take together, as `ARG_MAX` bounds them elsewhere.
    pub const MAX_ARGS_AND_ENV_BYTES: usize = PolicyParts::MAX_ARGS_AND_ENV_BYTES;
    /// The most mounts.
    pub const MAX_MOUNTS: usize = 64;

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

    /// Checks what the types cannot express: limits, variable names, guest paths.
    pub fn check(&self) -> Result<(), PolicyError> {
        let Self { limits, session, args, env, .. } = self;
        PolicyParts { limits, session, args, env }.check()?;
        self.network.check()?;
        self.network.check_environment(env)?;
        self.check_mounts()
    }

    /// Whether equal input gives equal executions, to the unit of fuel.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.clock.is_repeatable() && self.entropy.is_repeatable()
    }

    fn check_mounts(&self) -> Result<(), PolicyError> {
        let wrong = |mount: &Mount, reason: &str| PolicyError::Mount {
            mount: format!("{}:{}", mount.host.display(), mount.guest),
            reason: reason.into(),
        };
        for (index, mount) in self.mounts.iter().enumerate() {
            if index >= Self::MAX_MOUNTS {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Checkpoints, OnUnwind};

    #[test]
    fn what_a_policy_says_of_sessions_survives_its_file_and_impossible_things_are_refused() {
        for (checkpoints, max, fits) in [
            (Checkpoints::Auto, 8, true),
            (Checkpoints::Never, 1, true),
            (Checkpoints::Every(1), 1, true),
            (Checkpoints::Every(0), 1, false),
            (Checkpoints::Always, 0, false),
        ] {
            let mut session = SessionPolicy::default();
            session.checkpoints = checkpoints;
            session.checkpoints_retained = max;
            let policy = Policy { session, ..Policy::default() };
            let read = Policy::from_toml(&policy.to_toml());
            assert_eq!(read.is_ok(), fits, "{checkpoints:?}, {max}: {read:?}");
            assert!(!fits || read.is_ok_and(|read| read == policy), "{checkpoints:?}");
        }
        let policy = Policy::from_toml("[session]\ncheckpoints = { every = 10 }\non_unwind = \"end\"").unwrap();
        assert_eq!((policy.session.checkpoints, policy.session.on_unwind), (Checkpoints::Every(10), OnUnwind::End));
    }
}
