//! The policy: all permissions and limits of an execution.

use std::{collections::BTreeMap, path::PathBuf, str::FromStr};

pub use glovebox_core::{Clock, Entropy, PolicyError};
use glovebox_core::{Metering, PolicyParts, WORKSPACE};
use serde::{Deserialize, Serialize};

use crate::{
    Approve, Limits, NetworkPolicy, PackageList, SessionPolicy, ToolPolicy, files::workspace::paths_overlap,
    tools::ToolRules,
};

/// The condition for committing a guest's changes to host directories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Commit {
    /// After every execution, whatever its outcome.
    #[default]
    Always,
    /// Only after a successful execution.
    OnSuccess,
    /// After no execution: changes are reported and then discarded.
    Never,
}

/// A host directory to mount in the guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// The path of the directory on the host.
    pub host: PathBuf,
    /// The absolute path in the guest, such as `/data`.
    pub guest: String,
    /// `true` if the mount is read-only for the guest. Default: `false`.
    #[serde(default)]
    pub read_only: bool,
}

impl FromStr for Mount {
    type Err = PolicyError;

    /// Parses `HOST:GUEST` or `HOST:GUEST:ro` (or `:rw`).
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

/// All permissions and limits of an execution.
///
/// A policy file in TOML uses the same names:
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
///     [tools.weather]
///     max_calls = 3
///     schema = { properties = { city = { enum = ["Oslo", "Bergen"] } } }
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
    /// The host directory behind `/app`. Default: none, so that the workspace is in memory and starts empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<PathBuf>,
    /// The condition for committing changes to host directories. Default: always.
    pub commit: Commit,
    /// `true` to load the globals that the previous execution stored in the workspace, and to store the globals of this
    /// execution. Each language has its own file, `/app/.globals_py.json` or `/app/.globals_js.json`. Default: `false`.
    ///
    /// The file contains JSON-serializable values whose names have no leading `_`, and the whole object `_state`, which
    /// always exists. A script that raises or exits still stores its globals. A script that is stopped, or calls
    /// `os._exit`, leaves the file unchanged. Sessions do not use these files, because their globals persist anyway.
    pub auto_persist_globals: bool,
    /// The guest's clock. Default: the host's clock.
    pub clock: Clock,
    /// The source of the guest's random numbers. Default: the host's generator.
    pub entropy: Entropy,
    /// Fuel metering. Default: on. Unmetered code runs faster, and is compiled separately for the first sandbox that
    /// uses it. Without metering, `limits.fuel` has no effect, and only `limits.timeout_ms` stops an endless loop.
    pub metering: Metering,
    /// Arguments of the script, after its name. Default: none.
    pub args: Vec<String>,
    /// `true` to add `/app/site-packages` to `sys.path`, so that Python scripts find packages there. Default: `true`. A
    /// session keeps the setting that it was created with.
    pub inject_setup: bool,
    /// Names of packages that Glovebox may download and add for scripts that require them in inline metadata (PEP 723).
    /// Only names in the catalogue are allowed; `glovebox packages list --available` prints the catalogue. Default:
    /// none.
    ///
    /// `glovebox run` adds the packages that its scripts require. Servers and the REPL add all of these packages when
    /// they start. This crate only checks the names. Its custom packages come from `EngineConfig::user_packages`.
    pub packages: Vec<String>,
    /// Limits on each execution. Default: [`Limits::default`].
    pub limits: Limits,
    /// Checkpoints and rollback of sessions. Default: [`SessionPolicy::default`].
    pub session: SessionPolicy,
    /// Network access for scripts. Default: none.
    pub network: NetworkPolicy,
    /// Restrictions on individual tools, by the tool's name. Default: none. A name without a tool has no effect until a
    /// tool of that name is added, for example by [`Request::tools`](crate::Request::tools).
    pub tools: BTreeMap<String, ToolPolicy>,
    /// The environment variables of the guest. The host's own variables are never passed on. Default: none.
    pub env: BTreeMap<String, String>,
    /// Additional host directories to mount. Default: none.
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
            packages: Vec::new(),
            auto_persist_globals: false,
            limits: Limits::default(),
            session: SessionPolicy::default(),
            network: NetworkPolicy::default(),
            tools: BTreeMap::new(),
            env: BTreeMap::new(),
            mounts: Vec::new(),
        }
    }
}

impl Policy {
    /// Maximum total size of arguments and environment, in bytes. Corresponds to `ARG_MAX` on other systems.
    pub const MAX_ARGS_AND_ENV_BYTES: usize = PolicyParts::MAX_ARGS_AND_ENV_BYTES;
    /// Maximum number of mounts.
    pub const MAX_MOUNTS: usize = 64;

    /// Parses a policy from TOML.
    ///
    /// # Errors
    /// Fails if the text is not TOML. Fails with the name of the key if a key is unknown or a value is invalid.
    pub fn from_toml(text: &str) -> Result<Self, PolicyError> {
        let policy: Self = toml::from_str(text).map_err(|error| PolicyError::Syntax(error.to_string()))?;
        policy.check()?;
        Ok(policy)
    }

    /// Returns the policy as TOML, including all defaults.
    ///
    /// # Errors
    /// Fails if a value has no TOML form, such as a path that is not UTF-8.
    pub fn to_toml(&self) -> Result<String, PolicyError> {
        toml::to_string(self).map_err(|error| PolicyError::Unwritable(error.to_string()))
    }

