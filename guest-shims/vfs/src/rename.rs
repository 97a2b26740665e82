//! Renaming.

use crate::entries::Position;
use crate::error::VfsError;
use crate::ids::{FileKind, InodeId, Name};
use crate::limits::entry_charge;
use crate::resolve::{End, ResolvedPath};
use crate::vfs::Vfs;

impl Vfs {
    /// Renames, and replaces the target if that is allowed: a file or symlink by either of these, an empty directory by
    /// a directory. Two names of one file both stay.
    ///
    /// Renaming a mounted directory lists everything below it, because those files then have names that the source does
    /// not know.
    ///
    /// # Errors
    /// The errors of [`lookup`](Self::lookup); [`VfsError::CrossRoot`]; [`VfsError::Invalid`] for a directory into
    /// itself, or `.` or `..` at the end; [`VfsError::IsADirectory`], [`VfsError::NotADirectory`] or
    /// [`VfsError::NotEmpty`] for a target that may not be replaced; [`VfsError::ReadOnly`], [`VfsError::NoSpace`];
    /// [`VfsError::NameTooLong`] if an entry would be too deep; [`VfsError::Io`] and [`VfsError::MountTooLarge`].
    pub fn rename(&mut self, from_at: InodeId, from: &[u8], to_at: InodeId, to: &[u8]) -> Result<(), VfsError> {
        let old = self.resolve(from_at, from, End::Name)?;
        let new = self.resolve(to_at, to, End::Name)?;
        if self.inode(old.dir)?.root != self.inode(new.dir)?.root {
            return Err(VfsError::CrossRoot);
        }
        let (Some(old_name), Some(new_name)) = (&old.name, &new.name) else {
            return Err(VfsError::Invalid);
        };
        let source = old.found.ok_or(VfsError::NotFound)?;
        let kind = self.inode(source)?.kind();
        if kind != FileKind::Directory && (old.slash || new.slash) {
            return Err(VfsError::NotADirectory);
        }
        self.check_writable(source)?;
        if new.found == Some(source) {
            return Ok(());
        }
        if !self.is_linked(new.dir)? {
            return Err(VfsError::NotFound);
        }
        let target = self.position(new.dir)?.below(new_name);
        if kind == FileKind::Directory {
            if self.is_within(new.dir, source)? {
                return Err(VfsError::Invalid);
            }
            self.check_replaceable_by_directory(new.found)?;
            self.check_subtree(source, target)?;
        } else {
            if let Some(found) = new.found
                && self.inode(found)?.kind() == FileKind::Directory
            {
                return Err(VfsError::IsADirectory);
            }
            self.check_position(target, kind)?;
        }
        self.reserve(self.rename_charge(&old, old_name, &new, new_name)?, 0)?;
        // The inode has both names for a moment; the peak must not include that.
        let peak_bytes = self.peak_bytes;
        self.set_entry(new.dir, new_name, Some(source))?;
        self.set_entry(old.dir, old_name, None)?;
        self.peak_bytes = peak_bytes;
        self.note_peak();
        Ok(())
    }

    fn check_replaceable_by_directory(&mut self, found: Option<InodeId>) -> Result<(), VfsError> {
        match found {
            Some(found) if self.inode(found)?.kind() == FileKind::Directory => self.check_empty(found),
            Some(_) => Err(VfsError::NotADirectory),
            None => Ok(()),
        }
    }

    /// Returns whether a directory is `ancestor` or below it.
    fn is_within(&self, dir: InodeId, ancestor: InodeId) -> Result<bool, VfsError> {
        let mut at = dir;
        loop {
            if at == ancestor {
                return Ok(true);
            }
            let above = self.parent(at)?;
            if above == at {
                return Ok(false);
            }
            at = above;
        }
    }

    /// Checks that a directory and everything below it may move to a position, and lists mounted directories.
    fn check_subtree(&mut self, dir: InodeId, at: Position) -> Result<(), VfsError> {
        let mut left = vec![(dir, at)];
        while let Some((inode, at)) = left.pop() {
            let kind = self.inode(inode)?.kind();
            self.check_position(at, kind)?;
            self.count_work(1);
            if kind != FileKind::Directory {
                continue;
            }
            self.ensure_listed(inode)?;
            let entries = self.inode(inode)?.entries();
            for (name, entry) in entries.into_iter().flat_map(|entries| entries.iter()) {
                left.push((entry.inode, at.below(name)));
            }
        }
        Ok(())
    }

    /// Returns the growth of the workspace by a rename: the new name, less the charges of the names that are removed. A
    /// rename works at a full quota unless the name gets longer.
    fn rename_charge(
        &self,
        old: &ResolvedPath,
        old_name: &Name,
        new: &ResolvedPath,
        new_name: &Name,
    ) -> Result<u64, VfsError> {
        let mut back = 0_u64;
        for (dir, name) in [(old.dir, old_name), (new.dir, new_name)] {
            let entries = self.inode(dir)?.entries().ok_or(VfsError::NotADirectory)?;
            if entries.get(name).is_some_and(|entry| !entry.mounted) {
                back = back.saturating_add(entry_charge(name));
            }
        }
        Ok(entry_charge(new_name).saturating_sub(back))
    }
}
