//! Flags that several subcommands share, and parsers for numbers.

#[cfg(feature = "full")]
mod component;
mod policy;
mod source;

use std::{path::PathBuf, time::Duration};

use clap::{ArgAction, Args, ValueEnum};
use glovebox::{NetworkPolicy, SecretPolicy};
use glovebox_sessions::SessionId;

use crate::terminal::HintedError;

#[cfg(feature = "full")]
pub(crate) use component::{AppArgs, CompileArgs, QuotaArgs, ToolsArgs};
#[cfg(feature = "full")]
pub(crate) use policy::GrantArgs;
pub(crate) use policy::PolicyArgs;
pub(crate) use source::{ASK, ContextArgs, LanguageArg, ProgramArgs, RuntimeArgs, SourceArgs, interactive_tool};

/// Flags of every subcommand.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// Directory for interpreters and their prepared images [default: $XDG_CACHE_HOME/glovebox]
    #[arg(long, global = true, value_name = "DIR", env = "GLOVEBOX_CACHE_DIR", hide_env_values = true)]
    pub(crate) cache_dir: Option<PathBuf>,

    /// Bundle of downloads, made by `glovebox runtimes bundle`; searched before the network; separate several with
    /// colons
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "GLOVEBOX_BUNDLE",
        hide_env_values = true,
        value_delimiter = ':',
        hide_short_help = true
    )]
    pub(crate) bundle: Vec<PathBuf>,

    /// Bundle of compiled code and images, made by `glovebox runtimes bundle --compiled`; its code is executed as is,
    /// so it must come from a trusted source; separate several with colons
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "GLOVEBOX_PREPARED",
        hide_env_values = true,
        value_delimiter = ':',
        hide_short_help = true
    )]
    pub(crate) prepared: Vec<PathBuf>,

    /// Default runtime for scripts of its language; separate several with commas [default: added runtimes, or
    /// Glovebox's own default]
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "GLOVEBOX_DEFAULT_RUNTIME",
        hide_env_values = true,
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub(crate) default_runtime: Vec<String>,

    /// Maximum size of compiled runtimes and prepared images in the cache, and separately of compiled components; the
    /// least recently used ones are evicted [default: 2GiB]
    #[arg(long, global = true, value_name = "BYTES", env = "GLOVEBOX_CACHE_BYTES", hide_env_values = true, value_parser = bytes, hide_short_help = true)]
    pub(crate) cache_bytes: Option<u64>,

    /// Evict compiled code that has not been used for this long, such as `12h` or `30d` [default: 30d]
    #[arg(long, global = true, value_name = "AGE", env = "GLOVEBOX_CACHE_AGE", hide_env_values = true, value_parser = duration, hide_short_help = true)]
    pub(crate) cache_age: Option<Duration>,

    /// Run Python without the packages at /app/site-packages; prepares a separate interpreter image
    #[arg(long, global = true)]
    pub(crate) no_packages: bool,

    /// Log the engine's actions to standard error; twice for more
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    /// Log filter, such as `info` or `glovebox=debug`
    #[arg(long, global = true, value_name = "FILTER", env = "GLOVEBOX_LOG", hide_env_values = true)]
    pub(crate) log: Option<String>,

    /// Format of log lines
    #[arg(long, global = true, value_name = "FORMAT", value_enum, default_value_t, hide_short_help = true)]
    pub(crate) log_format: LogFormat,

    /// Colours in the output of glovebox itself; guest output is never changed
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t)]
    pub(crate) color: Color,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Human-readable text
    #[default]
    Text,
    /// A JSON object per line: timestamp, level, target, message, and the event's fields
    Json,
}

/// The condition for using colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set
    #[default]
    Auto,
    /// In all output, even in files and pipes
    Always,
    /// In no output
    Never,
}

impl Color {
    /// Applies the choice to all output written through `anstream`.
    pub(crate) fn apply(self) {
        let choice = match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        };
        choice.write_global();
    }
}

/// Parses a count, such as `5000` or `5_000`.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let digits: String = text.chars().filter(|&c| c != '_').collect();
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err("write a whole number, such as `5000` or `5_000`".into());
    }
    digits.parse().map_err(|_| format!("the maximum is {}", u64::MAX))
}

/// Parses a 32-bit count.
pub(crate) fn count_u32(text: &str) -> Result<u32, String> {
    u32::try_from(count(text)?).map_err(|_| format!("the maximum is {}", u32::MAX))
}

/// Parses a number of bytes, optionally with a unit, such as `64MiB` or `2MB`.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor: u64 = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        _ => return Err("write a number of bytes, such as `1000000`, `64MiB` or `2MB`".into()),
    };
    count(number)?.checked_mul(factor).ok_or_else(|| format!("the maximum is {}", u64::MAX))
}

/// Parses a duration, such as `12h` or `30d`.
pub(crate) fn duration(text: &str) -> Result<Duration, &'static str> {
    humantime::parse_duration(text).map_err(|_| "write a number with a unit, such as `500ms`, `12h` or `30d`")
}

