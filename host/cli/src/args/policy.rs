//! Permissions and limits of scripts: a policy file, and flags that override it.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use glovebox::{Clock, Commit, Entropy, Limits, Metering, Mount, Policy, escaped};

use super::{NetworkArgs, bytes, count, count_u32};
use crate::source::read_text;

/// Default time of the clock with `--seed`: 2020-01-01T00:00:00Z.
const SEEDED_CLOCK_NS: u64 = 1_577_836_800_000_000_000;

/// A policy file and the flags that override it.
#[derive(Args, Debug, Default)]
pub(crate) struct PolicyArgs {
    #[command(flatten)]
    granted: GrantArgs,

    /// Host directory for the script's /app [default: an empty one in memory]
    #[arg(long, value_name = "DIR", help_heading = "Policy")]
    workspace: Option<PathBuf>,

    /// Additional host directory, read-only with `:ro`; repeatable
    #[arg(long = "mount", value_name = "HOST:GUEST[:ro]", help_heading = "Policy")]
    mounts: Vec<Mount>,

    /// Package that scripts can require in inline metadata (PEP 723); repeatable
    ///
    /// `glovebox packages list --available` prints the names. `run` adds the packages that its scripts require, and other
    /// commands add all allowed packages when they start.
    #[arg(long = "allow-package", value_name = "NAME", help_heading = "Policy")]
    packages: Vec<String>,

    /// When to write the script's changes to host directories [default: always]
    #[arg(long, value_name = "WHEN", value_enum, help_heading = "Policy")]
    commit: Option<CommitArg>,

    /// Keep global variables from run to run in the workspace
    ///
    /// The variables are stored as JSON in /app/.globals_py.json or /app/.globals_js.json. Sessions do not need this.
    #[arg(long, help_heading = "Policy")]
    auto_persist_globals: bool,

    /// Metering of executions [default: fuel]
    ///
    /// Without fuel, scripts run faster, and only --timeout-ms ends an endless loop. The first use compiles the
    /// interpreter again, which takes as long as preparing it.
    #[arg(long, value_name = "WHAT", value_enum, help_heading = "Policy")]
    metering: Option<MeteringArg>,

    /// Environment variable for the script; repeatable. The host's variables are never inherited
    #[arg(long = "env", value_name = "KEY=VALUE", value_parser = variable, help_heading = "Policy")]
    env: Vec<(String, String)>,

    /// Argument of the script; repeatable
    #[arg(long = "arg", value_name = "ARG", allow_hyphen_values = true, help_heading = "Policy")]
    pub(crate) args: Vec<String>,

    #[command(flatten)]
    network: NetworkArgs,
}

/// The part of a policy without host resources. It can be granted to a component for its scripts.
#[derive(Args, Debug, Default)]
pub(crate) struct GrantArgs {
    /// Policy file in TOML (`glovebox policy show` prints one); flags override it
    #[arg(long, value_name = "FILE", help_heading = "Policy")]
    policy: Option<PathBuf>,

    /// Seed for a deterministic run: fixed random numbers and clock
    ///
    /// The clock starts at 2020-01-01T00:00:00Z unless --clock or the policy file sets one, and only sleeping advances
    /// it. The same script always produces the same output and uses exactly the same fuel.
    #[arg(long, value_name = "N", value_parser = count, help_heading = "Policy")]
    seed: Option<u64>,

    /// `host`, or `fixed:TIME` for a clock that only sleeping advances; TIME is RFC 3339 (`2024-05-01T12:00:00Z`) or
    /// nanoseconds since 1970 [default: host]
    #[arg(long, value_name = "CLOCK", value_parser = clock, help_heading = "Policy")]
    clock: Option<Clock>,

    /// Do not change Python's `sys.path`; packages at /app/site-packages then cannot be imported
    #[arg(long, help_heading = "Policy")]
    no_inject_setup: bool,

    #[command(flatten)]
    limits: LimitArgs,
}

