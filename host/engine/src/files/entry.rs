//! Statistics of copies and archives.

use serde::Serialize;

/// Statistics of a copy or an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CopyReport {
    /// Number of files; each hard link counts.
    pub file_count: u64,
    /// Number of directories, including existing ones, but not the target directory itself.
    pub directory_count: u64,
    /// Number of symbolic links.
    pub link_count: u64,
    /// Bytes of file contents.
    pub bytes: u64,
    /// Number of skipped entries: pipes, sockets and devices, names that are not UTF-8, and links that would lead out
    /// of the target directory. Copies to the host also skip names that are reserved for commits.
    pub skipped_count: u64,
}
