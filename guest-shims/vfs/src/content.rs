//! The content of a file, in chunks that forks share.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::encoding::{Damaged, Decoder, Encoder};

/// The unit of copy-on-write and of the quota, in bytes: a page, as in most file systems, so that many small files stay
/// cheap.
pub(crate) const CHUNK_BYTES: u64 = 4_096;

/// [`CHUNK_BYTES`] as a `usize`.
const CHUNK_LEN: usize = 4_096;

type Chunk = [u8; CHUNK_LEN];

const ZEROS: Chunk = [0; CHUNK_LEN];

/// Returns how many bytes of a chunk are before the end of the file.
fn within_file(number: u64, size_bytes: u64) -> usize {
    let left = size_bytes.saturating_sub(number.saturating_mul(CHUNK_BYTES)).min(CHUNK_BYTES);
    usize::try_from(left).unwrap_or(CHUNK_LEN)
}

/// A sparse byte array. The inode holds the length; bytes past it are always zero.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chunks {
    chunks: BTreeMap<u64, Arc<Chunk>>,
}

/// The part of a range in one chunk: the chunk's number, the first byte in it, and the positions in the caller's
/// buffer.
struct Piece {
    chunk: u64,
    within: usize,
    start: usize,
    end: usize,
}

/// Splits `len` bytes at `offset` at chunk boundaries.
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
    /// Fills the buffer from `offset`; holes read as zeros. The caller has clipped the buffer to the file's length.
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

    /// Stores the bytes at `offset`, copying only chunks that a fork shares.
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

    /// Encodes the nonzero chunks of a file of this length.
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

    /// Decodes the output of [`encode`](Self::encode). Allocates one chunk at a time, after its bytes have been read.
    pub(crate) fn decode(from: &mut Decoder<'_>, size_bytes: u64) -> Result<Self, Damaged> {
        let mut chunks = BTreeMap::new();
        let mut next = 0_u64;
        for _ in 0..from.number()? {
            let number = next.checked_add(from.number()?).ok_or(Damaged("a chunk number overflows"))?;
            next = number.saturating_add(1);
            let bytes = from.raw(within_file(number, size_bytes))?;
            if bytes.iter().all(|&byte| byte == 0) {
                return Err(Damaged("a chunk is empty or lies past the end of its file"));
            }
            let mut chunk = ZEROS;
            if let Some(held) = chunk.get_mut(..bytes.len()) {
                held.copy_from_slice(bytes);
            }
            chunks.insert(number, Arc::new(chunk));
        }
        Ok(Self { chunks })
    }

    /// Drops everything from `len` on, so that a later growth reads zeros.
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
    fn truncated_bytes_do_not_come_back() {
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
    fn a_hole_holds_no_chunk() {
        let mut chunks = Chunks::default();
        chunks.write(1 << 40, b"x");
        assert_eq!(chunks.chunks.len(), 1);
    }
}
