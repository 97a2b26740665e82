//! The reports of copies and archives.

use serde::Serialize;

/// What a copy or an archive carried over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CopyReport {
    /// Files, each hard link counted.
    pub file_count: u64,
    /// Directories, those that were there included, the one copied into not.
    pub directory_count: u64,
    /// Symbolic links.
    pub link_count: u64,
    /// Bytes of the files' contents.
    pub bytes: u64,
    /// What was left out: pipes, sockets and devices, names that are not UTF-8, links that would lead out of where they
    /// are put, and towards the host the names that commits keep for themselves.
    pub skipped_count: u64,
}
