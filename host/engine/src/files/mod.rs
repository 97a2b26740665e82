//! Workspace files for the embedder: reading, changing, copying in and copying out.
//!
//! [`Files`] is a read-only snapshot of a workspace. [`SessionFiles`] reads and changes the current workspace of a
//! session, or a workspace that several sessions share. Changes and executions run in the order in which they were
//! requested.
//!
//! * *Paths* are relative to the workspace, `/app` in the guest. Absolute paths and paths with `..` are rejected. Only
//!   copies access paths on the host, and only below the path that the caller passes.
//! * *Links* of the guest are followed inside the workspace, as in the guest. Copies and archives transfer links as
//!   links, without following them.
//! * *Atomicity*: a change that fails, for example because of a quota, leaves the workspace unchanged. A copy to the
//!   host that fails leaves the host unchanged.

mod archive;
mod copy;
mod session;
pub(crate) mod workspace;

#[cfg(test)]
mod tests;

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use glovebox_core::files::Snapshot;
use glovebox_vfs::{RootId, SourceError, Vfs, VfsError, escaped};

use crate::{ExecuteError, mount::MountError};

pub use copy::CopyReport;
pub use glovebox_core::files::{FileEntry, FileError, FilePage, IfExists, ListLimits};
pub use session::SessionFiles;

/// Checks a file name pattern without matching it against files.
///
/// # Errors
/// Fails with [`FileError::Pattern`], like [`Files::list`].
pub fn check_pattern(pattern: &str) -> Result<(), FilesError> {
    Ok(glovebox_core::files::check_pattern(pattern)?)
}

/// A failed operation on the files of a workspace. The workspace is unchanged, except after [`FilesError::Session`]
/// with [`ExecuteError::Mount`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilesError {
    /// The workspace rejected the path, the pattern or the operation.
    #[error(transparent)]
    Workspace(#[from] FileError),
    /// The host path is a symbolic link. Links are not followed.
    #[error("`{}` is a symbolic link; use its target", escaped(path))]
    HostLink {
        /// The path from the caller.
        path: PathBuf,
    },
    /// The host path does not exist.
    #[error("`{}` does not exist on the host; use another path", escaped(path))]
    HostMissing {
        /// The path from the caller.
        path: PathBuf,
    },
    /// The host path is neither a file nor a directory, or has a name that is not UTF-8.
    #[error("`{}` is not a file or directory, or its name is not UTF-8; use another path", escaped(path))]
    HostPath {
        /// The path from the caller.
        path: PathBuf,
    },
    /// Files on the host could not be read.
    #[error("cannot read `{}` on the host", escaped(path))]
    HostRead {
        /// The path from the caller.
        path: PathBuf,
        /// The underlying error.
        #[source]
        source: SourceError,
    },
    /// The host directory cannot be used or written. The directory is unchanged.
    #[error(transparent)]
    Host(#[from] MountError),
    /// The archive is damaged, has too many entries, or contains unsupported entries, for example devices, sparse files
    /// or names outside the workspace.
    #[error("the archive was refused at `{entry}`: {reason}", entry = escaped(.entry))]
    Archive {
        /// The name of the entry, truncated.
        entry: String,
        /// The reason for the rejection.
        reason: &'static str,
    },
    /// An operation outside the workspace failed.
    #[error("cannot {action}")]
    Io {
        /// The failed action.
        action: &'static str,
        /// The error from the operating system, or from the caller's reader or writer.
        #[source]
        source: io::Error,
    },
    /// The session's files are unavailable: the session has ended or stays busy. With [`ExecuteError::Mount`], the
    /// workspace was changed, but the change could not be committed to a host directory.
    #[error(transparent)]
    Session(Box<ExecuteError>),
}

impl From<ExecuteError> for FilesError {
    fn from(error: ExecuteError) -> Self {
        Self::Session(Box::new(error))
    }
}

impl FilesError {
    /// Returns a closure for `map_err` that reports a refused operation on `path`.
    fn refused(action: &'static str, path: &str) -> impl FnOnce(VfsError) -> Self + use<> {
        let refused = FileError::refused(action, path);
        move |source| refused(source).into()
    }

    /// Returns a closure for `map_err` that reports a failed operation outside the workspace.
    fn io(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, source }
    }
}

// Snapshots of workspaces: reading files and copying them to the host.

/// A snapshot of the workspace of an execution or a session. It includes changes that were not committed to a host
/// directory. Unchanged contents are shared with the session, so the snapshot takes additional memory only for later
/// changes in the session.
///
/// If the workspace is a host directory, files that have not been read yet are read from the host on demand.
#[derive(Clone, Debug)]
pub struct Files(Snapshot);

impl From<Snapshot> for Files {
    fn from(snapshot: Snapshot) -> Self {
        Self(snapshot)
    }
}

impl Files {
    /// Returns the empty files of an execution without a workspace.
    pub(crate) fn none() -> Self {
        Self(Snapshot::none())
    }

    pub(crate) fn of(vfs: Vfs, root: Option<RootId>) -> Self {
        Self(Snapshot::new(vfs, root))
    }

    /// Returns the size of the files in memory, in bytes.
    #[doc(hidden)]
    pub fn held_bytes(&self) -> u64 {
        self.0.held_bytes()
    }

