//! Why an operation on files was refused.

use glovebox_vfs::escaped;
use std::{io, path::PathBuf};

use glovebox_core::files::FileError;
use glovebox_vfs::{SourceError, VfsError};

use crate::{ExecuteError, mount::MountError};

/// An operation on a workspace's files was refused. The workspace is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilesError {
    /// The path is not inside the workspace.
    #[error("`{path}` {reason}", path = escaped(.path))]
    Path {
        /// As it was given.
        path: String,
        /// What is wrong with it, and what to give instead.
        reason: &'static str,
    },
    /// The pattern is malformed.
    #[error("`{pattern}` is no pattern of file names: {reason}", pattern = escaped(.pattern))]
    Pattern {
        /// As it was given.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Something has this name already, an empty file included.
    #[error("`{path}` exists; choose another name or allow replacing it", path = escaped(.path))]
    Exists {
        /// Relative to the workspace, or to the host directory copied to.
        path: String,
    },
    /// The file system refused it: nothing is there, it is a directory, a quota is reached.
    #[error("could not {action} `{path}`", path = escaped(.path))]
    Refused {
        /// What was being done.
        action: &'static str,
        /// Relative to the workspace.
        path: String,
        /// Why.
        #[source]
        source: VfsError,
    },
    /// The path on the host that was named is a symbolic link; none is followed.
    #[error("`{}` is a symbolic link; name the place it leads to", escaped(path))]
    HostLink {
        /// As it was given.
        path: PathBuf,
    },
    /// The path on the host that was named is neither a file nor a directory, or has no name that can be used.
    #[error("`{}` is neither a file nor a directory with a name in UTF-8; name one that is", escaped(path))]
    HostPath {
        /// As it was given.
        path: PathBuf,
    },
    /// The host's files could not be read.
    #[error("could not read `{}` on the host", escaped(path))]
    HostRead {
        /// The place that was named.
        path: PathBuf,
        /// Why.
        #[source]
        source: SourceError,
    },
    /// The host's directory cannot be used, or not be written to. Nothing there was changed.
    #[error(transparent)]
    Host(#[from] MountError),
    /// The archive is damaged, or holds what is not taken: devices, sparse files, names that lead out.
    #[error("the archive is refused at `{entry}`: {reason}", entry = escaped(.entry))]
    Archive {
        /// The name of the entry, clipped.
        entry: String,
        /// Why.
        reason: &'static str,
    },
    /// Reading or writing outside the workspace failed.
    #[error("could not {action}")]
    Io {
        /// What was being done.
        action: &'static str,
        /// The operating system's answer, or the caller's reader's or writer's.
        #[source]
        source: io::Error,
    },
    /// The session's files could not be reached: it has ended, or waiting for a turn took too long.
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

    /// The part of it that concerns the workspace alone.
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
    /// For `map_err`: the file system refused an operation on `path`.
    pub(super) fn refused(action: &'static str, path: &str) -> impl FnOnce(VfsError) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Refused { action, path, source }
    }

    /// For `map_err`: reading or writing outside failed.
    pub(super) fn io(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, source }
    }
}
