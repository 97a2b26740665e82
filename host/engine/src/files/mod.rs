//! The files of a workspace for the embedder: reading and changing them, and copying them in and out.
//!
//! There are two types. [`Files`] is a read-only snapshot of a workspace. [`SessionFiles`] is the current workspace of
//! a session, or one that several sessions share. It changes files between executions; changes and executions run in
//! the order of their calls.
//!
//! * *Paths* are relative to the workspace, `/app` in the guest. Absolute paths and paths with `..` are rejected. Only
//!   copies resolve paths on the host, and only below the path from the caller.
//! * *Links* of the guest are followed inside the workspace, like the guest does. Copies and archives transfer links as
//!   links, without following them.
//! * *Atomicity*: a failed change, for example at a quota, leaves the workspace unchanged. A failed copy to the host
//!   leaves the host unchanged.

mod archive;
mod carry;
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

pub use carry::CopyReport;
pub use glovebox_core::files::{FileEntry, FileError, FilePage, IfExists, ListLimits};
pub use session::SessionFiles;

/// Checks a pattern of file names, without files to match.
///
/// # Errors
/// [`FileError::Pattern`], as for [`Files::list`].
pub fn check_pattern(pattern: &str) -> Result<(), FilesError> {
    Ok(glovebox_core::files::check_pattern(pattern)?)
}

/// A failed operation on the files of a workspace. The workspace is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilesError {
    /// An error of the workspace itself: its path, pattern or file system.
    #[error(transparent)]
    Workspace(#[from] FileError),
    /// The path on the host is a symbolic link. Links are not followed.
    #[error("`{}` is a symbolic link; name its target", escaped(path))]
    HostLink {
        /// The path from the caller.
        path: PathBuf,
    },
    /// The path on the host is neither a file nor a directory, or its name is not UTF-8.
    #[error("`{}` is neither a file nor a directory with a UTF-8 name; name another path", escaped(path))]
    HostPath {
        /// The path from the caller.
        path: PathBuf,
    },
    /// The host's files could not be read.
    #[error("could not read `{}` on the host", escaped(path))]
    HostRead {
        /// The path from the caller.
        path: PathBuf,
        /// Underlying error.
        #[source]
        source: SourceError,
    },
    /// The host directory cannot be used or written to. It is unchanged.
    #[error(transparent)]
    Host(#[from] MountError),
    /// The archive is damaged or has unsupported entries: devices, sparse files, or names that lead out of the
    /// workspace.
    #[error("the archive is refused at `{entry}`: {reason}", entry = escaped(.entry))]
    Archive {
        /// Name of the entry, truncated.
        entry: String,
        /// The reason for the rejection.
        reason: &'static str,
    },
    /// Reading or writing outside the workspace failed.
    #[error("could not {action}")]
    Io {
        /// The failed action.
        action: &'static str,
        /// The error of the operating system, or of the caller's reader or writer.
        #[source]
        source: io::Error,
    },
    /// The session's files are unavailable: the session has ended, or waiting for its turn took too long.
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

    /// Returns a closure for `map_err` that reports a failure outside the workspace.
    fn io(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, source }
    }
}

// A snapshot of a workspace. Reads the files of a workspace, and copies them out of it.

/// A snapshot of a workspace: after an execution, committed to a host directory or not, or of a session. It shares
/// unchanged contents with the session, so its memory grows only with later changes in the session.
///
/// If the workspace is a host directory, files that were never read before are read from it on demand.
#[derive(Clone, Debug)]
pub struct Files(Snapshot);

impl From<Snapshot> for Files {
    fn from(snapshot: Snapshot) -> Self {
        Self(snapshot)
    }
}

impl Files {
    /// Returns the files of an execution without a workspace.
    pub(crate) fn none() -> Self {
        Self(Snapshot::none())
    }

    /// Returns the files of a workspace.
    pub(crate) fn of(vfs: Vfs, root: Option<RootId>) -> Self {
        Self(Snapshot::new(vfs, root))
    }

    /// Returns the memory that the files take, in bytes.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.0.held_bytes()
    }
}