    /// Lists the files, directories and links that match a pattern, sorted by path. Names with a leading dot also
    /// match. Links are not followed.
    ///
    /// `*` and `?` match within one name, `**` matches any number of directories, `[ab]` one of these characters, and
    /// `{a,b}` one of these patterns. `\` makes the next character literal. For example, `*` matches the entries at the
    /// top of the workspace, `**` all entries, and `src/**/*.py` all Python files below `src`.
    ///
    /// # Errors
    /// [`FileError::Pattern`] if the pattern is malformed, absolute, longer than 4,096 bytes, contains `..`, nests
    /// alternatives more than 32 levels deep, or takes too long to match. [`FileError::Refused`] if a host directory
    /// cannot be listed.
    pub fn list(&self, pattern: &str) -> Result<Vec<FileEntry>, FilesError> {
        Ok(self.0.list(pattern)?)
    }

    /// Returns one page of the entries that [`list`](Self::list) returns, starting with the first path greater than
    /// `after`. `limits` bounds the memory, regardless of the number of entries.
    ///
    /// # Errors
    /// Fails like [`list`](Self::list).
    pub fn list_page(&self, pattern: &str, after: Option<&str>, limits: ListLimits) -> Result<FilePage, FilesError> {
        Ok(self.0.list_page(pattern, after, limits)?)
    }

    /// Returns the first entries below the directory `dir`, at most `max_depth` levels deep, sorted by path.
    ///
    /// # Errors
    /// [`FileError::Path`] if `dir` is invalid. [`FileError::Refused`] if `dir` does not exist, or a host directory
    /// cannot be listed.
    pub fn list_below(&self, dir: &str, max_depth: usize, limits: ListLimits) -> Result<FilePage, FilesError> {
        Ok(self.0.list_below(dir, max_depth, limits)?)
    }

    /// Returns an entry's description. Follows links in the path, except at its end.
    ///
    /// # Errors
    /// [`FileError::Path`] if the path is invalid. [`FileError::Refused`] if it does not exist.
    pub fn stat(&self, path: &str) -> Result<FileEntry, FilesError> {
        Ok(self.0.stat(path)?)
    }

    /// Returns the size of a file in bytes. Follows links, like [`read`](Self::read).
    ///
    /// # Errors
    /// Fails like [`stat`](Self::stat).
    pub fn size_bytes(&self, path: &str) -> Result<u64, FilesError> {
        Ok(self.0.size_bytes(path)?)
    }

    /// Reads a whole file. Follows links.
    ///
    /// # Errors
    /// [`FileError::Path`] if the path is invalid. [`FileError::Refused`] if there is no such file, or the file is
    /// larger than 1 GiB.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, FilesError> {
        Ok(self.0.read(path, 0, None)?)
    }

    /// Reads at most `len_bytes` bytes of a file, starting at byte `offset`. Returns fewer bytes only at the end of the
    /// file, and none beyond it.
    ///
    /// # Errors
    /// Fails like [`read`](Self::read), but applies the limit of 1 GiB to the bytes read, not to the file.
    pub fn read_at(&self, path: &str, offset: u64, len_bytes: u64) -> Result<Vec<u8>, FilesError> {
        Ok(self.0.read(path, offset, Some(len_bytes))?)
    }

    /// Copies the file or directory tree `from` in the workspace (`""` for the whole workspace) to `host`. If `from` is
    /// a directory, `host` must be a directory too. A missing directory is created if its parent exists.
    ///
    /// The copy is all or nothing. Each file appears atomically. Nothing outside `host` is changed, whatever links
    /// exist on either side. Links that would point outside `host` are skipped and counted.
    ///
    /// # Errors
    /// [`FileError::Path`] if `from` is invalid. [`FileError::Refused`] if it does not exist or cannot be read.
    /// [`FileError::Exists`] if a file exists and must not be replaced, or if only one of `from` and `host` is a
    /// directory. [`FilesError::Host`] if the host directory cannot be written, or if the copy would exceed the
    /// workspace's quotas, counting each hard link. [`FilesError::HostLink`] if `host` is a symbolic link.
    /// [`FilesError::HostPath`] if it is neither a file nor a directory, or its name is not UTF-8. [`FilesError::Io`]
    /// if it cannot be inspected or created.
    pub fn copy_out(&self, from: &str, host: impl AsRef<Path>, if_exists: IfExists) -> Result<CopyReport, FilesError> {
        let (mut vfs, root) = self.0.state()?;
        copy::to_host(&mut vfs, root, from, host.as_ref(), if_exists)
    }

    /// Writes the whole workspace as a tar archive (GNU format), sorted by path. Equal workspaces produce equal bytes.
    /// Owners are 0, and times are the modification times in seconds. Modes are 0644 for files, 0755 for directories
    /// and 0777 for links. Additional hard links to a file are written as hard links.
    ///
    /// # Errors
    /// [`FilesError::Io`] if the writer fails or a file cannot be read. [`FileError::Refused`] if a host directory
    /// cannot be listed. The data written before the error is not a complete archive.
    pub fn export_tar(&self, writer: impl Write) -> Result<CopyReport, FilesError> {
        let (mut vfs, root) = self.0.state()?;
        archive::export(&mut vfs, root, writer)
    }
}
