//! The embedder's access to files by their paths in a root.

use crate::{
    entries::{DirEntry, FIRST_PLACE},
    inode::{Body, FileKind, InodeId, RootId, Stat},
    limits::{FileError, VfsError, data_charge},
    resolve::{Follow, PathEnd},
    vfs::Vfs,
};

/// Converts a path: `"/a/b"` and `"a/b"` are equal, and `""` and `"/"` are the root.
fn relative(path: &str) -> &[u8] {
    match path.trim_start_matches('/') {
        "" => b".",
        path => path.as_bytes(),
    }
}

impl Vfs {
    /// Reads a whole file, following symlinks inside the root.
    ///
    /// # Errors
    /// Returns [`VfsError::FileTooBig`] if the file is longer than `max_bytes`, or any error from
    /// [`lookup`](Self::lookup) or [`read_at`](Self::read_at).
    pub fn read_file(&mut self, root: RootId, path: &str, max_bytes: u64) -> Result<Vec<u8>, FileError> {
        self.read_whole(root, path, max_bytes).map_err(|reason| FileError::new(path, reason))
    }

    fn read_whole(&mut self, root: RootId, path: &str, max: u64) -> Result<Vec<u8>, VfsError> {
        let inode = self.inode_at(root, path)?;
        let (size, _) = self.file(inode)?;
        if size > max {
            return Err(VfsError::FileTooBig);
        }
        let mut data = vec![0; usize::try_from(size).map_err(|_| VfsError::FileTooBig)?];
        let mut done = 0_usize;
        while let Some(rest) = data.get_mut(done..)
            && !rest.is_empty()
        {
            let offset = u64::try_from(done).unwrap_or(u64::MAX);
            let read = self.read_at(inode, offset, rest)?;
            if read == 0 {
                return Err(VfsError::Io);
            }
            done = done.saturating_add(read);
        }
        Ok(data)
    }

    /// Writes a whole file, replacing its content, and creates missing ancestor directories. If the new content does
    /// not fit, the old content is preserved.
    ///
    /// # Errors
    /// Returns [`VfsError::NoSpace`], [`VfsError::ReadOnly`], or any error from [`open`](Self::open).
    pub fn write_file(&mut self, root: RootId, path: &str, data: &[u8]) -> Result<(), FileError> {
        self.write_whole(root, path, data).map_err(|reason| FileError::new(path, reason))
    }

    fn write_whole(&mut self, root: RootId, path: &str, data: &[u8]) -> Result<(), VfsError> {
        let top = self.root(root)?.dir;
        let path = relative(path);
        self.check_path(path)?;
        self.make_parents(top, path)?;
        let place = self.resolve(top, path, PathEnd::Target)?;
        let new = u64::try_from(data.len()).unwrap_or(u64::MAX);
        let old = match place.found {
            Some(found) => match self.file(found)? {
                (size, crate::inode::Content::Private(_)) => data_charge(size),
                (_, _) => 0,
            },
            None => 0,
        };
        self.reserve(data_charge(new).saturating_sub(old), 0)?;
        let inode = match place.found {
            Some(_) if place.slash => return Err(VfsError::NotADirectory),
            None if place.slash => return Err(VfsError::IsADirectory),
            Some(found) => {
                self.check_writable(found)?;
                self.truncate(found)?;
                found
            }
            None => self.create(&place, Body::empty_file())?,
        };
        // The check above did not include the charge for a new inode, so writing to a new file can still fail.
        if let Err(error) = self.write_at(inode, 0, data) {
            if let (None, Some(name)) = (place.found, &place.name) {
                self.set_entry(place.dir, name, None)?;
            }
            return Err(error);
        }
        Ok(())
    }

