//! The contents of what a guest wrote.

use glovebox_vfs::{InodeId, Vfs, VfsError};

/// Where a commit reads the contents of the files that the guest wrote.
pub trait Contents {
    /// Reads from a file at an offset, as much as is at hand; 0 is the end.
    ///
    /// # Errors
    ///
    /// The contents are gone: the commit fails and changes nothing.
    fn read_at(&mut self, inode: InodeId, offset: u64, into: &mut [u8]) -> Result<usize, VfsError>;
}

impl Contents for Vfs {
    fn read_at(&mut self, inode: InodeId, offset: u64, into: &mut [u8]) -> Result<usize, VfsError> {
        Self::read_at(self, inode, offset, into)
    }
}
