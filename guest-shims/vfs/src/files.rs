//! File contents, in chunks that forks share, and operations to read and write them.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    encoding::{DecodeError, Decoder, Encoder},
    inode::{Body, Content, InodeId},
    limits::{MAX_FILE_BYTES, VfsError, data_charge},
    mount::{MountCache, MountSource, SOURCE_CHUNK_BYTES, SourceError},
    vfs::{Vfs, root_mut},
};

fn to_u64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// Converts a length or an offset. Saturates only for a value that exceeds every buffer.
fn to_usize(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

/// Reads until the buffer is full. Fails if the file is shorter than its `stat` claims: the file has changed, so the
/// buffer could contain a mixture of two versions.
fn read_exactly(source: &dyn MountSource, path: &str, offset: u64, into: &mut [u8]) -> Result<(), SourceError> {
    let mut done = 0_usize;
    while let Some(rest) = into.get_mut(done..)
        && !rest.is_empty()
    {
        let at = offset.saturating_add(to_u64(done));
        let len = rest.len();
        let read = source.read(path, at, rest)?;
        if read == 0 || read > len {
            return Err(SourceError::new(format!("`{path}` ends at byte {at}; it has changed since it was listed")));
        }
        done = done.saturating_add(read);
    }
    Ok(())
}

impl Vfs {
    /// Reads from a file. Returns the number of bytes read, which is less than requested at the end of the file, and 0
    /// past the end. Reads from a mounted file can also be short.
    ///
    /// # Errors
    /// Returns [`VfsError::IsADirectory`] for a directory, [`VfsError::Invalid`] for a symlink, [`VfsError::BadInode`]
    /// for a stale ID, and [`VfsError::Io`] if the source fails before any byte was read.
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

    /// Writes to a file, growing it as needed. A gap reads as zeros. Either all of the data is written or none. An
    /// empty write changes nothing.
    ///
    /// # Errors
    /// Returns [`VfsError::NoSpace`], [`VfsError::FileTooBig`], [`VfsError::ReadOnly`], or any error from
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

    /// Writes at the end of a file. Returns the file's new length.
    ///
    /// # Errors
    /// Returns any error from [`write_at`](Self::write_at).
    pub fn append(&mut self, inode: InodeId, data: &[u8]) -> Result<u64, VfsError> {
        let (size, _) = self.file(inode)?;
        self.write_at(inode, size, data)?;
        Ok(size.saturating_add(to_u64(data.len())))
    }

    /// Truncates a file, or extends it with zeros. A hole occupies no memory but is charged like data.
    ///
    /// # Errors
    /// Returns any error from [`write_at`](Self::write_at).
    pub fn set_len(&mut self, inode: InodeId, len: u64) -> Result<(), VfsError> {
        let (size, _) = self.file(inode)?;
        self.check_writable(inode)?;
        let len = end_of(0, len)?;
        if len == size { Ok(()) } else { self.resize(inode, size.min(len), len) }
    }

    /// Ensures that a range exists: extends the file with zeros if it ends earlier.
    ///
    /// # Errors
    /// Returns [`VfsError::Invalid`] for an empty range, or any error from [`write_at`](Self::write_at).
    pub fn allocate(&mut self, inode: InodeId, offset: u64, len: u64) -> Result<(), VfsError> {
        if len == 0 {
            return Err(VfsError::Invalid);
        }
        let (size, _) = self.file(inode)?;
        let end = end_of(offset, len)?;
        self.set_len(inode, size.max(end))
    }

    /// Truncates a file to length zero, for `O_TRUNC`.
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

    /// Changes the length of a file, preserving its first `keep` bytes, and makes the file private: the source is no
    /// longer read. Charges first, so that a refusal leaves the file unchanged and no large file is read unnecessarily.
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

    /// Returns the source of a mounted file and the file's path in the source.
    fn source_of(&self, id: InodeId) -> Result<(Arc<dyn MountSource>, String), VfsError> {
        let inode = self.inode(id)?;
        let source = self.root(inode.root)?.source.clone();
        let path = inode.source.as_ref().map(|source| source.path());
        source.zip(path).ok_or(VfsError::Io)
    }

    /// Reads the first bytes of a mounted file into memory. Bypasses the cache, because each byte is needed only once.
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

    /// Reads from a mounted file, up to the end of the source's chunk. A whole chunk is read directly into the buffer,
    /// and a smaller range through the cache.
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

/// Returns the end of a range that a guest chose.
fn end_of(offset: u64, len: u64) -> Result<u64, VfsError> {
    offset.checked_add(len).filter(|&end| end <= MAX_FILE_BYTES).ok_or(VfsError::FileTooBig)
}

/// The unit of copy-on-write and of the quota, in bytes. One page, as in most file systems, so that small files waste
/// little memory.
pub(crate) const CHUNK_BYTES: u64 = 4_096;

/// [`CHUNK_BYTES`] as a `usize`.
const CHUNK_LEN: usize = 4_096;

type Chunk = [u8; CHUNK_LEN];

const ZEROS: Chunk = [0; CHUNK_LEN];

/// Returns the number of bytes in a chunk that precede the end of the file.
fn within_file(number: u64, size_bytes: u64) -> usize {
    let left = size_bytes.saturating_sub(number.saturating_mul(CHUNK_BYTES)).min(CHUNK_BYTES);
    usize::try_from(left).unwrap_or(CHUNK_LEN)
}

/// A sparse byte array. The inode stores the length; bytes past this length are always zero.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chunks {
    chunks: BTreeMap<u64, Arc<Chunk>>,
}

/// The intersection of a range with one chunk: the chunk's number, the first byte's position in the chunk, and the
/// positions in the caller's buffer.
struct Piece {
    chunk: u64,
    within: usize,
    start: usize,
    end: usize,
}

/// Splits the range of `len` bytes at `offset` at chunk boundaries.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = Piece> {
    let mut start = 0_usize;
    std::iter::from_fn(move || {
        if start >= len {
            return None;
        }
        let at = offset.saturating_add(u64::try_from(start).unwrap_or(u64::MAX));
        let within = usize::try_from(at % CHUNK_BYTES).unwrap_or(0);
        let end = start.saturating_add(CHUNK_LEN - within).min(len);
        let piece = Piece { chunk: at / CHUNK_BYTES, within, start, end };
        start = end;
        Some(piece)
    })
}

