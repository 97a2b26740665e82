//! A Unix socket to which only the current user can connect.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, ErrorKind},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
        net::{UnixListener as StdListener, UnixStream as StdStream},
    },
    path::{Path, PathBuf},
};

use glovebox::escaped;
use tokio::net::{UnixListener, UnixStream, unix::UCred};

/// Maximum length of a socket path in bytes. Linux allows 107, and macOS 103, of which [`NEW`] needs four.
const MAX_PATH_BYTES: usize = 99;
/// The suffix of the temporary name under which the socket is bound.
const NEW: &str = ".new";

/// An error from [`SocketListener::bind`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// The path is in use by another server or program.
    #[error("a server is already listening at `{}`; stop it with `glovebox daemon stop`, or choose another path with `--socket`", escaped(.0))]
    InUse(PathBuf),
    /// The path exists but is not a socket.
    #[error("`{}` exists but is not a socket; move or remove it, or choose another path with `--socket`", escaped(.0))]
    NotASocket(PathBuf),
    /// Other users could replace the socket, because the directory has another owner or a permissive mode.
    #[error("the directory `{}` {reason}; use `--socket` to choose a path in a directory you own", escaped(.path))]
    Directory {
        /// The path of the directory.
        path: PathBuf,
        /// The problem, worded to follow the path, for example "is writable by other users".
        reason: &'static str,
    },
    /// The path is too long for a socket.
    #[error("the socket path `{}` is longer than {MAX_PATH_BYTES} bytes; choose a shorter one with `--socket`", escaped(.0))]
    TooLong(PathBuf),
    /// The operating system returned an error.
    #[error("cannot listen at `{}`: {source}", escaped(.path))]
    Io {
        /// The socket path, or an empty path if it cannot be made absolute.
        path: PathBuf,
        /// The error from the operating system.
        source: io::Error,
    },
}

/// A listening socket. Dropping the listener removes the socket.
#[derive(Debug)]
pub struct SocketListener {
    listener: UnixListener,
    path: PathBuf,
    /// The device and inode number of the socket file. On drop, the listener removes only this file.
    identity: (u64, u64),
    /// Lock on the path, held until the listener is dropped. If two servers start simultaneously, only one acquires the
    /// lock.
    _lock: File,
}

impl SocketListener {
    /// Listens at a path. Creates the directory with mode 0700 if it does not exist, and replaces a stale socket. Must
    /// be called within a Tokio runtime.
    ///
    /// # Errors
    /// Fails if a server is already listening at the path, or if the directory belongs to another user or is writable
    /// by other users. Also fails if the path is longer than 99 bytes, if it exists but is not a socket, or if an I/O
    /// operation fails.
    pub fn bind(path: impl Into<PathBuf>) -> Result<Self, SocketError> {
        let path = std::path::absolute(path.into()).map_err(|source| failed(Path::new(""), source))?;
        if path.as_os_str().as_bytes().len() > MAX_PATH_BYTES {
            return Err(SocketError::TooLong(path));
        }
        let io = |source| failed(&path, source);
        let dir = path.parent().unwrap_or(Path::new("/"));
        make_private(dir).map_err(io)?;
        // The directory must not let other users replace the socket.
        let found = fs::metadata(dir).map_err(io)?;
        let refused = |reason| Err(SocketError::Directory { path: dir.to_owned(), reason });
        if found.uid() != rustix::process::geteuid().as_raw() {
            return refused("belongs to another user");
        }
        if found.mode() & 0o022 != 0 {
            return refused("is writable by other users");
        }
        let lock = lock(&beside(&path, ".lock")).map_err(io)?.ok_or_else(|| SocketError::InUse(path.clone()))?;
        match fs::symlink_metadata(&path) {
            Ok(found) if !found.file_type().is_socket() => return Err(SocketError::NotASocket(path)),
            // The lock is free: the socket belongs to another program or to a server that was killed.
            Ok(_) if StdStream::connect(&path).is_ok() => return Err(SocketError::InUse(path)),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(io(error)),
        }
        // Bind under a temporary name. The rename then replaces a stale socket atomically, and the socket appears at
        // its path only after its permissions are set.
        let new = beside(&path, NEW);
        match fs::symlink_metadata(&new) {
            Ok(found) if !found.file_type().is_socket() => return Err(SocketError::NotASocket(new)),
            // This is the socket of a server that was killed before the rename.
            Ok(_) => fs::remove_file(&new).map_err(io)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(io(error)),
        }
        let listener = StdListener::bind(&new).map_err(io)?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).map_err(io)?;
        let metadata = fs::symlink_metadata(&new).map_err(io)?;
        fs::rename(&new, &path).map_err(io)?;
        listener.set_nonblocking(true).map_err(io)?;
        let listener = UnixListener::from_std(listener).map_err(io)?;
        Ok(Self { listener, path, identity: (metadata.dev(), metadata.ino()), _lock: lock })
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Accepts a connection from the current user. Closes connections from other users.
    pub(super) async fn accept(&self) -> io::Result<UnixStream> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            if stream.peer_cred().as_ref().is_ok_and(is_this_user) {
                return Ok(stream);
            }
            tracing::warn!(target: "glovebox", "rejected a connection from another user");
        }
    }
}

fn is_this_user(peer: &UCred) -> bool {
    peer.uid() == rustix::process::geteuid().as_raw()
}

impl Drop for SocketListener {
    fn drop(&mut self) {
        let found = fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| (found.dev(), found.ino()) == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn failed(path: &Path, source: io::Error) -> SocketError {
    SocketError::Io { path: path.to_owned(), source }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Creates a directory with mode 0700 if it does not exist.
fn make_private(dir: &Path) -> io::Result<()> {
    if dir.is_dir() { Ok(()) } else { DirBuilder::new().recursive(true).mode(0o700).create(dir) }
}

/// Locks the file at `path`. Returns `None` if another process holds the lock.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn peer_in_the_same_process_has_the_same_user() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert!(is_this_user(&one.peer_cred().unwrap()));
    }
}
