//! The source of a mounted root's files.

use std::fmt;

use crate::ids::FileKind;

/// Bytes read from a source at once, and put into the cache: large enough that a sequential read in small steps calls
/// the source rarely, small enough that a random one wastes little.
pub(crate) const SOURCE_CHUNK_BYTES: u64 = 64 << 10;

/// A directory tree of the embedder that a root shows, such as a directory of the host.
///
/// A path is relative to the tree: `""` is the tree itself, then `a/b`. It never contains `.`,
/// `..`, an empty component, a NUL or a leading slash, but it may pass through something that has
/// become a symlink since it was listed: open every component without following links.
///
/// The file system asks only for what a guest accesses, and remembers the answers.
pub trait MountSource: Send + Sync {
    /// The entries of a directory, in any order, without `.` and `..`. Stop after `limit` + 1 of them: names in it are
    /// then looked up one by one, with [`stat`](Self::stat). Leave out anything that is not a file, directory or
    /// symlink, and names that are not UTF-8.
    ///
    /// # Errors
    /// The guest sees `io`.
    fn list(&self, dir: &str, limit: usize) -> Result<Vec<SourceEntry>, SourceError>;

    /// The stat of a path, if [`list`](Self::list) would show something there; a symlink there is not followed.
    ///
    /// # Errors
    /// The guest sees `io`.
    fn stat(&self, path: &str) -> Result<Option<SourceStat>, SourceError>;

    /// Reads some bytes of a file; 0 means that it ends at or before the offset.
    ///
    /// # Errors
    /// The guest sees `io`.
    fn read(&self, path: &str, offset: u64, into: &mut [u8]) -> Result<usize, SourceError>;

    /// The target of a symlink. It is resolved inside the root that contains it, by the rules for symlinks that guests
    /// create, so it cannot lead out.
    ///
    /// # Errors
    /// The link is left out of the listing.
    fn read_link(&self, path: &str) -> Result<String, SourceError>;
}

/// One entry of a source's directory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SourceEntry {
    /// The name, without slashes.
    pub name: String,
    /// What it is.
    pub stat: SourceStat,
}

/// A source's stat of a path. Two equal values mean the same, unchanged file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SourceStat {
    /// Its type.
    pub kind: FileKind,
    /// Length of a file.
    pub size_bytes: u64,
    /// Last change of the content, in nanoseconds since 1970.
    pub modified_ns: u64,
    /// Last change of the content or the attributes, in nanoseconds since 1970, if the source keeps it and nobody can
    /// set it back; otherwise 0.
    pub changed_ns: u64,
    /// The file's identity in the source.
    pub identity: FileIdentity,
}

/// Tells a file from another one with the same name.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct FileIdentity {
    /// The device.
    pub device: u64,
    /// The inode on the device.
    pub inode: u64,
}

/// A source failed. The guest learns only that: the text may name host paths and is for the embedder's log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SourceError {
    message: String,
}

impl SourceError {
    /// An error with a text for the log.
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
