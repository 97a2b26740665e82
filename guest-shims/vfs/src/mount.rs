//! The source of a mounted root's files.

use std::fmt;

use crate::ids::FileKind;

/// Size of one read from a source, which goes into the cache, in bytes. It is large enough for sequential reads in
/// small steps to call the source rarely, and small enough for random reads to waste little.
pub(crate) const SOURCE_CHUNK_BYTES: u64 = 64 << 10;

/// A directory tree of the embedder that a root shows, such as a directory of the host.
///
/// A path is relative to the tree: `""` is the tree itself, then `a/b`. It never contains `.`, `..`, an empty
/// component, a NUL or a leading slash. However, a component may have become a symlink since it was listed: open every
/// component without following links.
///
/// The file system requests only the parts that a guest accesses, and remembers the answers.
pub trait MountSource: Send + Sync {
    /// Returns the entries of a directory, in any order, without `.` and `..`. Stop after `limit` + 1 entries: the file
    /// system then looks names up one by one, with [`stat`](Self::stat). Omit anything that is not a file, directory or
    /// symlink, and names that are not UTF-8.
    ///
    /// # Errors
    /// The guest sees `io`.
    fn list(&self, dir: &str, limit: usize) -> Result<Vec<SourceEntry>, SourceError>;

    /// Returns the stat of a path, if [`list`](Self::list) would show an entry there. A symlink at the end is not
    /// followed.
    ///
    /// # Errors
    /// The guest sees `io`.
    fn stat(&self, path: &str) -> Result<Option<SourceStat>, SourceError>;

    /// Reads bytes of a file. Returns 0 if the file ends at or before the offset.
    ///
    /// # Errors
    /// The guest sees `io`.
    fn read(&self, path: &str, offset: u64, into: &mut [u8]) -> Result<usize, SourceError>;

    /// Returns the target of a symlink. The file system resolves it inside the root that contains it, by the rules for
    /// symlinks of guests, so it cannot lead out.
    ///
    /// # Errors
    /// The link is omitted from the listing.
    fn read_link(&self, path: &str) -> Result<String, SourceError>;
}

/// An entry of a source's directory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SourceEntry {
    /// The name, without slashes.
    pub name: String,
    /// The source's stat of the entry.
    pub stat: SourceStat,
}

/// A source's stat of a path. Two equal values mean the same, unchanged file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SourceStat {
    /// The type of the entry.
    pub kind: FileKind,
    /// The length of a file in bytes.
    pub size_bytes: u64,
    /// The last change of the content, in nanoseconds since 1970.
    pub modified_ns: u64,
    /// The last change of the content or the attributes, in nanoseconds since 1970, if the source keeps it and programs
    /// cannot set it back. Otherwise 0.
    pub changed_ns: u64,
    /// The file's identity in the source.
    pub identity: FileIdentity,
}

/// Distinguishes a file from another one with the same name.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct FileIdentity {
    /// The number of the device.
    pub device: u64,
    /// The inode on the device.
    pub inode: u64,
}

/// The failure of a source. The guest learns only that the source failed. The text may name host paths and is for the
/// embedder's log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SourceError {
    message: String,
}

impl SourceError {
    /// Creates an error with a text for the log.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SourceError {}
