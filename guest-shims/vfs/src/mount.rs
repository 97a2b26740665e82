//! The source of a mounted root's files, and the cache of recently read chunks.

use std::{collections::BTreeMap, sync::Arc};

use crate::inode::{FileKind, InodeId};

/// The size in bytes of one read from a source, and of a cached chunk. The size is large enough that sequential reads
/// in small steps rarely call the source, and small enough that random reads waste little.
pub(crate) const SOURCE_CHUNK_BYTES: u64 = 64 << 10;

/// A directory tree supplied by the embedder and shown in a root, such as a host directory.
///
/// Paths are relative to the tree, such as `a/b`; `""` is the tree itself. A path never contains `.`, `..`, an empty
/// component, a NUL or a leading slash. However, a component may have become a symlink since it was listed: open every
/// component without following links.
///
/// The file system requests only the data that a guest accesses, and stores the results.
pub trait MountSource: Send + Sync {
    /// Returns a directory's entries, in any order, without `.` and `..`. Stop after `limit` + 1 entries: the file
    /// system then looks up names one by one with [`stat`](Self::stat). Omit entries that are not files, directories or
    /// symlinks, and names that are not UTF-8.
    ///
    /// # Errors
    /// If this method fails, the guest receives `io`.
    fn list(&self, dir: &str, limit: usize) -> Result<Vec<SourceEntry>, SourceError>;

    /// Returns a path's stat, or `None` if [`list`](Self::list) would show no entry at the path. A symlink at the
    /// end is not followed.
    ///
    /// # Errors
    /// If this method fails, the guest receives `io`.
    fn stat(&self, path: &str) -> Result<Option<SourceStat>, SourceError>;

    /// Reads bytes from a file. Returns the number of bytes read, which is 0 if the file ends at or before the offset.
    ///
    /// # Errors
    /// If this method fails, the guest receives `io`.
    fn read(&self, path: &str, offset: u64, into: &mut [u8]) -> Result<usize, SourceError>;

    /// Returns a symlink's target. The file system resolves the target inside the root by the rules for guests'
    /// symlinks, so the target cannot leave the root.
    ///
    /// # Errors
    /// If this method fails, the link is omitted from the listing.
    fn read_link(&self, path: &str) -> Result<String, SourceError>;
}

/// An entry of a directory in a source.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SourceEntry {
    /// The name, without slashes.
    pub name: String,
    /// The entry's metadata, as reported by the source.
    pub stat: SourceStat,
}

/// The metadata of a path, as reported by a source. Two equal values describe the same, unchanged file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SourceStat {
    /// The type of the entry.
    pub kind: FileKind,
    /// The length of a file in bytes.
    pub size_bytes: u64,
    /// The time of the last change to the content, in nanoseconds since 1970.
    pub modified_ns: u64,
    /// The time of the last change to the content or attributes, in nanoseconds since 1970. 0 if the source does not
    /// record this time, or if programs can set it back.
    pub changed_ns: u64,
    /// The identity of the file in the source.
    pub identity: FileIdentity,
}

/// An identity that distinguishes a file from a replacement with the same name.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct FileIdentity {
    /// The device number.
    pub device: u64,
    /// The inode number on the device.
    pub inode: u64,
}

/// The failure of a source. The message can contain host paths and is for the embedder's log. The guest learns only
/// that the source failed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct SourceError {
    message: String,
}

impl SourceError {
    /// Creates an error with a message for the log.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

/// The charge in bytes per cached chunk in addition to its contents, for the two maps.
const ENTRY_OVERHEAD_BYTES: u64 = 192;

/// An inode and the number of a chunk in it.
type Key = (InodeId, u64);

#[derive(Clone, Debug)]
struct Piece {
    used: u64,
    data: Arc<[u8]>,
}

/// A cache that evicts the least recently used chunk first. The owner determines the maximum size.
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

    /// Returns `true` if a chunk of this length fits into a cache of `bound_bytes`.
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

    /// Inserts a chunk. Evicts other chunks first, so that the cache never exceeds the bound.
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

    /// Drops all chunks of a file.
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
