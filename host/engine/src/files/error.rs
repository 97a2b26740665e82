//! Errors of operations on files.

use glovebox_vfs::escaped;
use std::{io, path::PathBuf};

use glovebox_core::files::FileError;
use glovebox_vfs::{SourceError, VfsError};

use crate::{ExecuteError, mount::MountError};

/// A failed operation on the files of a workspace. The workspace is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilesError {
    /// The path is not inside the workspace.
    #[error("`{path}` {reason}", path = escaped(.path))]
    Path {
        /// The path from the caller.
        path: String,
        /// The reason, and what to pass instead.
        reason: &'static str,
    },
    /// The pattern is malformed.
    #[error("`{pattern}` is no pattern of file names: {reason}", pattern = escaped(.pattern))]
    Pattern {
        /// The pattern from the caller.
        pattern: String,
        /// The reason why it is malformed.
        reason: String,
    },
    /// The name is taken, be it by an empty file.
    #[error("`{path}` exists; choose another name or allow replacing it", path = escaped(.path))]
    Exists {
        /// Path relative to the workspace, or to the host directory of the copy.
        path: String,
    },
    /// The file system refused the operation: for example, the path does not exist, is a directory, or a quota is
    /// exhausted.
    #[error("could not {action} `{path}`", path = escaped(.path))]
    Refused {
        /// The failed action.
        action: &'static str,
        /// Path relative to the workspace.
        path: String,
        /// The file system's error.
        #[source]
        source: VfsError,
    },
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

impl From<FileError> for FilesError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Path { path, reason } => Self::Path { path, reason },
            FileError::Pattern { pattern, reason } => Self::Pattern { pattern, reason },
            FileError::Exists { path } => Self::Exists { path },
            FileError::Refused { action, path, source } => Self::Refused { action, path, source },
        }
    }
}

impl TryFrom<FilesError> for FileError {
    type Error = FilesError;

    /// Converts errors that concern only the workspace; returns all others unchanged.
    fn try_from(error: FilesError) -> Result<Self, FilesError> {
        match error {
            FilesError::Path { path, reason } => Ok(Self::Path { path, reason }),
            FilesError::Pattern { pattern, reason } => Ok(Self::Pattern { pattern, reason }),
            FilesError::Exists { path } => Ok(Self::Exists { path }),
            FilesError::Refused { action, path, source } => Ok(Self::Refused { action, path, source }),
            error => Err(error),
        }
    }
}

impl FilesError {
    /// Returns a closure for `map_err` that reports a refused operation on `path`.
    pub(super) fn refused(action: &'static str, path: &str) -> impl FnOnce(VfsError) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Refused { action, path, source }
    }

    /// Returns a closure for `map_err` that reports a failure outside the workspace.
    pub(super) fn io(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, source }
    }
}