/// Defines a flag per limit, with the limit's name. Help texts contain the defaults, which a test compares with the
/// engine's.
macro_rules! limit_flags {
    ($($(#[$help:meta])* $name:ident: $type:ident = $parser:ident $(, hide_short_help = $hidden:literal)?;)*) => {
        #[derive(Args, Debug, Default)]
        #[command(next_help_heading = "Limits")]
        struct LimitArgs {$(
            $(#[$help])*
            #[arg(long, value_name = "N", value_parser = $parser, allow_negative_numbers = true $(, hide_short_help = $hidden)?)]
            $name: Option<$type>,
        )*}

        impl LimitArgs {
            /// Sets the limits whose flags are given.
            fn apply(&self, limits: &mut Limits) {$(
                if let Some(value) = self.$name {
                    limits.$name = value;
                }
            )*}
        }
    };
}

limit_flags! {
    /// Fuel, about one unit per WebAssembly operator; with the defaults, the timeout is reached first [default:
    /// 400000000000]
    fuel: u64 = count;

    /// Fuel reserved for the soft limit, which raises an exception in the script; at most a tenth of --fuel [default:
    /// 100000000]
    fuel_reserve: u64 = count, hide_short_help = true;

    /// Wall-clock milliseconds, including waiting [default: 10000]
    timeout_ms: u64 = count;

    /// Milliseconds reserved for the soft limit, and granted to a script after Ctrl-C; at most a tenth of --timeout-ms
    /// [default: 100]
    timeout_reserve_ms: u64 = count, hide_short_help = true;

    /// Memory of the guest, including the host's data for it [default: 134217728]
    memory_bytes: u64 = bytes;

    /// Retained standard output; the rest is dropped and counted [default: 2000000]
    stdout_bytes: u64 = bytes;

    /// Retained standard error; the rest is dropped and counted [default: 1000000]
    stderr_bytes: u64 = bytes;

    /// Retained displays, such as images; the rest is dropped and counted [default: 8388608]
    display_bytes: u64 = bytes, hide_short_help = true;

    /// Size of the source text [default: 1048576]
    source_bytes: u64 = bytes, hide_short_help = true;

    /// Size of standard input [default: 16777216]
    stdin_bytes: u64 = bytes, hide_short_help = true;

    /// Bytes of files that the script writes [default: 67108864]
    workspace_bytes: u64 = bytes, hide_short_help = true;

    /// Number of files that the script creates [default: 10000]
    workspace_inodes: u64 = count, hide_short_help = true;

    /// Number of open files [default: 256]
    open_files: u32 = count_u32, hide_short_help = true;

    /// Number of tool calls [default: 100]
    tool_calls: u64 = count, hide_short_help = true;

    /// Number of concurrent tool calls [default: 16]
    tool_calls_at_once: u32 = count_u32, hide_short_help = true;

    /// Milliseconds per tool call [default: 10000]
    tool_timeout_ms: u64 = count, hide_short_help = true;

    /// Size of a tool call's arguments, and of its result [default: 1048576]
    tool_bytes: u64 = bytes, hide_short_help = true;

    /// Size of tool arguments and results recorded in the execution's result [default: 1048576]
    tool_record_bytes: u64 = bytes, hide_short_help = true;

    /// Size of the recorded inputs of a script that can be suspended or recorded [default: 1048576]
    journal_bytes: u64 = bytes, hide_short_help = true;

    /// Size of the file in which --auto-persist-globals stores global variables [default: 1048576]
    persisted_bytes: u64 = bytes, hide_short_help = true;

    /// Number of live sessions in this process [default: 1000]
    session_count: u32 = count_u32, hide_short_help = true;

    /// Total bytes of this process's live sessions [default: 4294967296]
    session_total_bytes: u64 = bytes, hide_short_help = true;
}

/// The condition for committing changes to host directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CommitArg {
    /// After every run
    Always,
    /// Only if the script succeeded
    OnSuccess,
    /// Report changes and discard them
    Never,
}

/// The metering of executions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MeteringArg {
    /// Count fuel
    Fuel,
    /// Do not count fuel
    None,
}

impl PolicyArgs {
    /// Returns the effective policy: the policy file, overridden by the flags, and checked as a whole.
    pub(crate) fn resolve(&self) -> anyhow::Result<Policy> {
        self.resolve_over(Policy::default())
    }

    /// Adds an argument for the script, after the arguments from `--arg`.
    pub(crate) fn add_argument(&mut self, argument: String) {
        self.args.push(argument);
    }

    /// Like `resolve`, but starts from `base` instead of the default policy.
    pub(crate) fn resolve_over(&self, base: Policy) -> anyhow::Result<Policy> {
        let mut policy = self.granted.unchecked(base)?;
        if let Some(workspace) = &self.workspace {
            policy.workspace = Some(workspace.clone());
        }
        policy.mounts.extend(self.mounts.iter().cloned());
        if let Some(commit) = self.commit {
            policy.commit = match commit {
                CommitArg::Always => Commit::Always,
                CommitArg::OnSuccess => Commit::OnSuccess,
                CommitArg::Never => Commit::Never,
            };
        }
        policy.packages.extend(self.packages.iter().cloned());
        if let Some(metering) = self.metering {
            policy.metering = match metering {
                MeteringArg::Fuel => Metering::Fuel,
                MeteringArg::None => Metering::None,
            };
        }
        policy.auto_persist_globals |= self.auto_persist_globals;
        policy.env.extend(self.env.iter().cloned());
        if !self.args.is_empty() {
            policy.args.clone_from(&self.args);
        }
        self.network.apply(&mut policy.network);
        checked(policy)
    }
}

impl GrantArgs {
    /// Like [`PolicyArgs::resolve`].
    #[cfg(feature = "full")]
    pub(crate) fn resolve(&self) -> anyhow::Result<Policy> {
        checked(self.unchecked(Policy::default())?)
    }

    fn unchecked(&self, base: Policy) -> anyhow::Result<Policy> {
        let mut policy = match &self.policy {
            Some(path) => read(path)?,
            None => base,
        };
        if let Some(seed) = self.seed {
            policy.entropy = Entropy::Seeded(seed);
            if policy.clock == Clock::Host {
                policy.clock = Clock::Fixed(SEEDED_CLOCK_NS);
            }
        }
        if let Some(clock) = self.clock {
            policy.clock = clock;
        }
        policy.inject_setup &= !self.no_inject_setup;
        self.limits.apply(&mut policy.limits);
        Ok(policy)
    }
}

fn checked(policy: Policy) -> anyhow::Result<Policy> {
    policy.check().context("the policy is invalid")?;
    Ok(policy)
}

/// Maximum length of a policy file in bytes. Parsing needs about eighty times the length in memory.
const MAX_POLICY_BYTES: u64 = 512 << 10;

/// Reads a policy file. Its host paths are relative to the file, so they do not depend on the working directory.
fn read(path: &Path) -> anyhow::Result<Policy> {
    let what = format!("policy file `{}`", escaped(path));
    let text = read_text(path, &what, MAX_POLICY_BYTES, "create one with `glovebox policy show > policy.toml`")?;
    let mut policy = Policy::from_toml(&text).context(what)?;
    let base = path.parent().unwrap_or(Path::new(""));
    if let Some(workspace) = &mut policy.workspace {
        *workspace = base.join(&workspace);
    }
    for mount in &mut policy.mounts {
        mount.host = base.join(&mount.host);
    }
    Ok(policy)
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.into(), value.into())),
        _ => Err("write it as `KEY=VALUE`".into()),
    }
}

