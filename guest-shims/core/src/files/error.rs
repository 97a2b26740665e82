//! Why an operation on files was refused.

use glovebox_vfs::VfsError;
use glovebox_vfs::escaped;

/// An operation on a workspace's files was refused. The workspace is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// The path is not a path inside the workspace.
    #[error("`{path}` {reason}", path = escaped(.path))]
    Path {
        /// The path as given.
        path: String,
        /// What is wrong, and what to use instead.
        reason: &'static str,
    },
    /// The pattern is invalid.
    #[error("`{pattern}` is not a valid file name pattern: {reason}", pattern = escaped(.pattern))]
    Pattern {
        /// The pattern as given.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The name exists, even if only as an empty file.
    #[error("`{path}` exists; choose another name or allow replacing it", path = escaped(.path))]
    Exists {
        /// Relative to the workspace.
        path: String,
    },
    /// The file system refused it: the file does not exist, it is a directory, a quota is reached.
    #[error("could not {action} `{path}`", path = escaped(.path))]
    Refused {
        /// The operation.
        action: &'static str,
        /// Relative to the workspace.
        path: String,
        /// Why.
        #[source]
        source: VfsError,
    },
}

/// The kind of refusal, in the contract's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileErrorKind {
    /// The path is not a path inside the workspace, or the pattern is invalid.
    InvalidPath,
    /// The file does not exist.
    NotFound,
    /// The name exists.
    Exists,
    /// A file where a directory is required, or the reverse, or a directory that is not empty.
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

    /// The kind of this error.
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

    /// The message without the path, for a caller that shows the path itself.
    #[must_use]
    pub fn message(&self) -> String {
        match self {
            Self::Path { reason, .. } => format!("the path {reason}"),
            Self::Pattern { reason, .. } => format!("invalid pattern: {reason}"),
            Self::Exists { .. } => "the name exists".into(),
            Self::Refused { action, source, .. } => format!("could not {action} it: {source}"),
        }
    }
}
