//! Errors of operations on files.

use glovebox_vfs::VfsError;
use glovebox_vfs::escaped;

/// A refused operation on a workspace's files. The workspace is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// The path does not lead into the workspace.
    #[error("`{path}` {reason}", path = escaped(.path))]
    Path {
        /// The path as given.
        path: String,
        /// The problem, and a replacement.
        reason: &'static str,
    },
    /// The pattern is invalid.
    #[error("`{pattern}` is not a valid file name pattern: {reason}", pattern = escaped(.pattern))]
    Pattern {
        /// The pattern as given.
        pattern: String,
        /// The syntax error.
        reason: String,
    },
    /// The name exists, even if the file is empty.
    #[error("`{path}` exists; choose another name or allow replacing it", path = escaped(.path))]
    Exists {
        /// Relative to the workspace.
        path: String,
    },
    /// The file system refused the operation: for example, the file does not exist, is a directory, or would exceed a
    /// quota.
    #[error("could not {action} `{path}`", path = escaped(.path))]
    Refused {
        /// The operation, as a verb.
        action: &'static str,
        /// Relative to the workspace.
        path: String,
        /// The file system's error.
        #[source]
        source: VfsError,
    },
}

/// The kind of refusal, in the contract's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileErrorKind {
    /// The path does not lead into the workspace, or the pattern is invalid.
    InvalidPath,
    /// The file does not exist.
    NotFound,
    /// The name exists.
    Exists,
    /// A file where a directory is required, a directory where a file is required, or a directory that is not empty.
    WrongKind,
    /// A quota is exhausted.
    NoSpace,
    /// The file system refused the operation for another reason.
    Refused,
}

impl FileError {
    /// Returns a function for `map_err`, for a refusal of the file system on `path`.
    pub fn refused(action: &'static str, path: &str) -> impl FnOnce(VfsError) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Refused { action, path, source }
    }

    /// Returns the kind of refusal in the contract's terms.
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

    /// Returns the message without the path, for a caller that shows the path itself.
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
