//! Errors of Glovebox's directories.

use glovebox_vfs::escaped;
use std::io;
use std::path::{Path, PathBuf};

/// Why the cache, or another directory of Glovebox, cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The path is a symbolic link. Following it would trust its creator.
    #[error("`{}` is a symbolic link; remove it, or name its target", escaped(path))]
    Symlink {
        /// Path of the link.
        path: PathBuf,
    },
    /// The directory or file belongs to another user.
    #[error("`{}` belongs to user {owner}, not to you ({user}), so its contents are not trusted; type `chown {user} {}`, or use another directory", escaped(path), escaped(&quoted(path)))]
    Owner {
        /// Path of the directory or file.
        path: PathBuf,
        /// User ID of the owner.
        owner: u32,
        /// Effective user ID of this process.
        user: u32,
    },
    /// Other users can write to the directory or file.
    #[error("`{}` is writable by other users (mode {mode:04o}), so its contents are not trusted; check them and type `chmod go-w {}`, or use another directory", escaped(path), escaped(&quoted(path)))]
    Writable {
        /// Path of the directory or file.
        path: PathBuf,
        /// Permission bits.
        mode: u32,
    },
    /// The path is not a directory.
    #[error("`{}` is not a directory; remove it, or use another directory", escaped(path))]
    NotADirectory {
        /// Path of the existing file or directory.
        path: PathBuf,
    },
    /// The path is not a regular file.
    #[error("`{}` is not a regular file; remove it", escaped(path))]
    NotAFile {
        /// Path of the existing file or directory.
        path: PathBuf,
    },
    /// The user has no home directory.
    #[error("no cache directory was found, because the user has no home directory; name one")]
    NoHome,
    /// The operation was cancelled while it waited for a lock.
    #[error("cancelled while waiting for another process that holds `{}`", escaped(path))]
    Cancelled {
        /// Path of the lock.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("cannot {action} `{}`: {source}", escaped(path))]
    Io {
        /// Name of the operation.
        action: &'static str,
        /// Path that it applied to.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

impl CacheError {
    /// Creates the error of a failed system call.
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}
