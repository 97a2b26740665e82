//! Log lines on standard error, off unless asked for.

use std::str::FromStr;

use anyhow::Context;
use tracing_subscriber::{Layer, filter::Targets, fmt, layer::SubscriberExt, registry};

use crate::cli::GlobalArgs;

/// Starts logging where `--log`, `GLOVEBOX_LOG` or `-v` asks for it. Costs nothing otherwise.
pub(crate) fn start(global: &GlobalArgs) -> anyhow::Result<()> {
    let filter = match (&global.log, global.verbose) {
        (Some(filter), _) if !filter.is_empty() => filter.as_str(),
        (_, 0) => return Ok(()),
        (_, 1) => "glovebox=info",
        (_, 2) => "glovebox=debug,glovebox_runtimes=debug,glovebox_wasi=debug",
        _ => "trace",
    };
    let targets = Targets::from_str(filter)
        .with_context(|| format!("`{filter}` is no log filter; use for example `info` or `glovebox=debug`"))?;
    let colour = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(colour).with_filter(targets);
    // A second subscriber in one process is impossible here, so the error has no meaning to a user.
    tracing::subscriber::set_global_default(registry().with(lines)).context("cannot start logging")
}
