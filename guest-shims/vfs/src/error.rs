//! Errors, in the terms of POSIX and WASI.

use crate::escaped::escaped;
use thiserror::Error;

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
