//! Opening, creating, removing and renaming by path.

use std::sync::Arc;

use crate::{
    entries::Position,
    inode::{Body, FileKind, InodeId, Name},
    limits::{MAX_LINKS, VfsError, entry_charge},
    resolve::{Follow, PathEnd, ResolvedPath},
    vfs::Vfs,
};

/// Options of [`Vfs::open`]. The default opens an existing file for reading and follows symlinks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct OpenOptions {
    /// The treatment of a symlink at the end of the path.
    pub follow: Follow,
    /// `true` to create an empty file if the name does not exist (`O_CREAT`).
    pub create: bool,
    /// `true` to fail if the name exists, even if it is a symlink (`O_EXCL`). Has no effect without `create`.
    pub exclusive: bool,
    /// `true` to truncate the file (`O_TRUNC`).
    pub truncate: bool,
    /// `true` to fail if the target is not a directory (`O_DIRECTORY`).
    pub directory: bool,
    /// `true` to open the file for writing.
    pub write: bool,
}

/// The result of [`Vfs::open`]. It owns one reference, which must be released with [`Vfs::release`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OpenedInode {
    /// The opened inode.
    pub inode: InodeId,
    /// The type of the inode: a file or a directory.
    pub kind: FileKind,
    /// `true` if this call created the file.
    pub created: bool,
}

impl Vfs {
    /// Opens a file or directory.
    ///
    /// # Errors
    /// Returns any error from [`lookup`](Self::lookup); [`VfsError::AlreadyExists`] with `exclusive`;
    /// [`VfsError::TooManySymlinks`] for a symlink that must not be followed; [`VfsError::NotADirectory`] with
    /// `directory`; [`VfsError::IsADirectory`] for a directory with `write`, `create` or `truncate`;
    /// [`VfsError::ReadOnly`]; [`VfsError::NoSpace`]; or [`VfsError::Invalid`] for `create` with `directory`.
    pub fn open(&mut self, at: InodeId, path: &[u8], options: OpenOptions) -> Result<OpenedInode, VfsError> {
        if options.create && options.directory {
            return Err(VfsError::Invalid);
        }
        let end = if options.create && options.exclusive { PathEnd::Name } else { options.follow.into() };
        let place = self.resolve(at, path, end)?;
        let created = place.found.is_none();
        let inode = match place.found {
            Some(_) if options.create && options.exclusive => return Err(VfsError::AlreadyExists),
            Some(found) => {
                self.check_open(found, place.slash, options)?;
                found
            }
            None if !options.create => return Err(VfsError::NotFound),
            // `open("new/", O_CREAT)` requests a file under a directory's name.
            None if place.slash => return Err(VfsError::IsADirectory),
            None => self.create(&place, Body::empty_file())?,
        };
        if options.truncate && !created {
            self.truncate(inode)?;
        }
        self.retain(inode)?;
        let kind = self.inode(inode)?.kind();
        Ok(OpenedInode { inode, kind, created })
    }

    fn check_open(&self, found: InodeId, slash: bool, options: OpenOptions) -> Result<(), VfsError> {
        let changes = options.write || options.truncate;
        match self.inode(found)?.kind() {
            FileKind::Symlink if options.directory => Err(VfsError::NotADirectory),
            FileKind::Symlink => Err(VfsError::TooManySymlinks),
            FileKind::Directory if changes || options.create => Err(VfsError::IsADirectory),
            FileKind::Directory => Ok(()),
            FileKind::File if options.directory || slash => Err(VfsError::NotADirectory),
            FileKind::File if changes => self.check_writable(found),
            FileKind::File => Ok(()),
        }
    }

