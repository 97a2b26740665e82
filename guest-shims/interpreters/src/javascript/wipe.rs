//! Cleans up the allocator's free memory after boot. This memory contains unused sources and compiled code, and an
//! image stores every page that is not zero. It also has holes between live chunks, which scripts would fill one by
//! one, so that an execution would write to pages all over the image.
//!
//! The builds use wasi-libc's dlmalloc. Each chunk is preceded by its size, with two bits: whether the previous chunk
//! is in use, and whether it is itself. A free chunk begins with links, and its size is repeated at its end. Anything
//! else is left alone: an image that is too large is a smaller fault than a damaged one.

use crate::DriverError;

use super::guest::Guest;

/// The flags in the low bits of a chunk's size.
const PREVIOUS_IN_USE: u32 = 1;
const IN_USE: u32 = 2;
const FLAGS: u32 = 7;
/// Before a chunk's memory: the size of a free previous chunk, and its own.
const HEADER_BYTES: u32 = 8;
/// Overhead of a chunk beyond its memory. The end of a chunk in use overlaps the header of the next chunk.
const OVERHEAD_BYTES: u32 = 4;
/// The links of a large free chunk: two neighbours, two children, a parent, a number.
const LINKS_BYTES: u32 = 24;
/// Maximum size of the data after the last chunk of a segment.
const MAX_FOOT_BYTES: u32 = 128;
/// A larger free chunk is free space, not a hole.
const MAX_HOLE_BYTES: u32 = 16 << 10;

struct Free {
    at: u32,
    size: u32,
    /// `true` for the last chunk of its segment.
    is_last: bool,
}

/// Returns the free chunks of a segment, starting at the chunk whose memory is at `first`.
fn free_chunks(guest: &mut Guest<'_>, first: u32) -> Vec<Free> {
    let mut found = Vec::new();
    let mut at = first.saturating_sub(HEADER_BYTES);
    loop {
        let Ok(head) = guest.read_word(at.saturating_add(4)) else { return found };
        let size = head & !FLAGS;
        let Some(next) = at.checked_add(size).filter(|_| size >= 2 * HEADER_BYTES && size.is_multiple_of(8)) else {
            return found;
        };
        let (Ok(repeated), Ok(next_head)) = (guest.read_word(next), guest.read_word(next.saturating_add(4))) else {
            return found;
        };
        if head & IN_USE == 0 {
            let is_known_free = repeated == size && next_head & PREVIOUS_IN_USE == 0;
            // The very last chunk has no next one.
            let is_last = next_head & FLAGS == 0 && next_head <= MAX_FOOT_BYTES;
            if !is_known_free && !is_last {
                return found;
            }
            found.push(Free { at, size, is_last });
            if is_last {
                return found;
            }
        }
        at = next;
    }
}

/// Allocates the small free chunks permanently, so that allocations of scripts are contiguous.
pub(super) fn fill_holes(guest: &mut Guest<'_>, first: u32) -> Result<(), DriverError> {
    let mut holes: Vec<u32> = free_chunks(guest, first)
        .into_iter()
        .filter(|chunk| !chunk.is_last && chunk.size <= MAX_HOLE_BYTES)
        .map(|chunk| chunk.size)
        .collect();
    // The allocator takes the smallest chunk that fits, and each size is requested as often as it occurs.
    holes.sort_unstable_by(|one, other| other.cmp(one));
    for size in holes {
        guest.allocate(size.saturating_sub(OVERHEAD_BYTES))?;
    }
    Ok(())
}

/// Zeroes the free chunks of a segment, starting at the chunk whose memory is at `first`.
pub(super) fn wipe_free_memory(guest: &mut Guest<'_>, first: u32) -> Result<(), DriverError> {
    for Free { at, size, .. } in free_chunks(guest, first) {
        let from = at + HEADER_BYTES + LINKS_BYTES;
        if let Some(bytes) = (at + size).checked_sub(from) {
            let zeros = vec![0; usize::try_from(bytes).unwrap_or_default()];
            guest.machine.write(from, &zeros)?;
        }
    }
    Ok(())
}
