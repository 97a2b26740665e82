//! Quotas, the charges against them, the usage, and eviction of the cache. Errors, in the terms of POSIX and WASI.

use std::sync::Arc;

use thiserror::Error;

use crate::{
    escaped::escaped,
    files::CHUNK_BYTES,
    inode::{Body, Content, Inode},
    vfs::Vfs,
};

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

/// Returns the workspace's charge for one inode, without its names. No other function computes it, neither for creating
/// nor for freeing an inode.
pub(crate) fn workspace_charge(inode: &Inode) -> u64 {
    let own = match (&inode.body, inode.mount_charge) {
        (_, Some(_)) => 0,
        (Body::Symlink(target), None) => INODE_BYTES.saturating_add(length(target)),
        (Body::File { .. } | Body::Directory { .. }, None) => INODE_BYTES,
    };
    match &inode.body {
        Body::File { size_bytes, content: Content::Private(_) } => own.saturating_add(data_charge(*size_bytes)),
        Body::File { .. } | Body::Directory { .. } | Body::Symlink(_) => own,
    }
}

impl Vfs {
    /// Returns the bytes charged now: file contents in whole chunks, names, inodes, remembered deletions, entries of
    /// mounted directories, and the mount cache.
    #[must_use]
    pub fn bytes_used(&self) -> u64 {
        self.state.usage.total_bytes().saturating_add(self.cache.bytes())
    }

    /// Returns the highest [`bytes_used`](Self::bytes_used) since the start or the last
    /// [`reset_peak`](Self::reset_peak).
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes.max(self.bytes_used())
    }

    /// Restarts the measurement of the peak from the current usage.
    pub fn reset_peak(&mut self) {
        self.peak_bytes = self.bytes_used();
    }

    /// Returns the current count against [`VfsLimits::inodes`](crate::VfsLimits::inodes).
    #[must_use]
    pub fn inodes_used(&self) -> u64 {
        self.state.usage.inodes
    }

    /// Sets a ceiling on [`bytes_used`](Self::bytes_used), in addition to the quotas, for an embedder that shares its
    /// memory with something else. Default: none. The mount cache shrinks at once. Other usage above the ceiling stays,
    /// and only growth is refused.
    pub fn set_available_bytes(&mut self, ceiling_bytes: u64) {
        self.available_bytes = ceiling_bytes;
        let bound = self.cache_bound();
        if self.cache.bytes() > bound {
            Arc::make_mut(&mut self.cache).shrink(bound);
        }
    }

    /// Returns the current bound of the cache.
    pub(crate) fn cache_bound(&self) -> u64 {
        self.available_bytes.saturating_sub(self.state.usage.total_bytes()).min(self.limits.mount_cache_bytes)
    }

    /// Ensures that `bytes` and `inodes` more can be charged to the workspace. Evicts from the cache if needed.
    pub(crate) fn reserve(&mut self, bytes: u64, inodes: u64) -> Result<(), VfsError> {
        if bytes == 0 && inodes == 0 {
            return Ok(());
        }
        let usage = &self.state.usage;
        let workspace = usage.workspace_bytes.saturating_add(usage.tombstone_bytes).saturating_add(bytes);
        if workspace > self.limits.bytes
            || usage.inodes.saturating_add(inodes) > self.limits.inodes
            || !self.make_room(bytes)
        {
            return Err(VfsError::NoSpace);
        }
        Ok(())
    }

    /// Ensures that `bytes` more fit below the ceiling. Evicts from the cache if needed.
    pub(crate) fn make_room(&mut self, bytes: u64) -> bool {
        let total = self.state.usage.total_bytes().saturating_add(bytes);
        if total > self.available_bytes {
            return false;
        }
        let left = self.available_bytes.saturating_sub(total);
        if self.cache.bytes() > left {
            Arc::make_mut(&mut self.cache).shrink(left);
        }
        true
    }

    /// Updates the peak. Call it after anything that increases [`bytes_used`](Self::bytes_used).
    pub(crate) fn note_peak(&mut self) {
        self.peak_bytes = self.peak_bytes();
    }
}

/// The reason for refusing an operation of a [`Vfs`](crate::Vfs). An operation that returns an error has changed
/// nothing.
///
/// Each variant names the WASI preview 1 errno that the guest sees.
#[derive(Clone, Copy, Debug, Eq, Error, Hash, PartialEq)]
#[non_exhaustive]
pub enum VfsError {
    /// `noent`: the name does not exist, or the directory was removed while open.
    #[error("no such file or directory")]
    NotFound,
    /// `notdir`: a component, or a name followed by a slash, is not a directory.
    #[error("not a directory")]
    NotADirectory,
    /// `isdir`: the operation needs a file and this is a directory.
    #[error("is a directory")]
    IsADirectory,
    /// `exist`: the name exists.
    #[error("already exists")]
    AlreadyExists,
    /// `notempty`: the directory has entries; remove them first.
    #[error("directory is not empty; remove its entries first")]
    NotEmpty,
    /// `notcapable`: the path is absolute, or `..` or a symlink leads out of the directory that it
    /// is resolved beneath.
    #[error("path leads out of its directory; use a relative path that stays inside")]
    NotCapable,
    /// `nametoolong`: a name, a path or the nesting of directories exceeds its limit.
    #[error("name, path or nesting exceeds its limit; shorten it")]
    NameTooLong,
    /// `loop`: more symlinks than `symlink_hops`, or a symlink where following is not allowed.
    #[error("too many symbolic links, or one where following is not allowed")]
    TooManySymlinks,
    /// `mlink`: the file has the maximum number of hard links.
    #[error("too many hard links to one file; copy it instead")]
    TooManyLinks,
    /// `inval`: an invalid argument, such as a NUL in a path or a directory moved into itself.
    #[error("invalid argument")]
    Invalid,
    /// `ilseq`: the path is not UTF-8.
    #[error("path is not UTF-8")]
    IllegalBytes,
    /// `nospc`: the operation would exceed the quota of bytes or inodes, or the memory ceiling.
    #[error("quota exceeded; delete files or raise `bytes` or `inodes`")]
    NoSpace,
    /// `nomem`: a mounted directory is too large to list within `mount_entries` or memory, or too many names were
    /// looked up one by one in such directories.
    #[error("mounted directory is too large; mount a smaller one or raise `mount_entries`")]
    MountTooLarge,
    /// `fbig`: an offset beyond the maximum file size, or a file longer than the caller accepts.
    #[error("file too large")]
    FileTooBig,
    /// `rofs`: the root is read-only.
    #[error("read-only file system")]
    ReadOnly,
    /// `xdev`: source and target are in different roots; copy instead.
    #[error("source and target are in different roots; copy instead")]
    CrossRoot,
    /// `perm`: never allowed, such as a hard link to a directory.
    #[error("operation not permitted")]
    NotPermitted,
    /// `io`: the mount's source failed, or its file changed while it was being read.
    #[error("the mounted directory could not be read, or it changed during the read")]
    Io,
    /// `badf`: no inode has this id; it was removed and released.
    #[error("stale inode or unknown root")]
    BadInode,
}

/// An operation of the embedder on a path failed.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("`{path}`: {reason}", path = escaped(.path))]
#[non_exhaustive]
pub struct FileError {
    /// The path as the embedder gave it.
    pub path: String,
    /// The reason for the failure.
    #[source]
    pub reason: VfsError,
}

impl FileError {
    pub(crate) fn new(path: &str, reason: VfsError) -> Self {
        Self { path: path.to_owned(), reason }
    }
}
