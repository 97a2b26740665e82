//! Attributes of inodes.

use crate::error::VfsError;
use crate::ids::{FileKind, InodeId};
use crate::inode::{Body, Stat, join};
use crate::limits::length;
use crate::vfs::Vfs;

impl Vfs {
    /// Returns the attributes of an inode.
    ///
    /// # Errors
    /// [`VfsError::BadInode`].
    pub fn stat(&self, inode: InodeId) -> Result<Stat, VfsError> {
        let found = self.inode(inode)?;
        let links = if found.kind() == FileKind::Directory {
            u64::from(self.is_linked(inode)?)
        } else {
            u64::try_from(found.links.len()).unwrap_or(u64::MAX)
        };
        let size_bytes = match &found.body {
            Body::File { size_bytes, .. } => *size_bytes,
            Body::Directory { .. } => 0,
            Body::Symlink(target) => length(target),
        };
        Ok(Stat {
            inode,
            root: found.root,
            kind: found.kind(),
            links,
            size_bytes,
            accessed_ns: found.times.accessed_ns,
            modified_ns: found.times.modified_ns,
            changed_ns: found.times.changed_ns,
        })
    }

    /// Sets the times of access and modification; `None` leaves a time unchanged. A change of times alone does not
    /// report a file as modified.
    ///
    /// # Errors
    /// [`VfsError::ReadOnly`], [`VfsError::BadInode`].
    pub fn set_times(
        &mut self,
        inode: InodeId,
        accessed_ns: Option<u64>,
        modified_ns: Option<u64>,
    ) -> Result<(), VfsError> {
        self.check_writable(inode)?;
        let now_ns = self.now_ns;
        let times = &mut self.inode_mut(inode)?.times;
        times.accessed_ns = accessed_ns.unwrap_or(times.accessed_ns);
        times.modified_ns = modified_ns.unwrap_or(times.modified_ns);
        times.changed_ns = now_ns;
        Ok(())
    }

    /// Returns a path of an inode from its root, `""` for the root itself. Returns `None` for an inode without a name,
    /// and the oldest of several names.
    #[must_use]
    pub fn path_of(&self, inode: InodeId) -> Option<String> {
        let found = self.inode(inode).ok()?;
        match found.links.first() {
            Some(link) => Some(join(&self.path_of_dir(link.dir)?, &link.name)),
            None => self.is_linked(inode).ok()?.then(String::new),
        }
    }

    /// Returns the path of a directory that has a name or is a root.
    pub(crate) fn path_of_dir(&self, dir: InodeId) -> Option<String> {
        let mut names = Vec::new();
        let mut at = dir;
        while let Some(link) = self.inode(at).ok()?.links.first() {
            names.push(&*link.name);
            at = link.dir;
        }
        if !self.is_linked(at).ok()? {
            return None;
        }
        names.reverse();
        Some(names.join("/"))
    }
}