/// The store of sessions.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Sessions")]
pub(crate) struct StoreArgs {
    /// Store of sessions: a directory, or `s3://BUCKET/PREFIX`, `gs://…`, `az://…`, `file:///DIR` [default:
    /// GLOVEBOX_STORE for `run`, `resume`, `repl`, `session` and `validate`; otherwise the command's directory in
    /// $XDG_STATE_HOME/glovebox]
    #[arg(long, global = true, value_name = "DIR|URL")]
    pub(crate) store: Option<PathBuf>,

    /// File with a secret of 32 to 64 bytes that seals sessions and suspended executions; those with another seal are
    /// rejected [default: GLOVEBOX_KEY_FILE]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,

    /// Fail immediately if another process uses the session, instead of waiting
    #[arg(long, global = true)]
    pub(crate) no_wait: bool,
}

impl StoreArgs {
    /// Returns these flags, with the store from `GLOVEBOX_STORE` if no flag specifies one. Only commands for the user's
    /// own sessions call this: a server that inherits a shell's variables must not serve that shell's sessions.
    pub(crate) fn or_environment(&self) -> Self {
        Self { store: self.store.clone().or_else(|| variable("GLOVEBOX_STORE")), ..self.clone() }
    }

    /// Returns the path of the key file, from the flag or the environment.
    pub(crate) fn key_file(&self) -> Option<PathBuf> {
        self.key_file.clone().or_else(|| variable("GLOVEBOX_KEY_FILE"))
    }

    /// Rejects flags that need a stored session, if `session` is `None`.
    pub(crate) fn check(&self, session: Option<&SessionId>) -> Result<(), HintedError> {
        if self.no_wait && session.is_none() {
            return Err(HintedError::new("--no-wait requires a stored session", "add --session ID"));
        }
        Ok(())
    }
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Options for activating a session. They are not stored with the session.
#[derive(Args, Debug)]
pub(crate) struct ActivateArgs {
    #[command(flatten)]
    pub(crate) runtime: RuntimeArgs,

    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}

/// Additions to the `network` table of a policy.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Network")]
struct NetworkArgs {
    /// Allow scripts to request these URLs (`fetch`, `urllib.request`, `requests`), such as
    /// `https://api.example.com/v1/*`; repeatable [default: none]
    #[arg(long = "allow-net", value_name = "URL-PATTERN")]
    allow: Vec<String>,

    /// Allow these non-public addresses, such as `127.0.0.0/8`; repeatable
    #[arg(long = "allow-private-net", value_name = "RANGE")]
    allow_private: Vec<String>,

    /// Secret from the environment variable ENV for requests to HOST; repeatable
    ///
    /// Scripts see a placeholder in the variable NAME. The host replaces it with the secret in the headers of requests
    /// to HOST.
    #[arg(long = "secret", value_name = "NAME=ENV@HOST", value_parser = secret)]
    secrets: Vec<(String, SecretPolicy)>,
}

/// Parses a secret with the name that scripts see.
fn secret(text: &str) -> Result<(String, SecretPolicy), &'static str> {
    let parts = text.split_once('=').and_then(|(name, rest)| Some((name, rest.split_once('@')?)));
    match parts {
        Some((name, (env, host))) if !name.is_empty() && !env.is_empty() && !host.is_empty() => {
            Ok((name.to_owned(), SecretPolicy::new(env, host)))
        }
        _ => Err("write it as `NAME=ENV@HOST`, such as `API_KEY=REAL_KEY@api.example.com`"),
    }
}

impl NetworkArgs {
    fn apply(&self, network: &mut NetworkPolicy) {
        network.allow.extend(self.allow.iter().cloned());
        network.allow_private.extend(self.allow_private.iter().cloned());
        network.secrets.extend(self.secrets.iter().cloned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_accept_underscores_only() {
        assert_eq!(count("5_000"), Ok(5_000));
        assert_eq!(count("18446744073709551615"), Ok(u64::MAX));
        for wrong in ["", "_", "-1", "1.5", "1e9", "0x10", "18446744073709551616", "5 000", "+5"] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
        assert!(count_u32("4294967296").is_err());
    }

    #[test]
    fn units_do_not_overflow() {
        assert_eq!(bytes("64MiB"), Ok(64 << 20));
        assert_eq!(bytes("2MB"), Ok(2_000_000));
        assert_eq!(bytes("1 g"), Ok(1 << 30));
        assert!(bytes("18446744073709551615KiB").is_err());
        assert!(bytes("MiB").is_err());
        assert!(bytes("1TiBs").is_err());
    }

    #[test]
    fn secret_argument_requires_name_variable_and_host() {
        let policy = SecretPolicy::new("REAL", "api.example.com:8443");
        assert_eq!(secret("KEY=REAL@api.example.com:8443"), Ok(("KEY".to_owned(), policy)));
        for wrong in ["", "KEY", "KEY=REAL", "=REAL@x", "KEY=@x", "KEY=REAL@"] {
            assert!(secret(wrong).is_err(), "{wrong}");
        }
    }
}