impl Files {
    /// Lists files, directories and links that match a pattern, in ascending order of paths. Names with a leading dot
    /// match, too. Links are not followed.
    ///
    /// `*` and `?` match within one name, `**` matches any number of directories, `[ab]` one of these characters, and
    /// `{a,b}` one of these patterns. `\` makes the next character literal. So `*` matches the entries at the top of
    /// the workspace, `**` all entries, and `src/**/*.py` all Python files below `src`.
    ///
    /// # Errors
    /// [`FileError::Pattern`] if the pattern is malformed, absolute, longer than 4,096 bytes, contains `..`, or nests
    /// alternatives more than 32 levels deep. [`FileError::Refused`] if a host directory cannot be listed.
    pub fn list(&self, pattern: &str) -> Result<Vec<FileEntry>, FilesError> {
        Ok(self.0.list(pattern)?)
    }

    /// Returns the first of the entries that [`list`](Self::list) returns, from the first path greater than `after` on.
    /// Memory is bounded by the limits, however many entries there are.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn list_page(&self, pattern: &str, after: Option<&str>, limits: ListLimits) -> Result<FilePage, FilesError> {
        Ok(self.0.list_page(pattern, after, limits)?)
    }

    /// Returns the first entries below the directory `dir`, at most `max_depth` names deep, in ascending order of paths.
    ///
    /// # Errors
    /// [`FileError::Path`]; [`FileError::Refused`] if `dir` does not exist or a host directory cannot be listed.
    pub fn list_below(&self, dir: &str, max_depth: usize, limits: ListLimits) -> Result<FilePage, FilesError> {
        Ok(self.0.list_below(dir, max_depth, limits)?)
    }

    /// Returns the description of an entry. A link at the end of the path is not followed; links before it are.
    ///
    /// # Errors
    /// [`FileError::Path`]; [`FileError::Refused`] if the path does not exist.
    pub fn stat(&self, path: &str) -> Result<FileEntry, FilesError> {
        Ok(self.0.stat(path)?)
    }

    /// Reads a whole file.
    ///
    /// # Errors
    /// [`FileError::Path`]; [`FileError::Refused`] if the path is not a file, or the file is larger than 1 GiB.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, FilesError> {
        Ok(self.0.read(path, 0, None)?)
    }

    /// Reads at most `len_bytes` bytes of a file from the byte `offset` on. Returns fewer only at the end of the file,
    /// and none beyond it.
    ///
    /// # Errors
    /// As for [`read`](Self::read), except that the file may be larger than 1 GiB if `len_bytes` is not.
    pub fn read_at(&self, path: &str, offset: u64, len_bytes: u64) -> Result<Vec<u8>, FilesError> {
        Ok(self.0.read(path, offset, Some(len_bytes))?)
    }

    /// Copies a file or a directory tree `from` the workspace (`""` for the whole workspace) to `host`. If `from` is a
    /// directory, `host` may be an existing directory, or is created if its parent exists.
    ///
    /// The copy is all or nothing, each file appears atomically, and nothing outside `host` is changed, whatever links
    /// exist on either side. Links that would lead out of `host` are skipped and counted.
    ///
    /// # Errors
    /// [`FileError::Exists`]. [`FilesError::Host`] if the host directory cannot be written to, or if the copy would
    /// exceed the workspace's quotas, where each hard link counts. [`FilesError::HostLink`].
    pub fn copy_out(&self, from: &str, host: impl AsRef<Path>, if_exists: IfExists) -> Result<CopyReport, FilesError> {
        let (mut vfs, root) = self.0.state()?;
        carry::out_of(&mut vfs, root, from, host.as_ref(), if_exists)
    }

    /// Writes the whole workspace as a tar archive (GNU format), in ascending order of paths: equal workspaces give
    /// equal bytes. Owners are 0, modes 0644 and 0755, and times are those of the files, in seconds. Additional hard
    /// links of a file are written as hard links.
    ///
    /// # Errors
    /// [`FilesError::Io`] if the writer fails. The data written so far is not a complete archive.
    pub fn export_tar(&self, writer: impl Write) -> Result<CopyReport, FilesError> {
        let (mut vfs, root) = self.0.state()?;
        archive::export(&mut vfs, root, writer)
    }
}
