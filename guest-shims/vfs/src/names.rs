//! Opening, creating and removing by path.

use std::sync::Arc;

use crate::error::VfsError;
use crate::ids::{FileKind, InodeId};
use crate::inode::Body;
use crate::limits::{MAX_LINKS, entry_charge};
use crate::resolve::{End, Follow};
use crate::vfs::Vfs;

/// Options of [`Vfs::open`]. The default opens an existing file for reading, through symlinks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct OpenOptions {
    /// The handling of a symlink at the end of the path.
    pub follow: Follow,
    /// Create an empty file if the name does not exist (`O_CREAT`).
    pub create: bool,
    /// With `create`: fail if the name exists, even as a symlink (`O_EXCL`).
    pub exclusive: bool,
    /// Truncate the file (`O_TRUNC`).
    pub truncate: bool,
    /// Fail if the target is not a directory (`O_DIRECTORY`).
    pub directory: bool,
    /// The handle will be used for writing.
    pub write: bool,
}

/// The result of [`Vfs::open`]. It holds one reference; release it with [`Vfs::release`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Opened {
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
    /// The errors of [`lookup`](Self::lookup), and [`VfsError::AlreadyExists`] with `exclusive`;
    /// [`VfsError::TooManySymlinks`] for a symlink that may not be followed; [`VfsError::NotADirectory`] with
    /// `directory`; [`VfsError::IsADirectory`] for a directory with `write`, `create` or `truncate`;
    /// [`VfsError::ReadOnly`]; [`VfsError::NoSpace`]; [`VfsError::Invalid`] for `create` with `directory`.
    pub fn open(&mut self, at: InodeId, path: &[u8], options: OpenOptions) -> Result<Opened, VfsError> {
        if options.create && options.directory {
            return Err(VfsError::Invalid);
        }
        let end = if options.create && options.exclusive { End::Name } else { options.follow.into() };
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
        Ok(Opened { inode, kind, created })
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

    /// Creates a directory. The path may end in a slash.
    ///
    /// # Errors
    /// The errors of [`lookup`](Self::lookup); [`VfsError::AlreadyExists`], [`VfsError::ReadOnly`],
    /// [`VfsError::NoSpace`]; [`VfsError::NameTooLong`] if the directory would be nested too deep.
    pub fn create_dir(&mut self, at: InodeId, path: &[u8]) -> Result<InodeId, VfsError> {
        let place = self.resolve(at, path, End::Name)?;
        if place.found.is_some() {
            return Err(VfsError::AlreadyExists);
        }
        self.create(&place, Body::empty_directory())
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// The errors of [`lookup`](Self::lookup); [`VfsError::NotEmpty`], [`VfsError::NotADirectory`],
    /// [`VfsError::ReadOnly`]; [`VfsError::Invalid`] for a path that ends in `.`.
    pub fn remove_dir(&mut self, at: InodeId, path: &[u8]) -> Result<(), VfsError> {
        let place = self.resolve(at, path, End::Name)?;
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

    /// Removes the name of a file or symlink. The file is freed with its last name and handle.
    ///
    /// # Errors
    /// The errors of [`lookup`](Self::lookup); [`VfsError::IsADirectory`], [`VfsError::ReadOnly`].
    pub fn unlink(&mut self, at: InodeId, path: &[u8]) -> Result<(), VfsError> {
        let place = self.resolve(at, path, End::Name)?;
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

    /// Gives a file or symlink another name in the same root. Each further name counts as an inode.
    ///
    /// # Errors
    /// The errors of [`lookup`](Self::lookup); [`VfsError::NotPermitted`] for a directory, [`VfsError::CrossRoot`],
    /// [`VfsError::AlreadyExists`], [`VfsError::TooManyLinks`] after 1,024 names, [`VfsError::ReadOnly`],
    /// [`VfsError::NoSpace`].
    pub fn link(
        &mut self,
        from_at: InodeId,
        from: &[u8],
        follow: Follow,
        to_at: InodeId,
        to: &[u8],
    ) -> Result<(), VfsError> {
        let source = self.lookup(from_at, from, follow)?;
        let place = self.resolve(to_at, to, End::Name)?;
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
    /// The errors of [`lookup`](Self::lookup); [`VfsError::NotCapable`] for an absolute target, which could only refer
    /// to another namespace, such as the host's after a commit; [`VfsError::AlreadyExists`], [`VfsError::ReadOnly`],
    /// [`VfsError::NoSpace`].
    pub fn symlink(&mut self, target: &[u8], at: InodeId, path: &[u8]) -> Result<(), VfsError> {
        let target = self.check_path(target)?;
        if target.is_empty() {
            return Err(VfsError::NotFound);
        }
        if target.starts_with('/') {
            return Err(VfsError::NotCapable);
        }
        let place = self.resolve(at, path, End::Name)?;
        if place.found.is_some() {
            return Err(VfsError::AlreadyExists);
        }
        if place.slash {
            return Err(VfsError::NotFound);
        }
        self.create(&place, Body::Symlink(Arc::from(target)))?;
        Ok(())
    }

    /// Returns the target of a symlink, unchanged.
    ///
    /// # Errors
    /// The errors of [`lookup`](Self::lookup); [`VfsError::Invalid`] for anything but a symlink.
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
