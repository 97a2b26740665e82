//! Contents of the files that a guest wrote.

use glovebox_vfs::{InodeId, Vfs, VfsError};

/// The source of the contents of written files.
pub trait Contents {
    /// Reads up to `into.len()` bytes of a file at an offset. Returns the number of bytes; 0 at the end of the file.
    ///
    /// # Errors
    ///
    /// Fails if the contents are unavailable. The commit then fails, too, and changes nothing.
    fn read_at(&mut self, inode: InodeId, offset: u64, into: &mut [u8]) -> Result<usize, VfsError>;
}

impl Contents for Vfs {
    fn read_at(&mut self, inode: InodeId, offset: u64, into: &mut [u8]) -> Result<usize, VfsError> {
        Self::read_at(self, inode, offset, into)
    }
}