impl Chunks {
    /// Fills the buffer from `offset`. Holes read as zeros. The caller must have limited the buffer to the file's
    /// length.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) {
        for piece in pieces(offset, into.len()) {
            let Some(to) = into.get_mut(piece.start..piece.end) else {
                continue;
            };
            let from = self
                .chunks
                .get(&piece.chunk)
                .and_then(|chunk| chunk.get(piece.within..piece.within.saturating_add(to.len())));
            match from {
                Some(from) => to.copy_from_slice(from),
                None => to.fill(0),
            }
        }
    }

    /// Stores bytes at `offset`. Copies only the chunks that a fork shares.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        for piece in pieces(offset, data.len()) {
            let Some(from) = data.get(piece.start..piece.end) else {
                continue;
            };
            let chunk = self.chunks.entry(piece.chunk).or_insert_with(|| Arc::new([0; CHUNK_LEN]));
            let end = piece.within.saturating_add(from.len());
            if let Some(to) = Arc::make_mut(chunk).get_mut(piece.within..end) {
                to.copy_from_slice(from);
            }
        }
    }

    /// Encodes the nonzero chunks of a file that has `size_bytes` bytes.
    pub(crate) fn encode(&self, to: &mut Encoder, size_bytes: u64) {
        let held: Vec<_> = self.chunks.iter().filter(|(_, chunk)| ***chunk != ZEROS).collect();
        to.length(held.len());
        let mut next = 0;
        for (&number, chunk) in held {
            to.number(number.saturating_sub(next));
            next = number.saturating_add(1);
            to.raw(chunk.get(..within_file(number, size_bytes)).unwrap_or_default());
        }
    }

    /// Decodes the output of [`encode`](Self::encode). Allocates each chunk after its bytes have been read.
    pub(crate) fn decode(from: &mut Decoder<'_>, size_bytes: u64) -> Result<Self, DecodeError> {
        let mut chunks = BTreeMap::new();
        let mut next = 0_u64;
        for _ in 0..from.number()? {
            let number = next.checked_add(from.number()?).ok_or(DecodeError("a chunk number overflows"))?;
            next = number.saturating_add(1);
            let bytes = from.raw(within_file(number, size_bytes))?;
            if bytes.iter().all(|&byte| byte == 0) {
                return Err(DecodeError("a chunk is empty or lies past the end of its file"));
            }
            let mut chunk = ZEROS;
            if let Some(held) = chunk.get_mut(..bytes.len()) {
                held.copy_from_slice(bytes);
            }
            chunks.insert(number, Arc::new(chunk));
        }
        Ok(Self { chunks })
    }

    /// Drops all bytes after the first `len`, so that they read as zeros if the file grows again.
    pub(crate) fn truncate(&mut self, len: u64) {
        drop(self.chunks.split_off(&len.div_ceil(CHUNK_BYTES)));
        let within = usize::try_from(len % CHUNK_BYTES).unwrap_or(0);
        if within == 0 {
            return;
        }
        if let Some(chunk) = self.chunks.get_mut(&(len / CHUNK_BYTES))
            && let Some(tail) = Arc::make_mut(chunk).get_mut(within..)
        {
            tail.fill(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_across_chunk_borders_reads_back() {
        let mut chunks = Chunks::default();
        let data: Vec<u8> = (0..10_000_u32).map(|n| (n % 251) as u8).collect();
        chunks.write(4_000, &data);
        let mut back = vec![9; 12_000];
        chunks.read(3_000, &mut back);
        assert!(back[..1_000].iter().all(|&b| b == 0));
        assert_eq!(&back[1_000..11_000], &data[..]);
        assert!(back[11_000..].iter().all(|&b| b == 0));
    }

    #[test]
    fn truncated_bytes_read_as_zeros() {
        let mut chunks = Chunks::default();
        chunks.write(0, &[7; 9_000]);
        chunks.truncate(5_000);
        let mut back = [1; 9_000];
        chunks.read(0, &mut back);
        assert!(back[..5_000].iter().all(|&b| b == 7));
        assert!(back[5_000..].iter().all(|&b| b == 0));
        chunks.truncate(0);
        assert!(chunks.chunks.is_empty());
    }

    #[test]
    fn hole_takes_no_chunk() {
        let mut chunks = Chunks::default();
        chunks.write(1 << 40, b"x");
        assert_eq!(chunks.chunks.len(), 1);
    }
}
