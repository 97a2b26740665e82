//! The ids of inodes and roots, and the types of inodes.

use std::sync::Arc;

/// A name in a directory, shared by everything that refers to it.
pub(crate) type Name = Arc<str>;

/// The id of a file, directory or symlink of one [`Vfs`](crate::Vfs) and its forks.
///
/// Numbers are assigned in order and never reused, so that the same operations give the same numbers everywhere and a
/// stale id is detected.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct InodeId(pub(crate) u64);

impl InodeId {
    /// Returns the number that a guest sees as `st_ino`.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

/// The id of a tree in a [`Vfs`](crate::Vfs), in the order of their creation.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RootId(pub(crate) u32);

impl RootId {
    /// Returns the position among the roots, from 0.
    #[must_use]
    pub fn index(self) -> u32 {
        self.0
    }
}

/// The type of an inode.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
}
