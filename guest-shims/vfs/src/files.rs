//! Reading and writing the contents of files.

use std::sync::Arc;

use crate::{
    content::{CHUNK_BYTES, Chunks},
    error::VfsError,
    inode::{Body, Content, InodeId},
    limits::{MAX_FILE_BYTES, data_charge},
    mount::{MountCache, MountSource, SOURCE_CHUNK_BYTES, SourceError},
    vfs::{Vfs, root_mut},
};

fn to_u64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// Converts a length that is bounded by a buffer.
fn to_usize(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

/// Reads until the buffer is full. A file that ends before the length in its `stat` has changed. The error prevents a
/// mixture of two versions.
fn read_exactly(source: &dyn MountSource, path: &str, offset: u64, into: &mut [u8]) -> Result<(), SourceError> {
    let mut done = 0_usize;
    while let Some(rest) = into.get_mut(done..)
        && !rest.is_empty()
    {
        let at = offset.saturating_add(to_u64(done));
        let len = rest.len();
        let read = source.read(path, at, rest)?;
        if read == 0 || read > len {
            return Err(SourceError::new(format!("`{path}` ended at byte {at}; it changed since it was listed")));
        }
        done = done.saturating_add(read);
    }
    Ok(())
}

impl Vfs {
    /// Reads from a file. Returns how many bytes were read: fewer than requested at the end of the file, 0 past it, and
    /// sometimes fewer from a mounted file.
    ///
    /// # Errors
    /// [`VfsError::IsADirectory`]; [`VfsError::Invalid`] for a symlink; [`VfsError::Io`] when the source fails before
    /// any byte was read; [`VfsError::BadInode`].
    pub fn read_at(&mut self, inode: InodeId, offset: u64, into: &mut [u8]) -> Result<usize, VfsError> {
        let (size, content) = self.file(inode)?;
        let left = to_usize(size.saturating_sub(offset));
        let len = into.len().min(left);
        let Some(into) = into.get_mut(..len) else {
            return Ok(0);
        };
        if into.is_empty() {
            return Ok(0);
        }
        match content {
            Content::Private(chunks) => {
                chunks.read(offset, into);
                self.count_work(to_u64(len).div_ceil(CHUNK_BYTES));
                Ok(len)
            }
            Content::Mounted => self.read_mounted(inode, size, offset, into),
            Content::Gone => Err(VfsError::Io),
        }
    }

    /// Writes to a file, growing it as needed; a gap reads as zeros. Either all of the data is written or none. An
    /// empty write changes nothing.
    ///
    /// # Errors
    /// [`VfsError::NoSpace`], [`VfsError::FileTooBig`], [`VfsError::ReadOnly`], and as
    /// [`read_at`](Self::read_at).
    pub fn write_at(&mut self, inode: InodeId, offset: u64, data: &[u8]) -> Result<usize, VfsError> {
        let (size, _) = self.file(inode)?;
        self.check_writable(inode)?;
        if data.is_empty() {
            return Ok(0);
        }
        let end = end_of(offset, to_u64(data.len()))?;
        self.resize(inode, size, size.max(end))?;
        if let Body::File { content: Content::Private(chunks), .. } = &mut self.inode_mut(inode)?.body {
            Arc::make_mut(chunks).write(offset, data);
        }
        self.count_work(to_u64(data.len()).div_ceil(CHUNK_BYTES));
        Ok(data.len())
    }

    /// Writes at the end of a file and returns the new end.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    pub fn append(&mut self, inode: InodeId, data: &[u8]) -> Result<u64, VfsError> {
        let (size, _) = self.file(inode)?;
        self.write_at(inode, size, data)?;
        Ok(size.saturating_add(to_u64(data.len())))
    }

    /// Truncates a file or extends it with zeros. A hole needs no memory but is charged like data.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    pub fn set_len(&mut self, inode: InodeId, len: u64) -> Result<(), VfsError> {
        let (size, _) = self.file(inode)?;
        self.check_writable(inode)?;
        let len = end_of(0, len)?;
        if len == size {
            return Ok(());
        }
        self.resize(inode, size.min(len), len)
    }

    /// Ensures that a range exists: extends the file with zeros if it ends earlier.
    ///
    /// # Errors
    /// [`VfsError::Invalid`] for an empty range, else as [`write_at`](Self::write_at).
    pub fn allocate(&mut self, inode: InodeId, offset: u64, len: u64) -> Result<(), VfsError> {
        if len == 0 {
            return Err(VfsError::Invalid);
        }
        let (size, _) = self.file(inode)?;
        let end = end_of(offset, len)?;
        self.set_len(inode, size.max(end))
    }

    /// Truncates a file for `O_TRUNC`, like `set_len(0)`.
    pub(crate) fn truncate(&mut self, inode: InodeId) -> Result<(), VfsError> {
        self.set_len(inode, 0)
    }

    pub(crate) fn file(&self, inode: InodeId) -> Result<(u64, &Content), VfsError> {
        match &self.inode(inode)?.body {
            Body::File { size_bytes, content } => Ok((*size_bytes, content)),
            Body::Directory { .. } => Err(VfsError::IsADirectory),
            Body::Symlink(_) => Err(VfsError::Invalid),
        }
    }

    /// Changes the length of a file, keeps its first `keep` bytes, and makes it private: the source is not read any
    /// more. Charges first, so that a refusal leaves the file unchanged and no large file is read in vain.
    fn resize(&mut self, id: InodeId, keep: u64, size: u64) -> Result<(), VfsError> {
        let (old_size, content) = self.file(id)?;
        let (old_charge, from_mount) = match content {
            Content::Private(_) => (data_charge(old_size), false),
            Content::Mounted => (0, true),
            Content::Gone => return Err(VfsError::Io),
        };
        let new_charge = data_charge(size);
        self.reserve(new_charge.saturating_sub(old_charge), 0)?;
        let copied = if from_mount { Some(self.copy_from_mount(id, keep)?) } else { None };
        let now_ns = self.now_ns;
        let inode = self.inode_mut(id)?;
        let root = inode.root;
        inode.times.modified_ns = now_ns;
        inode.times.changed_ns = now_ns;
        if let Body::File { size_bytes, content } = &mut inode.body {
            *size_bytes = size;
            if let Some(copied) = copied {
                *content = Content::Private(Arc::new(copied));
            } else if keep < old_size
                && let Content::Private(chunks) = content
            {
                Arc::make_mut(chunks).truncate(keep);
            }
        }
        let state = Arc::make_mut(&mut self.state);
        let usage = &mut state.usage;
        usage.workspace_bytes = usage.workspace_bytes.saturating_sub(old_charge).saturating_add(new_charge);
        if let Some(root) = root_mut(state, root) {
            for journal in [&mut root.marked, &mut root.committed] {
                if !journal.written.contains(&id) {
                    Arc::make_mut(journal).written.insert(id);
                }
            }
        }
        if from_mount {
            self.forget_cached(id);
        }
        self.note_peak();
        Ok(())
    }

    /// Returns the source of a mounted file, and the file's path in it.
    fn source_of(&self, id: InodeId) -> Result<(Arc<dyn MountSource>, String), VfsError> {
        let inode = self.inode(id)?;
        let source = self.root(inode.root)?.source.clone();
        let path = inode.source.as_ref().map(|source| source.path());
        source.zip(path).ok_or(VfsError::Io)
    }

    /// Reads the first bytes of a mounted file into memory. Bypasses the cache, because each byte is needed once.
    fn copy_from_mount(&mut self, id: InodeId, len: u64) -> Result<Chunks, VfsError> {
        let (source, path) = self.source_of(id)?;
        let mut chunks = Chunks::default();
        let mut buffer = vec![0; to_usize(len.min(SOURCE_CHUNK_BYTES))];
        let mut at = 0_u64;
        while at < len {
            let want = to_usize((len.saturating_sub(at)).min(SOURCE_CHUNK_BYTES));
            let Some(piece) = buffer.get_mut(..want) else {
                return Err(VfsError::Io);
            };
            read_exactly(&*source, &path, at, piece).map_err(|error| self.source_failed(error))?;
            chunks.write(at, piece);
            at = at.saturating_add(to_u64(want));
        }
        self.count_work(len.div_ceil(CHUNK_BYTES));
        Ok(chunks)
    }

    /// Reads from a mounted file, up to the end of the source's chunk. A whole chunk goes directly to the reader, and
    /// any other piece through the cache.
    fn read_mounted(&mut self, id: InodeId, size: u64, offset: u64, into: &mut [u8]) -> Result<usize, VfsError> {
        let number = offset / SOURCE_CHUNK_BYTES;
        let start = number.saturating_mul(SOURCE_CHUNK_BYTES);
        let chunk_len = size.saturating_sub(start).min(SOURCE_CHUNK_BYTES);
        let within = to_usize(offset.saturating_sub(start));
        let len = into.len().min(to_usize(chunk_len).saturating_sub(within));
        let Some(into) = into.get_mut(..len) else {
            return Ok(0);
        };
        self.count_work(to_u64(len).div_ceil(CHUNK_BYTES));
        let key = (id, number);
        if self.cache.has(id)
            && let Some(piece) = Arc::make_mut(&mut self.cache).get(key)
            && let Some(from) = piece.get(within..within.saturating_add(len))
        {
            into.copy_from_slice(from);
            return Ok(len);
        }
        let (source, path) = self.source_of(id)?;
        let bound = self.cache_bound();
        if to_u64(len) == chunk_len || !MountCache::fits(chunk_len, bound) {
            read_exactly(&*source, &path, offset, into).map_err(|error| self.source_failed(error))?;
            return Ok(len);
        }
        let mut piece = vec![0; to_usize(chunk_len)];
        read_exactly(&*source, &path, start, &mut piece).map_err(|error| self.source_failed(error))?;
        if let Some(from) = piece.get(within..within.saturating_add(len)) {
            into.copy_from_slice(from);
        }
        Arc::make_mut(&mut self.cache).insert(key, Arc::from(piece), bound);
        self.count_work(SOURCE_CHUNK_BYTES / CHUNK_BYTES);
        self.note_peak();
        Ok(len)
    }
}

/// Returns the end of a range chosen by a guest.
fn end_of(offset: u64, len: u64) -> Result<u64, VfsError> {
    offset.checked_add(len).filter(|&end| end <= MAX_FILE_BYTES).ok_or(VfsError::FileTooBig)
}
