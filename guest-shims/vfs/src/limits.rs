//! Quotas, the charges against them, current usage, and cache eviction. Also errors, in the terms of POSIX and WASI.

use std::sync::Arc;

use thiserror::Error;

use crate::{
    escaped::escaped,
    files::CHUNK_BYTES,
    inode::{Body, Content, Inode},
    vfs::Vfs,
};

/// The charge per inode: for the inode itself and its shares of a table page and of the surrounding maps. A single
/// inode can keep a table page alive. Rounded up, so that the quota bounds real memory.
pub(crate) const INODE_BYTES: u64 = 512;

/// The charge per directory entry, in addition to its name. The charge covers two ordered maps, the link from the
/// inode to the entry, and a record in each of the two change journals.
pub(crate) const ENTRY_BYTES: u64 = 256;

/// The charge per journal record of an existing name that was removed or replaced, in addition to the name. Each name
/// can have a record in both journals. The two charges together are less than the charges for a file's inode and entry,
/// so removing a file always frees quota.
pub(crate) const TOMBSTONE_BYTES: u64 = 160;

/// Maximum number of hard links per file. Each removal searches the list of the file's names. NTFS has the same limit.
pub(crate) const MAX_LINKS: usize = 1_024;

/// Maximum file size in bytes: WASI offsets are signed.
pub(crate) const MAX_FILE_BYTES: u64 = i64::MAX.unsigned_abs();

/// The quotas of one [`Vfs`](crate::Vfs). All are finite.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct VfsLimits {
    /// Maximum total size of all roots, in bytes: files (their logical length in whole 4 KiB chunks, including holes),
    /// names and symlink targets, plus a fixed charge per inode, entry and recorded deletion. Mounted files are not
    /// charged until they are written. Default: 64 MiB. Beyond the limit, the guest receives `nospc`.
    pub bytes: u64,
    /// Maximum number of files, directories and symlinks. Includes each additional hard link and inodes that were
    /// removed but are still open, and excludes mounted inodes. Default: 10,000. Beyond the limit, the guest receives
    /// `nospc`.
    pub inodes: u64,
    /// Maximum total size of mounted files cached for later reads, in bytes. Default: 8 MiB. With 0, every read
    /// accesses the source.
    pub mount_cache_bytes: u64,
    /// Maximum number of loaded entries of mounted directories, over all mounts. Default: 100,000. The guest receives
    /// `nomem` when it lists a directory that does not fit. Names in this directory can still be looked up one by one,
    /// up to the same number.
    pub mount_entries: u64,
    /// Maximum length, in bytes, of a path, of a symlink's target, and of the complete path from the root to a created
    /// entry. Default: 4,096. Beyond the limit, the guest receives `nametoolong`.
    pub path_bytes: usize,
    /// Maximum length of a name, in bytes. Default: 255. Beyond the limit, the guest receives `nametoolong`.
    pub name_bytes: usize,
    /// Maximum nesting of directories below the root. Default: 256. Beyond the limit, the guest receives `nametoolong`.
    pub depth: usize,
    /// Maximum number of symlinks followed for one path. Default: 40, as in Linux. Beyond the limit, the guest receives
    /// `loop`.
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
    /// Returns the maximum number of loaded entries of mounted directories, including entries that were looked up one
    /// by one.
    pub(crate) fn known_entries(&self) -> u64 {
        self.mount_entries.saturating_mul(2)
    }
}

/// Returns the charge for a file of this logical length: whole chunks, so that holes are charged like data.
pub(crate) fn data_charge(size_bytes: u64) -> u64 {
    size_bytes.div_ceil(CHUNK_BYTES).saturating_mul(CHUNK_BYTES)
}

/// Returns the charge for a directory entry: the length of its name and a fixed amount.
pub(crate) fn entry_charge(name: &str) -> u64 {
    ENTRY_BYTES.saturating_add(length(name))
}

/// Returns the length of a string in bytes, as charged against quotas.
pub(crate) fn length(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}

/// The current charges, except for the mount cache.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// The bytes charged against `VfsLimits::bytes`, without tombstones.
    pub(crate) workspace_bytes: u64,
    /// The charges of all journals. These charges count against `VfsLimits::bytes` but are never refused, because
    /// deletions must always be possible.
    pub(crate) tombstone_bytes: u64,
    /// The charge for listings of mounted directories. This charge has no quota of its own, but counts towards the
    /// memory ceiling.
    pub(crate) mount_bytes: u64,
    /// The inodes charged against `VfsLimits::inodes`.
    pub(crate) inodes: u64,
    /// The entries charged against `VfsLimits::mount_entries`.
    pub(crate) mount_entries: u64,
}

impl Usage {
    /// Returns all charged bytes, except for the mount cache.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.workspace_bytes.saturating_add(self.tombstone_bytes).saturating_add(self.mount_bytes)
    }
}

