//! Quotas, and the charges against them.

use crate::content::CHUNK_BYTES;

/// Charged per inode: the inode itself, its share of a table page (which may be held alive by this
/// one inode) and of the maps around it. Rounded up, so that the quota bounds real memory.
pub(crate) const INODE_BYTES: u64 = 512;

/// Charged per directory entry in addition to the name: two ordered maps, the link back from the inode, and a record in
/// each of the two change journals.
pub(crate) const ENTRY_BYTES: u64 = 256;

/// Charged per journal record of an existing name that was removed or replaced, in addition to the name. Two of them
/// (there are two journals) are less than the inode and entry of a file. Removing a file therefore always frees quota,
/// although it is remembered.
pub(crate) const TOMBSTONE_BYTES: u64 = 160;

/// Maximum number of hard links per file. A file keeps the list of its names, which is searched on each removal. NTFS
/// has the same limit.
pub(crate) const MAX_LINKS: usize = 1_024;

/// Maximum file size in bytes: WASI seeks with signed offsets.
pub(crate) const MAX_FILE_BYTES: u64 = i64::MAX.unsigned_abs();

/// The quotas of one [`Vfs`](crate::Vfs). All are finite.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct VfsLimits {
    /// Bytes of files (their logical length in whole 4 KiB chunks, holes included), names and symlink targets, plus a
    /// fixed charge per inode, entry and remembered deletion, over all roots. Mounted files do not count until they are
    /// written. Default 64 MiB. The guest sees `nospc`.
    pub bytes: u64,
    /// Files, directories and symlinks, including each further hard link and those removed but still open, excluding
    /// mounted ones. Default 10,000. The guest sees `nospc`.
    pub inodes: u64,
    /// Bytes of mounted files cached for later reads. Default 8 MiB; 0 reads from the source each time.
    pub mount_cache_bytes: u64,
    /// Entries of mounted directories loaded at once, over all mounts. Default 100,000. The guest sees `nomem` when it
    /// lists a directory that does not fit. Names in such a directory can still be looked up one by one, up to the same
    /// number.
    pub mount_entries: u64,
    /// Bytes of a path, of a symlink's target, and of the whole path from its root of anything
    /// created. Default 4,096. The guest sees `nametoolong`.
    pub path_bytes: usize,
    /// Bytes of a name. Default 255. The guest sees `nametoolong`.
    pub name_bytes: usize,
    /// Nesting of directories, the root not counted. Default 256. The guest sees `nametoolong`.
    pub depth: usize,
    /// Symlinks followed in one path. Default 40, as in Linux. The guest sees `loop`.
    pub symlink_hops: usize,
}

impl Default for VfsLimits {
    fn default() -> Self {
        Self {
            bytes: 64 << 20,
            inodes: 10_000,
            mount_cache_bytes: 8 << 20,
            mount_entries: 100_000,
            path_bytes: 4_096,
            name_bytes: 255,
            depth: 256,
            symlink_hops: 40,
        }
    }
}

impl VfsLimits {
    /// Returns the maximum number of loaded entries of mounted directories, including those looked up one by one.
    pub(crate) fn known_entries(&self) -> u64 {
        self.mount_entries.saturating_mul(2)
    }
}

/// Returns the charge for a file of this logical length: whole chunks, so that a sparse file costs as much as it claims
/// to hold.
pub(crate) fn data_charge(size_bytes: u64) -> u64 {
    size_bytes.div_ceil(CHUNK_BYTES).saturating_mul(CHUNK_BYTES)
}

/// Returns the charge for a directory entry.
pub(crate) fn entry_charge(name: &str) -> u64 {
    ENTRY_BYTES.saturating_add(length(name))
}

/// Returns a length in the unit of the quotas.
pub(crate) fn length(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}

/// The current charges, except those of the mount cache.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Counts against `VfsLimits::bytes`, without tombstones.
    pub(crate) workspace_bytes: u64,
    /// The charge of all journals. It counts against `VfsLimits::bytes` but is never refused itself, because a deletion
    /// must always be possible.
    pub(crate) tombstone_bytes: u64,
    /// The charge for the listings of mounted directories. It has no quota in bytes, but is part of the memory ceiling.
    pub(crate) mount_bytes: u64,
    /// Counts against `VfsLimits::inodes`.
    pub(crate) inodes: u64,
    /// Counts against `VfsLimits::mount_entries`.
    pub(crate) mount_entries: u64,
}

impl Usage {
    /// Returns all bytes except the cache's.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.workspace_bytes.saturating_add(self.tombstone_bytes).saturating_add(self.mount_bytes)
    }
}
