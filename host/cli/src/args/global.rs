//! Flags of every subcommand.

use std::{path::PathBuf, time::Duration};

use clap::{ArgAction, Args, ValueEnum};

use super::quantity;

/// Flags of every subcommand.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// Directory for interpreters and their prepared images [default: $XDG_CACHE_HOME/glovebox]
    #[arg(long, global = true, value_name = "DIR", env = "GLOVEBOX_CACHE_DIR", hide_env_values = true)]
    pub(crate) cache_dir: Option<PathBuf>,

    /// Bundle of downloads, made by `glovebox runtimes bundle`; it is used before the network
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "GLOVEBOX_BUNDLE",
        hide_env_values = true,
        hide_short_help = true
    )]
    pub(crate) bundle: Option<PathBuf>,

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
    #[arg(long, global = true, value_name = "BYTES", env = "GLOVEBOX_CACHE_BYTES", hide_env_values = true, value_parser = quantity::bytes, hide_short_help = true)]
    pub(crate) cache_bytes: Option<u64>,

    /// Evict compiled code that was not used for this long, such as `12h` or `30d` [default: 30d]
    #[arg(long, global = true, value_name = "AGE", env = "GLOVEBOX_CACHE_AGE", hide_env_values = true, value_parser = humantime::parse_duration, hide_short_help = true)]
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
    /// Text for people
    #[default]
    Text,
    /// A JSON object per line: timestamp, level, target, message, and the event's fields
    Json,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
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
