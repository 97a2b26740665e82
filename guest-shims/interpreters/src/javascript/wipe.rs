//! Zeroing what the allocator has free: boot leaves sources and compiled forms there that nobody needs, and an image keeps
//! every page that is not zero.
//!
//! The builds have wasi-libc's dlmalloc. In front of each chunk stands its size, with two bits: whether the chunk before it
//! is in use, and whether it is itself. A free chunk begins with links and is repeated as a number at its end. What does not look
//! like that is left alone: an image that is too large is a smaller fault than one that is damaged.

use crate::DriverError;

use super::guest::Guest;

/// The bits beside a chunk's size.
const PREVIOUS_IN_USE: u32 = 1;
const IN_USE: u32 = 2;
const FLAGS: u32 = 7;
/// Before the memory that a chunk gives: the size of a free one before it, and its own.
const HEADER_BYTES: u32 = 8;
/// What a large free chunk links by: two neighbours, two children, a parent, a number.
const LINKS_BYTES: u32 = 24;
/// The most that stands behind the last chunk of a segment.
const FOOT_BYTES_MOST: u32 = 128;

/// Wipes the free chunks from the chunk that gives memory at `first` to the end of its segment.
pub(super) fn wipe_free_memory(guest: &mut Guest<'_>, first: u32) -> Result<(), DriverError> {
    let mut chunk = first.saturating_sub(HEADER_BYTES);
    loop {
        let Ok(head) = guest.read_word(chunk.saturating_add(4)) else { return Ok(()) };
        let size = head & !FLAGS;
        let Some(next) = chunk.checked_add(size).filter(|_| size >= 2 * HEADER_BYTES && size % 8 == 0) else {
            return Ok(());
        };
        let (Ok(repeated), Ok(next_head)) = (guest.read_word(next), guest.read_word(next.saturating_add(4))) else {
            return Ok(());
        };
        if head & IN_USE == 0 {
            let is_known_free = repeated == size && next_head & PREVIOUS_IN_USE == 0;
            // The last chunk of all is no one's neighbour.
            let is_last = next_head & FLAGS == 0 && next_head <= FOOT_BYTES_MOST;
            if !is_known_free && !is_last {
                return Ok(());
            }
            let from = chunk + HEADER_BYTES + LINKS_BYTES;
            if let Some(bytes) = next.checked_sub(from) {
                let zeros = vec![0; usize::try_from(bytes).unwrap_or_default()];
                guest.machine.write(from, &zeros)?;
            }
            if is_last {
                return Ok(());
            }
        }
        chunk = next;
    }
}
