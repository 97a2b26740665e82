//! The file that runs this command, for what it does in processes of its own.

use std::{path::PathBuf, sync::OnceLock};

static PATH: OnceLock<PathBuf> = OnceLock::new();

/// Says where it is, once.
pub(crate) fn set(path: PathBuf) {
    let _ = PATH.set(path);
}

/// Where it is.
pub(crate) fn path() -> PathBuf {
    PATH.get().cloned().unwrap_or_else(|| "glovebox".into())
}