fn clock(text: &str) -> Result<Clock, String> {
    let wrong = || "write `host`, `fixed:2024-05-01T12:00:00Z` or `fixed:NANOSECONDS`".to_owned();
    if text == "host" {
        return Ok(Clock::Host);
    }
    let time = text.strip_prefix("fixed:").ok_or_else(wrong)?;
    if let Ok(nanoseconds) = count(time) {
        return Ok(Clock::Fixed(nanoseconds));
    }
    let time = humantime::parse_rfc3339(time).map_err(|_| wrong())?;
    let since_1970 = time
        .duration_since(std::time::UNIX_EPOCH)
        .map_err(|_| "the earliest time is 1970-01-01T00:00:00Z".to_owned())?;
    u64::try_from(since_1970.as_nanos())
        .map(Clock::Fixed)
        .map_err(|_| "the latest time is 2554-07-21T23:34:33Z".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::{Args, CommandFactory, FromArgMatches, Parser};
    use glovebox::{Clock, Entropy, Limits};

    use super::{PolicyArgs, SEEDED_CLOCK_NS, clock};

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        policy: PolicyArgs,
    }

    fn parse(args: &[&str]) -> PolicyArgs {
        Line::try_parse_from([&["x"], args].concat()).unwrap().policy
    }

    #[test]
    fn every_limit_has_a_flag_with_its_default_in_the_help() {
        let limits = serde_json::to_value(Limits::default()).unwrap();
        let command = Line::command();
        for (name, default) in limits.as_object().unwrap() {
            let flag = name.replace('_', "-");
            let arg = command
                .get_arguments()
                .find(|arg| arg.get_long() == Some(flag.as_str()))
                .unwrap_or_else(|| panic!("no --{flag}"));
            let help = arg.get_help().unwrap().to_string();
            assert!(help.ends_with(&format!("[default: {default}]")), "--{flag}: {help}");
            let policy = parse(&[&format!("--{flag}"), "1048577"]);
            let policy = policy.resolve();
            // A value that is rejected as too large also shows that the flag set its limit.
            match policy {
                Ok(policy) => assert_eq!(serde_json::to_value(&policy.limits).unwrap()[name], 1_048_577, "--{flag}"),
                Err(error) => assert!(format!("{error:#}").contains(name.as_str()), "{error:#}"),
            }
        }
    }

    #[test]
    fn flags_override_only_their_keys_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.toml");
        std::fs::write(
            &path,
            "args = ['a']\nworkspace = 'out'\n[limits]\nfuel = 5\ntimeout_ms = 6\n[env]\nA = '1'\nB = '2'\n",
        )
        .unwrap();
        let file = path.to_str().unwrap();
        let policy = parse(&["--policy", file, "--fuel", "7", "--env", "B=3=4", "--auto-persist-globals"]);
        let policy = policy.resolve().unwrap();
        assert!(policy.auto_persist_globals && !parse(&["--policy", file]).resolve().unwrap().auto_persist_globals);
        assert_eq!((policy.limits.fuel, policy.limits.timeout_ms), (7, 6));
        assert_eq!(policy.args, ["a"]);
        assert_eq!(policy.env["A"], "1");
        assert_eq!(policy.env["B"], "3=4");
        assert_eq!(policy.workspace.unwrap(), dir.path().join("out"));
    }

    #[test]
    fn invalid_policy_entries_name_key_and_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.toml");
        for (text, name) in [
            ("[limits]\nfule = 5\n", "fule"),
            ("[limits]\ntimeout_ms = 0\n", "timeout_ms"),
            ("colour = 'red'\n", "colour"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = format!("{:#}", parse(&["--policy", path.to_str().unwrap()]).resolve().unwrap_err());
            assert!(error.contains(name) && error.contains("p.toml"), "{error}");
        }
    }

    #[test]
    fn setup_is_injected_by_default() {
        assert!(parse(&[]).resolve().unwrap().inject_setup);
        assert!(!parse(&["--no-inject-setup"]).resolve().unwrap().inject_setup);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.toml");
        std::fs::write(&path, "inject_setup = false").unwrap();
        assert!(!parse(&["--policy", path.to_str().unwrap()]).resolve().unwrap().inject_setup);
    }

    #[test]
    fn seed_fixes_the_clock_unless_the_clock_is_set() {
        let policy = parse(&["--seed", "7"]).resolve().unwrap();
        assert_eq!((policy.entropy, policy.clock), (Entropy::Seeded(7), Clock::Fixed(SEEDED_CLOCK_NS)));
        let policy = parse(&["--seed", "7", "--clock", "host"]).resolve().unwrap();
        assert_eq!(policy.clock, Clock::Host);
        let policy = parse(&["--seed", "7", "--clock", "fixed:12"]).resolve().unwrap();
        assert_eq!(policy.clock, Clock::Fixed(12));
    }

    #[test]
    fn clock_accepts_common_time_formats() {
        assert_eq!(clock("fixed:2020-01-01T00:00:00Z"), Ok(Clock::Fixed(SEEDED_CLOCK_NS)));
        for wrong in
            ["", "fixed", "fixed:", "fixed:yesterday", "2020-01-01T00:00:00Z", "fixed:-5", "fixed:9999-01-01T00:00:00Z"]
        {
            assert!(clock(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_flags_give_the_default_policy() {
        let matches = PolicyArgs::augment_args(clap::Command::new("x")).get_matches_from(["x"]);
        let args = PolicyArgs::from_arg_matches(&matches).unwrap();
        assert_eq!(args.resolve().unwrap(), glovebox::Policy::default());
    }

    #[test]
    fn endless_policy_file_is_rejected() {
        let error = format!("{:?}", super::read(std::path::Path::new("/dev/zero")).unwrap_err());
        assert!(error.contains("longer than 524288 bytes"), "{error}");
    }
}
