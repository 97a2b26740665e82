//! Cleans up the free memory of a guest's heap at the end of preparation.
//!
//! Free memory contains remains of sources and compiled code, and an image stores every page that is not zero. There
//! are also holes between live chunks. Scripts would fill the holes one by one, so an execution would write to pages
//! all over the image.
//!
//! The builds of both languages use wasi-libc's dlmalloc. Each chunk is preceded by its size and two bits. One bit is
//! set if the previous chunk is in use, the other if the chunk itself is in use. A free chunk starts with links and
//! repeats its size at the end. Memory with any other content is left alone, because a large image does less harm than
//! a damaged one.

use crate::{Callee, Machine, MachineError, Value};

// The flags in the low bits of a chunk's size field.
const PREVIOUS_IN_USE: u32 = 1;
const IN_USE: u32 = 2;
const FLAGS: u32 = 7;
/// The size of the fields before a chunk's memory: the size of a free previous chunk, and the chunk's own size.
const HEADER_BYTES: u32 = 8;
/// A chunk's size minus its usable memory. The end of a chunk in use overlaps the header of the next chunk.
const OVERHEAD_BYTES: u32 = 4;
/// The size of the links in a large free chunk: two neighbours, two children, a parent and an index.
const LINKS_BYTES: u32 = 24;
/// Maximum size of the data after the last chunk of a segment.
const MAX_FOOT_BYTES: u32 = 128;
/// Maximum size of a hole. A larger free chunk is free space.
const MAX_HOLE_BYTES: u32 = 16 << 10;

/// Maximum free memory at the end of a segment. An execution that needs more grows the memory, so its instance is not
/// reused.
const MAX_END_BYTES: u32 = 512 << 10;

/// A free part of a segment, with its header.
pub(crate) struct FreeChunk {
    pub(crate) at: u32,
    pub(crate) size: u32,
    /// `true` for the last chunk of its segment.
    is_last: bool,
}

/// Returns the free chunks of a segment, starting at the chunk whose memory is at `first`.
pub(crate) fn free_chunks(machine: &mut dyn Machine, first: u32) -> Vec<FreeChunk> {
    let mut found = Vec::new();
    let mut at = first.saturating_sub(HEADER_BYTES);
    loop {
        let Ok(head) = word(machine, at.saturating_add(4)) else { return found };
        let size = head & !FLAGS;
        let Some(next) = at.checked_add(size).filter(|_| size >= 2 * HEADER_BYTES && size.is_multiple_of(8)) else {
            return found;
        };
        let (Ok(repeated), Ok(next_head)) = (word(machine, next), word(machine, next.saturating_add(4))) else {
            return found;
        };
        if head & IN_USE == 0 {
            let is_known_free = repeated == size && next_head & PREVIOUS_IN_USE == 0;
            // The segment's last chunk has no successor.
            let is_last = next_head & FLAGS == 0 && next_head <= MAX_FOOT_BYTES;
            if !is_known_free && !is_last {
                return found;
            }
            found.push(FreeChunk { at, size, is_last });
            if is_last {
                return found;
            }
        }
        at = next;
    }
}

/// Permanently allocates the small free chunks of a segment with the export `malloc`, so that a script's allocations
/// are contiguous.
pub(crate) fn fill_holes(machine: &mut dyn Machine, first: u32, malloc: &str) -> Result<(), MachineError> {
    let mut holes: Vec<u32> = free_chunks(machine, first)
        .into_iter()
        .filter(|chunk| !chunk.is_last && chunk.size <= MAX_HOLE_BYTES)
        .map(|chunk| chunk.size)
        .collect();
    // Largest first: the allocator takes the smallest chunk that fits, and each size is requested as often as it
    // occurs.
    holes.sort_unstable_by(|one, other| other.cmp(one));
    for size in holes {
        machine.call(Callee::Export(malloc), &[Value::I32(size.saturating_sub(OVERHEAD_BYTES))])?;
    }
    Ok(())
}