    /// Creates a directory. The path may end with a slash.
    ///
    /// # Errors
    /// Returns any error from [`lookup`](Self::lookup), [`VfsError::AlreadyExists`], [`VfsError::ReadOnly`],
    /// [`VfsError::NoSpace`], or [`VfsError::NameTooLong`] if the directory would be nested too deeply or its whole
    /// path would be too long.
    pub fn create_dir(&mut self, at: InodeId, path: &[u8]) -> Result<InodeId, VfsError> {
        let place = self.resolve(at, path, PathEnd::Name)?;
        if place.found.is_some() {
            return Err(VfsError::AlreadyExists);
        }
        self.create(&place, Body::empty_directory())
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// Returns any error from [`lookup`](Self::lookup), [`VfsError::NotEmpty`], [`VfsError::NotADirectory`],
    /// [`VfsError::ReadOnly`], or [`VfsError::Invalid`] for a path that ends with `.`.
    pub fn remove_dir(&mut self, at: InodeId, path: &[u8]) -> Result<(), VfsError> {
        let place = self.resolve(at, path, PathEnd::Name)?;
        let Some(name) = &place.name else {
            return Err(if place.dot_dot { VfsError::NotEmpty } else { VfsError::Invalid });
        };
        let found = place.found.ok_or(VfsError::NotFound)?;
        if self.inode(found)?.kind() != FileKind::Directory {
            return Err(VfsError::NotADirectory);
        }
        self.check_writable(found)?;
        self.check_empty(found)?;
        self.set_entry(place.dir, name, None)
    }

    /// Removes the name of a file or symlink. The file is freed when it has neither names nor handles.
    ///
    /// # Errors
    /// Returns any error from [`lookup`](Self::lookup), [`VfsError::IsADirectory`], or [`VfsError::ReadOnly`].
    pub fn unlink(&mut self, at: InodeId, path: &[u8]) -> Result<(), VfsError> {
        let place = self.resolve(at, path, PathEnd::Name)?;
        let name = place.name.as_ref().ok_or(VfsError::IsADirectory)?;
        let found = place.found.ok_or(VfsError::NotFound)?;
        if self.inode(found)?.kind() == FileKind::Directory {
            return Err(VfsError::IsADirectory);
        }
        if place.slash {
            return Err(VfsError::NotADirectory);
        }
        self.check_writable(found)?;
        self.set_entry(place.dir, name, None)
    }

    /// Gives a file or symlink an additional name in the same root. Each additional name is charged as an inode.
    ///
    /// # Errors
    /// Returns any error from [`lookup`](Self::lookup), [`VfsError::NotPermitted`] for a directory,
    /// [`VfsError::CrossRoot`], [`VfsError::AlreadyExists`], [`VfsError::TooManyLinks`] after 1,024 names,
    /// [`VfsError::ReadOnly`], or [`VfsError::NoSpace`].
    pub fn link(
        &mut self,
        from_at: InodeId,
        from: &[u8],
        follow: Follow,
        to_at: InodeId,
        to: &[u8],
    ) -> Result<(), VfsError> {
        let source = self.lookup(from_at, from, follow)?;
        let place = self.resolve(to_at, to, PathEnd::Name)?;
        let inode = self.inode(source)?;
        let (root, kind, links) = (inode.root, inode.kind(), inode.links.len());
        if kind == FileKind::Directory {
            return Err(VfsError::NotPermitted);
        }
        if root != self.inode(place.dir)?.root {
            return Err(VfsError::CrossRoot);
        }
        let name = match (&place.name, place.found) {
            (Some(name), None) => name,
            (None, _) | (_, Some(_)) => return Err(VfsError::AlreadyExists),
        };
        if place.slash || !self.is_linked(place.dir)? {
            return Err(VfsError::NotFound);
        }
        self.check_writable(source)?;
        if links >= MAX_LINKS {
            return Err(VfsError::TooManyLinks);
        }
        self.check_position(self.position(place.dir)?.below(name), kind)?;
        self.reserve(entry_charge(name), 1)?;
        self.set_entry(place.dir, name, Some(source))
    }

    /// Creates a symlink. The target is stored unchanged and resolved when the link is followed.
    ///
    /// # Errors
    /// Returns any error from [`lookup`](Self::lookup); [`VfsError::NotCapable`] for an absolute target, which could
    /// only refer to another namespace, such as the host's after a commit; [`VfsError::AlreadyExists`];
    /// [`VfsError::ReadOnly`]; or [`VfsError::NoSpace`].
    pub fn symlink(&mut self, target: &[u8], at: InodeId, path: &[u8]) -> Result<(), VfsError> {
        let target = self.check_path(target)?;
        if target.is_empty() {
            return Err(VfsError::NotFound);
        }
        if target.starts_with('/') {
            return Err(VfsError::NotCapable);
        }
        let place = self.resolve(at, path, PathEnd::Name)?;
        if place.found.is_some() {
            return Err(VfsError::AlreadyExists);
        }
        if place.slash {
            return Err(VfsError::NotFound);
        }
        self.create(&place, Body::Symlink(Arc::from(target)))?;
        Ok(())
    }

    /// Returns a symlink's target, unchanged.
    ///
    /// # Errors
    /// Returns any error from [`lookup`](Self::lookup), or [`VfsError::Invalid`] if the path is not a symlink.
    pub fn read_link(&mut self, at: InodeId, path: &[u8]) -> Result<Arc<str>, VfsError> {
        let found = self.lookup(at, path, Follow::No)?;
        match &self.inode(found)?.body {
            Body::Symlink(target) => Ok(target.clone()),
            Body::File { .. } | Body::Directory { .. } => Err(VfsError::Invalid),
        }
    }

    pub(crate) fn check_empty(&mut self, dir: InodeId) -> Result<(), VfsError> {
        self.ensure_listed(dir)?;
        let entries = self.inode(dir)?.entries().ok_or(VfsError::NotADirectory)?;
        if entries.is_empty() { Ok(()) } else { Err(VfsError::NotEmpty) }
    }
}

impl Vfs {
    /// Renames an entry. A file or symlink can replace a file or symlink, and a directory can replace an empty
    /// directory. If both names refer to the same file, both remain.
    ///
    /// Renaming a mounted directory lists everything below it, because the source does not know the new paths.
    ///
    /// # Errors
    /// Returns any error from [`lookup`](Self::lookup); [`VfsError::CrossRoot`]; [`VfsError::Invalid`] for moving a
    /// directory into itself, or a path that ends with `.` or `..`; [`VfsError::IsADirectory`],
    /// [`VfsError::NotADirectory`] or [`VfsError::NotEmpty`] for a target that must not be replaced;
    /// [`VfsError::ReadOnly`]; [`VfsError::NoSpace`]; [`VfsError::NameTooLong`] if an entry would be nested too deeply;
    /// [`VfsError::Io`] or [`VfsError::MountTooLarge`].
    pub fn rename(&mut self, from_at: InodeId, from: &[u8], to_at: InodeId, to: &[u8]) -> Result<(), VfsError> {
        let old = self.resolve(from_at, from, PathEnd::Name)?;
        let new = self.resolve(to_at, to, PathEnd::Name)?;
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
        // The inode briefly has both names, which the peak must not include.
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

    /// Returns `true` if a directory is `ancestor` or below it.
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

    /// Checks that a directory and everything below it can move to a position. Lists mounted directories.
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

    /// Returns the additional charge to the workspace for a rename: the charge for the new name, minus the charges for
    /// the removed names. At a full quota, a rename succeeds unless the name becomes longer or comes from a mount.
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
