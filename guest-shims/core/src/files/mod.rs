//! Access to a workspace's files from outside the guest.
//!
//! * *Paths* are relative to the workspace, `/app` in the guest. Absolute paths and paths with `..` are refused.
//! * *Links* on a path are followed inside the workspace, as they are for the guest. Listings do not follow links.
//! * *All or nothing*: a change that fails, for example at a quota, leaves the workspace unchanged.

pub mod change;
mod pattern;
mod snapshot;

use glovebox_vfs::{FileKind, Stat, VfsError, escaped};
use serde::{Deserialize, Serialize};

pub use snapshot::{Snapshot, WalkedEntry, check_pattern, fill, walk};

/// A file, directory or symbolic link of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// The path relative to the workspace; `""` is the workspace itself.
    pub path: String,
    /// The type; in JSON, `file`, `directory` or `symlink`.
    #[serde(with = "FileKindName")]
    pub kind: FileKind,
    /// The length of a file or of a link's target, in bytes; 0 for a directory.
    pub size_bytes: u64,
    /// The time of the last content change, in nanoseconds since 1970, on the policy's clock.
    pub modified_ns: u64,
}

impl FileEntry {
    /// Creates an entry from a path and its attributes.
    pub fn new(path: String, stat: &Stat) -> Self {
        Self { path, kind: stat.kind, size_bytes: stat.size_bytes, modified_ns: stat.modified_ns }
    }
}

/// The names of file types in JSON.
#[derive(Serialize, Deserialize)]
#[serde(remote = "FileKind", rename_all = "lowercase")]
enum FileKindName {
    File,
    Directory,
    Symlink,
}

/// The limits of one page of a listing.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ListLimits {
    /// Maximum number of entries.
    pub entries: usize,
    /// Maximum total length of the entries' paths, in bytes. A page has at least one entry, however long its path.
    pub path_bytes: usize,
}

impl ListLimits {
    /// No limits: the page has every entry.
    pub const NONE: Self = Self { entries: usize::MAX, path_bytes: usize::MAX };
}

/// The first entries of a listing, sorted by path.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FilePage {
    /// The entries that fit into the limits.
    pub entries: Vec<FileEntry>,
    /// The number of further entries that did not fit.
    pub more: u64,
}

/// The handling of an existing file with the same name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IfExists {
    /// The operation fails, even if the existing file is empty. Existing parent directories are still used.
    #[default]
    Fail,
    /// The new file replaces the existing one. A directory is never replaced by a file, nor a file by a directory.
    Replace,
}

/// A refused operation on a workspace's files. The workspace is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// The path is outside the workspace or invalid.
    #[error("`{path}` {reason}", path = escaped(.path))]
    Path {
        /// The path, as the caller passed it.
        path: String,
        /// The problem and a solution, as text that follows the path.
        reason: &'static str,
    },
    /// The pattern is invalid.
    #[error("`{pattern}` is not a valid file name pattern: {reason}", pattern = escaped(.pattern))]
    Pattern {
        /// The first 100 characters of the pattern.
        pattern: String,
        /// The syntax error.
        reason: String,
    },
    /// A file, directory or link with this name already exists.
    #[error("`{path}` already exists; choose another name or allow replacing it", path = escaped(.path))]
    Exists {
        /// The path, relative to the workspace.
        path: String,
    },
    /// The file system refused the operation: for example, the file does not exist, is a directory, or would exceed a
    /// quota.
    #[error("cannot {action} `{path}`", path = escaped(.path))]
    Refused {
        /// The operation, as a verb such as `read`.
        action: &'static str,
        /// The path, relative to the workspace.
        path: String,
        /// The file system's error.
        #[source]
        source: VfsError,
    },
}

/// The category of a [`FileError`], in the contract's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileErrorKind {
    /// The path is outside the workspace, or the path or pattern is invalid.
    InvalidPath,
    /// The file does not exist.
    NotFound,
    /// The name already exists.
    Exists,
    /// The operation requires a file but found a directory, or vice versa, or the directory is not empty.
    WrongKind,
    /// A quota is exhausted.
    NoSpace,
    /// The file system refused the operation for another reason.
    Refused,
}

impl FileError {
    /// Returns a function for `map_err` that wraps the file system's error for `path`. `action` is a verb such as
    /// `read`.
    pub fn refused(action: &'static str, path: &str) -> impl FnOnce(VfsError) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Refused { action, path, source }
    }

    /// Returns the error's category.
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

    /// Returns the message without the path, for callers that show the path themselves.
    pub fn message(&self) -> String {
        match self {
            Self::Path { reason, .. } => format!("the path {reason}"),
            Self::Pattern { reason, .. } => format!("invalid pattern: {reason}"),
            Self::Exists { .. } => "the name already exists".into(),
            Self::Refused { action, source, .. } => format!("cannot {action} the path: {source}"),
        }
    }
}

/// Normalizes a path: removes `.` and repeated slashes. The workspace itself becomes `""`.
///
/// The file system resolves `..` inside the workspace and refuses `..` only if the path escapes. This function always
/// refuses `..`, because its meaning depends on links that the guest created.
pub fn inside_path(path: &str) -> Result<String, FileError> {
    if let Some(reason) = path_fault(path) {
        return Err(FileError::Path { path: path.to_owned(), reason });
    }
    let names: Vec<&str> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    Ok(names.join("/"))
}

/// Like [`inside_path`], but rejects the workspace itself.
pub fn entry_path(path: &str) -> Result<String, FileError> {
    let inner = inside_path(path)?;
    if inner.is_empty() {
        let reason = "is the workspace itself; name a file or directory in it";
        return Err(FileError::Path { path: path.to_owned(), reason });
    }
    Ok(inner)
}

/// Returns the reason for rejecting a path or pattern: it is absolute, or contains `..` or a NUL byte.
pub fn path_fault(path: &str) -> Option<&'static str> {
    if path.starts_with('/') {
        Some("is absolute; use a path relative to the workspace, such as `a/b` for `/app/a/b`")
    } else if path.split('/').any(|name| name == "..") {
        Some("contains `..`; use a path relative to the workspace, without `..`")
    } else if path.contains('\0') {
        Some("contains a NUL byte; remove it")
    } else {
        None
    }
}

/// Returns a normalized path in the form that the file system expects: `.` instead of an empty path.
pub fn path_bytes(path: &str) -> &[u8] {
    if path.is_empty() { b"." } else { path.as_bytes() }
}
