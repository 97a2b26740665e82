//! Why an operation on files was refused.

use glovebox_vfs::VfsError;
use glovebox_vfs::escaped;

/// An operation on a workspace's files was refused. The workspace is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// The path is none inside the workspace.
    #[error("`{path}` {reason}", path = escaped(.path))]
    Path {
        /// As it was given.
        path: String,
        /// What is wrong with it, and what to give instead.
        reason: &'static str,
    },
    /// The pattern is none.
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
        /// Relative to the workspace.
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
}

/// What kind of refusal it is, in the contract's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileErrorKind {
    /// The path is none inside the workspace, or the pattern is none.
    InvalidPath,
    /// Nothing is there.
    NotFound,
    /// Something has this name already.
    Exists,
    /// A directory was wanted and a file is there, the other way round, or a directory is not empty.
    WrongKind,
    /// A quota is reached.
    NoSpace,
    /// Anything else that the file system refuses.
    Refused,
}

impl FileError {
    /// For `map_err`: the file system refused an operation on `path`.
    pub fn refused(action: &'static str, path: &str) -> impl FnOnce(VfsError) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Refused { action, path, source }
    }

    /// What kind it is.
    #[must_use]
    pub fn kind(&self) -> FileErrorKind {
        match self {
            Self::Path { .. } | Self::Pattern { .. } => FileErrorKind::InvalidPath,
            Self::Exists { .. } => FileErrorKind::Exists,
            Self::Refused { source, .. } => match source {
                VfsError::NotFound => FileErrorKind::NotFound,
                VfsError::AlreadyExists => FileErrorKind::Exists,
                VfsError::NotADirectory | VfsError::IsADirectory | VfsError::NotEmpty => FileErrorKind::WrongKind,
                VfsError::NoSpace => FileErrorKind::NoSpace,
                VfsError::NotCapable | VfsError::IllegalBytes => FileErrorKind::InvalidPath,
                _ => FileErrorKind::Refused,
            },
        }
    }

    /// The same in words, for whoever has the path besides.
    #[must_use]
    pub fn message(&self) -> String {
        match self {
            Self::Path { reason, .. } => format!("the path {reason}"),
            Self::Pattern { reason, .. } => format!("no pattern: {reason}"),
            Self::Exists { .. } => "something has this name already".into(),
            Self::Refused { action, source, .. } => format!("could not {action} it: {source}"),
        }
    }
}
