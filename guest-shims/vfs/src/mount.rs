//! The source of a mounted root's files, and the cache of recently read pieces.

use std::{collections::BTreeMap, fmt, sync::Arc};

use crate::inode::{FileKind, InodeId};

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

/// Charge per piece in addition to its bytes, for the two maps.
const ENTRY_OVERHEAD_BYTES: u64 = 192;

/// An inode and the number of a piece in it.
type Key = (InodeId, u64);

#[derive(Clone, Debug)]
struct Piece {
    used: u64,
    data: Arc<[u8]>,
}

/// Evicts the least recently used piece first. The owner sets the bound.
#[derive(Clone, Debug, Default)]
pub(crate) struct MountCache {
    pieces: BTreeMap<Key, Piece>,
    by_use: BTreeMap<u64, Key>,
    uses: u64,
    bytes: u64,
}

fn cost(data: &[u8]) -> u64 {
    u64::try_from(data.len()).unwrap_or(u64::MAX).saturating_add(ENTRY_OVERHEAD_BYTES)
}

impl MountCache {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns whether a piece of this length fits the bound.
    pub(crate) fn fits(len: u64, bound_bytes: u64) -> bool {
        len.saturating_add(ENTRY_OVERHEAD_BYTES) <= bound_bytes
    }

    pub(crate) fn get(&mut self, key: Key) -> Option<Arc<[u8]>> {
        let piece = self.pieces.get_mut(&key)?;
        self.by_use.remove(&piece.used);
        self.uses = self.uses.saturating_add(1);
        piece.used = self.uses;
        self.by_use.insert(self.uses, key);
        Some(piece.data.clone())
    }

    /// Inserts a piece and evicts others first, so that the cache never exceeds the bound.
    pub(crate) fn insert(&mut self, key: Key, data: Arc<[u8]>, bound_bytes: u64) {
        let cost = cost(&data);
        if cost > bound_bytes {
            return;
        }
        self.remove(key);
        self.shrink(bound_bytes.saturating_sub(cost));
        self.uses = self.uses.saturating_add(1);
        self.by_use.insert(self.uses, key);
        self.bytes = self.bytes.saturating_add(cost);
        let used = self.uses;
        self.pieces.insert(key, Piece { used, data });
    }

    pub(crate) fn shrink(&mut self, bound_bytes: u64) {
        while self.bytes > bound_bytes {
            let Some((_, key)) = self.by_use.pop_first() else {
                return;
            };
            self.remove(key);
        }
    }

    pub(crate) fn has(&self, inode: InodeId) -> bool {
        self.pieces.range((inode, 0)..=(inode, u64::MAX)).next().is_some()
    }

    /// Drops every piece of a file.
    pub(crate) fn forget(&mut self, inode: InodeId) {
        while let Some((&key, _)) = self.pieces.range((inode, 0)..=(inode, u64::MAX)).next() {
            self.remove(key);
        }
    }

    fn remove(&mut self, key: Key) {
        if let Some(piece) = self.pieces.remove(&key) {
            self.by_use.remove(&piece.used);
            self.bytes = self.bytes.saturating_sub(cost(&piece.data));
        }
    }
}
