//! Why a directory of Glovebox cannot be used.

use glovebox_vfs::escaped;
use std::io;
use std::path::{Path, PathBuf};

/// Why the cache, or another directory of Glovebox, cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// There is a symbolic link instead of the directory or file. Following it would trust whoever created it.
    #[error(
        "`{}` is a symbolic link, which is not followed; remove it, or name the directory it points to",
        escaped(path)
    )]
    Symlink {
        /// The link.
        path: PathBuf,
    },
    /// Another user owns it.
    #[error("`{}` belongs to user {owner}, not to you ({user}), so what is in it cannot be trusted; type `chown {user} {}`, or use another directory", escaped(path), escaped(&quoted(path)))]
    Owner {
        /// The directory or file.
        path: PathBuf,
        /// Its owner's user id.
        owner: u32,
        /// The effective user id.
        user: u32,
    },
    /// Other users may write to it.
    #[error("`{}` can be written by others (mode {mode:04o}), so what is in it cannot be trusted; type `chmod go-w {}`, and remove what others may have changed, or use another directory", escaped(path), escaped(&quoted(path)))]
    Writable {
        /// The directory or file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It should be a directory and is not.
    #[error("`{}` is not a directory; remove it, or use another directory", escaped(path))]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// It should be a regular file and is not.
    #[error("`{}` is not a regular file; remove it", escaped(path))]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The user has no home directory.
    #[error("no cache directory was found, because the user has no home directory; name one")]
    NoHome,
    /// The operation was cancelled.
    #[error("cancelled while waiting for another process that holds `{}`", escaped(path))]
    Cancelled {
        /// The lock it waited for.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("cannot {action} `{}`: {source}", escaped(path))]
    Io {
        /// The operation.
        action: &'static str,
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl CacheError {
    /// The error of a system call.
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }
}

/// A path quoted for a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}
