//! The directory for private data that outlives a process.

use glovebox::escaped;
use std::{env, fs, io, os::unix::fs::DirBuilderExt, path::PathBuf};

use crate::terminal::Hinted;

/// Returns the state directory according to the XDG Base Directory Specification: `$XDG_STATE_HOME/glovebox`, otherwise
/// `~/.local/state/glovebox`.
pub(crate) fn dir() -> anyhow::Result<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    match base {
        Some(base) => Ok(base.join("glovebox")),
        None => Err(Hinted::new(
            "neither XDG_STATE_HOME nor HOME names a directory for state",
            "set one of them to an absolute path, or name a directory with --store",
        )
        .into()),
    }
}

/// Creates the state directory with mode 0700, if it does not exist.
pub(crate) fn create() -> anyhow::Result<PathBuf> {
    let dir = dir()?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(|error: io::Error| {
        Hinted::new(
            format!("cannot create the state directory `{}`", escaped(&dir)),
            "set XDG_STATE_HOME to a directory you can write to",
        )
        .because(error)
    })?;
    Ok(dir)
}