    /// Checks constraints that the types do not express: limits, session settings, arguments, variables, packages,
    /// guest paths, network rules and the restrictions on tools.
    ///
    /// # Errors
    /// Fails with the name of the key if a value is invalid.
    pub fn check(&self) -> Result<(), PolicyError> {
        let Self { limits, session, args, env, .. } = self;
        PolicyParts { limits, session, args, env }.check()?;
        self.network.check()?;
        self.network.check_environment(env)?;
        ToolRules::new(&self.tools)?;
        self.check_packages()?;
        self.check_mounts()
    }

    fn check_packages(&self) -> Result<(), PolicyError> {
        if self.packages.is_empty() {
            return Ok(());
        }
        let wrong =
            |name: &str, reason: &str| PolicyError::Package { name: name.to_owned(), reason: reason.to_owned() };
        let catalogue = PackageList::catalogue().map_err(|error| wrong("", &error.to_string()))?;
        match self.packages.iter().find(|name| catalogue.find(name).is_none()) {
            Some(name) => Err(wrong(
                name,
                "it is not in the catalogue; `glovebox packages list --available` prints the names, and `glovebox packages \
                 add` adds other packages",
            )),
            None => Ok(()),
        }
    }

    /// Returns `true` if calls to this tool need an approval ([`ToolPolicy::approve`]).
    #[must_use]
    pub fn needs_approval(&self, tool: &str) -> bool {
        self.tools.get(tool).is_some_and(|tool| tool.approve == Approve::Always)
    }

    /// Returns `true` if identical inputs produce identical executions, including the fuel used.
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
                return Err(wrong(mount, "a policy can have at most 64 mounts"));
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
                    "the guest path must be plain, without `.`, `..`, empty parts or a trailing slash",
                ));
            }
            // With nested mounts, a path would refer to two files, depending on the preopen that resolves it.
            if paths_overlap(&mount.guest, WORKSPACE) {
                return Err(wrong(mount, "`/app` is the workspace; use `workspace` (`--workspace`) for it"));
            }
            if self.mounts.iter().take(index).any(|other| paths_overlap(&mount.guest, &other.guest)) {
                return Err(wrong(
                    mount,
                    "its guest path overlaps the guest path of another mount; use another guest path",
                ));
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
    fn packages_are_names_of_the_catalogue() {
        let policy = Policy::from_toml("packages = [\"pytz\", \"Flask\"]").unwrap();
        assert_eq!(policy.packages, ["pytz", "Flask"]);
        let error = Policy::from_toml("packages = [\"pytz\", \"pyztz\"]").unwrap_err();
        assert!(error.to_string().contains("`pyztz`"), "{error}");
    }

    #[test]
    fn largest_seed_and_time_round_trip() {
        let policy = Policy { entropy: Entropy::Seeded(u64::MAX), clock: Clock::Fixed(u64::MAX), ..Policy::default() };
        assert_eq!(Policy::from_toml(&policy.to_toml().unwrap()).unwrap(), policy);
    }

    #[cfg(unix)]
    #[test]
    fn policy_with_a_path_that_is_not_utf8_is_not_written() {
        use std::os::unix::ffi::OsStringExt as _;

        let workspace = std::ffi::OsString::from_vec(b"/\xff".to_vec()).into();
        let policy = Policy { workspace: Some(workspace), ..Policy::default() };
        assert!(matches!(policy.to_toml(), Err(PolicyError::Unwritable(_))));
    }

    #[test]
    fn restrictions_of_tools_round_trip_and_are_checked() {
        let text = "
            [tools.a]
            max_calls = 0
            approve = 'never'
            [tools.b]
            approve = 'always'
            schema = { properties = { x = { enum = [1, 1.5, 'y', [], {}, [{}, 2]] } } }
            [tools.c.schema]
            required = ['x']
            [[tools.c.schema.allOf]]
            not = {}
            [[tools.c.schema.allOf]]
            maxProperties = 18446744073709551615
            properties = { x = false }";
        let mut policy = Policy::from_toml(text).unwrap();
        let added = policy.tools["c"].clone();
        policy.tools.get_mut("b").unwrap().narrow(added);
        assert_eq!(["a", "b", "c", "d"].map(|name| policy.needs_approval(name)), [false, true, false, false]);
        assert_eq!(Policy::from_toml(&policy.to_toml().unwrap()).unwrap(), policy);
        for (text, expected) in [
            ("[tools.a]\ncalls = 1", "calls"),
            ("[tools.a]\nmax_calls = -1", "-1"),
            ("[tools.a]\napprove = 'ask'", "unknown variant `ask`, expected `never` or `always`"),
            ("[tools.a]\napprove = true", "approve = true"),
            ("[tools.a]\nschema = { title = nan }", "`tools.a.schema`: `null` is not allowed"),
            ("[tools.a]\nschema = { minProperties = 'x' }", "`tools.a.schema`: `minProperties`"),
        ] {
            let error = Policy::from_toml(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn session_policy_round_trips_and_is_checked() {
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
            let read = Policy::from_toml(&policy.to_toml().unwrap());
            assert_eq!(read.is_ok(), fits, "{checkpoints:?}, {max}: {read:?}");
            assert!(!fits || read.is_ok_and(|read| read == policy), "{checkpoints:?}");
        }
        let policy = Policy::from_toml("[session]\ncheckpoints = { every = 10 }\non_unwind = \"end\"").unwrap();
        assert_eq!((policy.session.checkpoints, policy.session.on_unwind), (Checkpoints::Every(10), OnUnwind::End));
    }
}