/// Permanently allocates the free end of a segment, except for [`MAX_END_BYTES`], with the export `malloc`. Large blocks
/// of scripts are then allocated after the image. A write to the image copies a page of its file, and the next instance
/// in the same place has to restore the page.
pub(crate) fn fill_end(machine: &mut dyn Machine, first: u32, malloc: &str) -> Result<(), MachineError> {
    let end = free_chunks(machine, first).pop().filter(|chunk| chunk.is_last);
    if let Some(excess) = end.and_then(|end| end.size.checked_sub(MAX_END_BYTES + OVERHEAD_BYTES)) {
        machine.call(Callee::Export(malloc), &[Value::I32(excess)])?;
    }
    Ok(())
}

/// Zeroes the free chunks of a segment, starting at the chunk whose memory is at `first`.
pub(crate) fn wipe_free_memory(machine: &mut dyn Machine, first: u32) -> Result<(), MachineError> {
    for FreeChunk { at, size, .. } in free_chunks(machine, first) {
        let from = at + HEADER_BYTES + LINKS_BYTES;
        if let Some(bytes) = (at + size).checked_sub(from) {
            let zeros = vec![0; usize::try_from(bytes).unwrap_or_default()];
            machine.write(from, &zeros)?;
        }
    }
    Ok(())
}

fn word(machine: &mut dyn Machine, at: u32) -> Result<u32, MachineError> {
    let mut bytes = [0; 4];
    machine.read(at, &mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::python::tests::FakeGuest;

    #[test]
    fn holes_in_the_heap_are_filled_and_free_memory_is_wiped() {
        // Chunks in use, holes of 48 and 64 bytes, and the last chunk, followed by the segment's foot.
        let mut guest = FakeGuest::new();
        for (head, word) in [(0x1000, 35), (0x1020, 49), (0x1050, 18), (0x1060, 65), (0x10a0, 18), (0x10b0, 257)] {
            guest.put(head + 4, word);
        }
        for (end, size) in [(0x1050, 48), (0x10a0, 64), (0x11b4, 40)] {
            guest.put(end, size);
        }
        for garbage in [0x1044, 0x1058, 0x1100] {
            guest.put(garbage, 7);
        }
        fill_holes(&mut guest, 0x1008, "malloc").unwrap();
        assert_eq!(guest.called, [[Value::I32(60)], [Value::I32(44)]], "largest first");
        wipe_free_memory(&mut guest, 0x1008).unwrap();
        assert_eq!([0x1044, 0x1058, 0x1100, 0x11b4].map(|at| guest.get(at)), [0, 7, 0, 40]);
    }

    #[test]
    fn large_end_of_the_heap_is_allocated() {
        for (size, allocated) in
            [(MAX_END_BYTES, None), (MAX_END_BYTES + 8, Some(4)), (MAX_END_BYTES + 4096, Some(4092))]
        {
            // A chunk in use, and the last chunk, followed by the segment's foot.
            assert_eq!(allocated_end(&[(0x1004, 35), (0x1024, size | 1), (0x1024 + size, 40)]), allocated, "{size}");
        }
    }

    #[test]
    fn large_free_chunk_before_a_chunk_in_use_stays_free() {
        let (size, end) = (MAX_END_BYTES + 4096, 0x1020 + MAX_END_BYTES + 4096);
        assert_eq!(allocated_end(&[(0x1004, 35), (0x1024, size | 1), (end, size), (end + 4, 34)]), None);
    }

    /// Calls [`fill_end`] for a heap with these words, and returns the size that it allocates.
    fn allocated_end(heap: &[(u32, u32)]) -> Option<u32> {
        let mut guest = FakeGuest::new();
        guest.memory.resize(1 << 20, 0);
        for (at, word) in heap {
            guest.put(*at, *word);
        }
        fill_end(&mut guest, 0x1008, "malloc").unwrap();
        match guest.called.concat().as_slice() {
            [] => None,
            [Value::I32(size)] => Some(*size),
            other => panic!("{other:?}"),
        }
    }
}