/// Returns the charge to the workspace for one inode, without its names. Creating and freeing an inode must both use
/// this function.
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
    /// Returns the bytes that are currently charged: file contents in whole chunks, names, inodes, recorded deletions,
    /// entries of mounted directories, and the mount cache.
    pub fn bytes_used(&self) -> u64 {
        self.state.usage.total_bytes().saturating_add(self.cache.bytes())
    }

    /// Returns the maximum of [`bytes_used`](Self::bytes_used) since creation.
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes.max(self.bytes_used())
    }

    /// Returns the number of inodes that are currently charged against [`VfsLimits::inodes`](crate::VfsLimits::inodes).
    pub fn inodes_used(&self) -> u64 {
        self.state.usage.inodes
    }

    /// Sets a ceiling on [`bytes_used`](Self::bytes_used) in addition to the quotas, for an embedder that limits the
    /// memory of several file systems together. Default: no ceiling. The mount cache shrinks immediately. Other data
    /// remains even if it exceeds the ceiling, but cannot grow.
    pub fn set_available_bytes(&mut self, ceiling_bytes: u64) {
        self.available_bytes = ceiling_bytes;
        let bound = self.cache_bound();
        if self.cache.bytes() > bound {
            Arc::make_mut(&mut self.cache).shrink(bound);
        }
    }

    /// Returns the current maximum size of the cache in bytes.
    pub(crate) fn cache_bound(&self) -> u64 {
        self.available_bytes.saturating_sub(self.state.usage.total_bytes()).min(self.limits.mount_cache_bytes)
    }

    /// Ensures that the workspace can be charged for `bytes` and `inodes` in addition to its usage. Evicts from the
    /// cache if necessary.
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

    /// Ensures that the usage can grow by `bytes` without exceeding the ceiling. Evicts from the cache if necessary.
    /// Returns `false` if the usage cannot grow.
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

    /// Updates the peak. Must be called after any operation that increases [`bytes_used`](Self::bytes_used).
    pub(crate) fn note_peak(&mut self) {
        self.peak_bytes = self.peak_bytes();
    }
}

/// The reason for refusing an operation of a [`Vfs`](crate::Vfs). An operation that returns an error has changed
/// nothing, except that [`Vfs::write_file`](crate::Vfs::write_file) may have created ancestor directories.
///
/// Each variant states the WASI preview 1 errno that the guest receives.
#[derive(Clone, Copy, Debug, Eq, Error, Hash, PartialEq)]
#[non_exhaustive]
pub enum VfsError {
    /// `noent`: the name does not exist, or the directory was removed while it was open.
    #[error("no such file or directory")]
    NotFound,
    /// `notdir`: a component, or a name followed by a slash, is not a directory.
    #[error("not a directory")]
    NotADirectory,
    /// `isdir`: the operation requires a file, but the target is a directory.
    #[error("is a directory")]
    IsADirectory,
    /// `exist`: the name already exists.
    #[error("already exists")]
    AlreadyExists,
    /// `notempty`: the directory has entries; remove them first.
    #[error("directory is not empty; remove its entries first")]
    NotEmpty,
    /// `notcapable`: the path is absolute, or escapes its base directory through `..` or a symlink.
    #[error("path leaves its directory; use a relative path inside it")]
    NotCapable,
    /// `nametoolong`: a name, a path or the nesting of directories exceeds its limit.
    #[error("a name or path is too long, or directories are nested too deeply; shorten the path")]
    NameTooLong,
    /// `loop`: the path contains more symlinks than `symlink_hops`, or a symlink that must not be followed.
    #[error("too many symbolic links, or a link that must not be followed")]
    TooManySymlinks,
    /// `mlink`: the file has the maximum number of hard links.
    #[error("too many hard links to one file; copy it instead")]
    TooManyLinks,
    /// `inval`: an argument is invalid, such as a path with a NUL or moving a directory into itself.
    #[error("invalid argument")]
    Invalid,
    /// `ilseq`: the path is not UTF-8.
    #[error("path is not UTF-8")]
    IllegalBytes,
    /// `nospc`: the operation would exceed the quota of bytes or inodes, or the memory ceiling.
    #[error("no space left; delete files, or raise the limit on file sizes, file counts or memory")]
    NoSpace,
    /// `nomem`: a mounted directory is too large to list within `mount_entries` or memory, or too many names in
    /// unlistable directories were looked up one by one.
    #[error("mounted directory is too large to list; mount a smaller one")]
    MountTooLarge,
    /// `fbig`: the offset exceeds the maximum file size, or the file is longer than the caller's maximum.
    #[error("file too large")]
    FileTooBig,
    /// `rofs`: the root is read-only.
    #[error("read-only file system")]
    ReadOnly,
    /// `xdev`: source and target are in different roots. Copy the file instead.
    #[error("source and target are in different roots; copy instead")]
    CrossRoot,
    /// `perm`: the operation is never allowed, such as a hard link to a directory.
    #[error("operation not permitted")]
    NotPermitted,
    /// `io`: the mount's source failed, or its file changed during the read.
    #[error("the mounted directory could not be read, or it changed during the read")]
    Io,
    /// `badf`: no inode has this ID, because the inode was removed and released.
    #[error("the inode or root ID is no longer valid; look up the path again")]
    BadInode,
}

/// An error from an embedder's operation on a path.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("`{path}`: {reason}", path = escaped(.path))]
#[non_exhaustive]
pub struct FileError {
    /// The path as the embedder passed it.
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
