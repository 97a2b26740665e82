//! The socket that only its user may connect to.

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
use tokio::net::{UnixListener, UnixStream};

/// The longest path of a socket, on every Unix.
const MAX_PATH_BYTES: usize = 100;

/// The socket cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// Somebody listens there.
    #[error("a daemon listens at `{}` already; `glovebox daemon stop` ends it, and `--socket` names another place", escaped(.0))]
    InUse(PathBuf),
    /// Something else has the name.
    #[error("`{}` is not a socket; move it away, or name another place with --socket", escaped(.0))]
    NotASocket(PathBuf),
    /// Others could put something in the place of the socket.
    #[error("the directory `{}` {reason}; name a place in a directory that only you can write to with --socket", escaped(.path))]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A socket's path is limited by the system.
    #[error("the path `{}` is longer than {MAX_PATH_BYTES} bytes, which a socket's cannot be; name a shorter one with --socket", escaped(.0))]
    TooLong(PathBuf),
    /// The system refused.
    #[error("cannot listen at `{}`: {source}", escaped(.path))]
    Io {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The socket that clients connect to. It is removed when this is dropped.
#[derive(Debug)]
pub struct Listener {
    listener: UnixListener,
    path: PathBuf,
    /// Device and number of the socket, so that no other's is removed.
    identity: (u64, u64),
    /// Held as long as this is, so that of two daemons that start at once one has the place.
    _lock: File,
}

impl Listener {
    /// Listens at a path. The directory is made, for this user alone, if there is none; a socket that nobody listens to any more is
    /// replaced. Called on a runtime.
    ///
    /// # Errors
    /// When a daemon listens there already, or the place is not safe.
    pub fn bind(path: impl Into<PathBuf>) -> Result<Self, SocketError> {
        let path = std::path::absolute(path.into()).map_err(|source| failed(Path::new(""), source))?;
        if path.as_os_str().as_bytes().len() > MAX_PATH_BYTES {
            return Err(SocketError::TooLong(path));
        }
        let io = |source| failed(&path, source);
        let dir = path.parent().unwrap_or(Path::new("/"));
        make_private(dir).map_err(io)?;
        check_dir(dir).map_err(|(reason, error)| match error {
            Some(source) => io(source),
            None => SocketError::Directory { path: dir.to_owned(), reason },
        })?;
        let lock = lock(&beside(&path, ".lock")).map_err(io)?.ok_or_else(|| SocketError::InUse(path.clone()))?;
        match fs::symlink_metadata(&path) {
            Ok(found) if !found.file_type().is_socket() => return Err(SocketError::NotASocket(path)),
            // Of another program's making, or of a daemon's that was killed.
            Ok(_) if StdStream::connect(&path).is_ok() => return Err(SocketError::InUse(path)),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(io(error)),
        }
        // Under another name first: nobody sees it before it is as it is to be, and it takes the place of what was there at once.
        let new = beside(&path, ".new");
        match fs::remove_file(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(io(error)),
            _ => {}
        }
        let listener = StdListener::bind(&new).map_err(io)?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).map_err(io)?;
        let made = fs::symlink_metadata(&new).map_err(io)?;
        fs::rename(&new, &path).map_err(io)?;
        listener.set_nonblocking(true).map_err(io)?;
        let listener = UnixListener::from_std(listener).map_err(io)?;
        Ok(Self { listener, path, identity: (made.dev(), made.ino()), _lock: lock })
    }

    /// Where it listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) async fn accept(&self) -> io::Result<UnixStream> {
        self.listener.accept().await.map(|(stream, _)| stream)
    }
}

impl Drop for Listener {
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

/// Makes a directory for this user alone, if there is none.
fn make_private(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Others must not be able to put something in the place of the socket.
fn check_dir(dir: &Path) -> Result<(), (&'static str, Option<io::Error>)> {
    let found = fs::metadata(dir).map_err(|error| ("", Some(error)))?;
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(("is another user's", None));
    }
    if found.mode() & 0o022 != 0 {
        return Err(("can be written to by others", None));
    }
    Ok(())
}

/// The lock of a place; none while another has it.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
