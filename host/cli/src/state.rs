//! Where what should outlast a process, and is nobody else's business, is kept.

use glovebox::escaped;
use std::{env, fs, io, os::unix::fs::DirBuilderExt, path::PathBuf};

use crate::terminal::Hinted;

/// The state directory as the XDG Base Directory Specification has it: `$XDG_STATE_HOME/glovebox`, else
/// `~/.local/state/glovebox`.
pub(crate) fn dir() -> anyhow::Result<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    match base {
        Some(base) => Ok(base.join("glovebox")),
        None => Err(Hinted::new(
            "neither XDG_STATE_HOME nor HOME names a directory to keep state in",
            "set one of them to an absolute path, or name a directory with --store",
        )
        .into()),
    }
}

/// Makes the state directory, for this user alone, where it is not there yet.
pub(crate) fn create() -> anyhow::Result<PathBuf> {
    let dir = dir()?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(|error: io::Error| {
        Hinted::new(
            format!("cannot make the state directory `{}`", escaped(&dir)),
            "set XDG_STATE_HOME to a directory you can write to",
        )
        .because(error)
    })?;
    Ok(dir)
}