    fn make_parents(&mut self, top: InodeId, path: &[u8]) -> Result<(), VfsError> {
        for (at, _) in path.iter().enumerate().filter(|&(_, &byte)| byte == b'/') {
            let Some(parent) = path.get(..at) else {
                continue;
            };
            match self.create_dir(top, parent) {
                Ok(_) | Err(VfsError::AlreadyExists) => {}
                // A read-only root is an error only if the directory does not exist.
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns the entries of a directory, sorted by name and without `.` and `..`.
    ///
    /// # Errors
    /// Returns [`VfsError::NotADirectory`], or any error from [`lookup`](Self::lookup) or [`read_dir`](Self::read_dir).
    pub fn list(&mut self, root: RootId, path: &str) -> Result<Vec<DirEntry>, FileError> {
        self.list_whole(root, path).map_err(|reason| FileError::new(path, reason))
    }

    fn list_whole(&mut self, root: RootId, path: &str) -> Result<Vec<DirEntry>, VfsError> {
        let dir = self.inode_at(root, path)?;
        let mut found = Vec::new();
        let mut cookie = 0;
        loop {
            let part = self.read_dir(dir, cookie, usize::MAX)?;
            let Some(last) = part.last() else { break };
            cookie = last.next_cookie;
            found.extend(part);
        }
        let dots = usize::try_from(FIRST_PLACE).unwrap_or(0).saturating_sub(1);
        found.drain(..dots.min(found.len()));
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Removes a file or symlink, or a directory with everything below it.
    ///
    /// # Errors
    /// Returns [`VfsError::Invalid`] for the root itself, [`VfsError::ReadOnly`], or any error from
    /// [`lookup`](Self::lookup).
    pub fn remove(&mut self, root: RootId, path: &str) -> Result<(), FileError> {
        self.remove_whole(root, path).map_err(|reason| FileError::new(path, reason))
    }

    fn remove_whole(&mut self, root: RootId, path: &str) -> Result<(), VfsError> {
        let top = self.root(root)?.dir;
        let place = self.resolve(top, relative(path), PathEnd::Name)?;
        let name = place.name.ok_or(VfsError::Invalid)?;
        let found = place.found.ok_or(VfsError::NotFound)?;
        if place.slash && self.inode(found)?.kind() != FileKind::Directory {
            return Err(VfsError::NotADirectory);
        }
        self.check_writable(found)?;
        // Collect entries from the top down, then remove them from the bottom up.
        let mut names = vec![(place.dir, name)];
        let mut dirs = vec![found];
        while let Some(dir) = dirs.pop() {
            if self.inode(dir)?.kind() != FileKind::Directory {
                continue;
            }
            self.ensure_listed(dir)?;
            let entries = self.inode(dir)?.entries();
            for (name, entry) in entries.into_iter().flat_map(|entries| entries.iter()) {
                names.push((dir, name.clone()));
                dirs.push(entry.inode);
            }
        }
        self.count_work(u64::try_from(names.len()).unwrap_or(u64::MAX));
        for (dir, name) in names.into_iter().rev() {
            self.set_entry(dir, &name, None)?;
        }
        Ok(())
    }

    /// Returns `true` if a path has a target, following symlinks inside the root.
    ///
    /// # Errors
    /// Returns any error from [`lookup`](Self::lookup), except those for a path that does not exist.
    pub fn exists(&mut self, root: RootId, path: &str) -> Result<bool, FileError> {
        match self.inode_at(root, path) {
            Ok(_) => Ok(true),
            Err(VfsError::NotFound | VfsError::NotADirectory) => Ok(false),
            Err(reason) => Err(FileError::new(path, reason)),
        }
    }

    /// Returns the stat of a path's target, following symlinks inside the root.
    ///
    /// # Errors
    /// Returns any error from [`lookup`](Self::lookup).
    pub fn file_stat(&mut self, root: RootId, path: &str) -> Result<Stat, FileError> {
        self.inode_at(root, path).and_then(|inode| self.stat(inode)).map_err(|reason| FileError::new(path, reason))
    }

    fn inode_at(&mut self, root: RootId, path: &str) -> Result<InodeId, VfsError> {
        let top = self.root(root)?.dir;
        self.lookup(top, relative(path), Follow::Yes)
    }
}
