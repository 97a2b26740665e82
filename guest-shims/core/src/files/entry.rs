//! Entries of a workspace, and the handling of existing ones.

use glovebox_vfs::{FileKind, Stat};
use serde::{Serialize, Serializer};

/// A file, directory or symbolic link of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileEntry {
    /// The path relative to the workspace; `""` is the workspace itself.
    pub path: String,
    /// The type. As JSON `file`, `directory` or `symlink`.
    #[serde(serialize_with = "kind_name")]
    pub kind: FileKind,
    /// The length of a file or of a link's target, in bytes; 0 for a directory.
    pub size_bytes: u64,
    /// Last change of the content, in nanoseconds since 1970, by the clock of the policy.
    pub modified_ns: u64,
}

impl FileEntry {
    /// Creates an entry from a path and its attributes.
    #[must_use]
    pub fn new(path: String, stat: &Stat) -> Self {
        Self { path, kind: stat.kind, size_bytes: stat.size_bytes, modified_ns: stat.modified_ns }
    }
}

fn kind_name<S: Serializer>(kind: &FileKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
    })
}

/// The limits of one page of a listing.
#[derive(Clone, Copy, Debug)]
pub struct ListLimits {
    /// Maximum number of entries.
    pub entries: usize,
    /// Maximum number of bytes in their paths. A page has at least one entry, however long its path.
    pub path_bytes: usize,
}

impl ListLimits {
    /// No limits: the page has every entry.
    pub const NONE: Self = Self { entries: usize::MAX, path_bytes: usize::MAX };
}

/// The first entries of a listing, in ascending order of paths.
#[derive(Clone, Debug, Default)]
pub struct FilePage {
    /// The entries, as many as the limits allow.
    pub entries: Vec<FileEntry>,
    /// The number of entries after these.
    pub more: u64,
}

/// The handling of an existing file with the same name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfExists {
    /// The operation fails, even if the file is empty. Existing directories are still entered.
    #[default]
    Fail,
    /// The new file replaces the existing one. A directory is never replaced by a file, nor a file by a directory.
    Replace,
}
