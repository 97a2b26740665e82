//! Path of the executable that runs this command, for child processes.

use std::{path::PathBuf, sync::OnceLock};

static PATH: OnceLock<PathBuf> = OnceLock::new();

/// Sets the path. Later calls are ignored.
pub(crate) fn set(path: PathBuf) {
    let _ = PATH.set(path);
}

/// Returns the path.
#[cfg(feature = "full")]
pub(crate) fn path() -> PathBuf {
    PATH.get().cloned().unwrap_or_else(|| "glovebox".into())
}
