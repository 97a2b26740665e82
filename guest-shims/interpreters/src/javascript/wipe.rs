//! Cleans up the allocator's free memory and the list of objects after boot.
//!
//! Free memory contains remains of sources and compiled code, and an image stores every page that is not zero. There
//! are also holes between live chunks. Scripts would fill the holes one by one, so an execution would write to pages
//! all over the image. QuickJS-NG 0.17 divides larger blocks, the arenas, into slots for small objects, and the arenas
//! have such holes too.
//!
//! The builds use wasi-libc's dlmalloc. Each chunk is preceded by its size and two bits. One bit is set if the previous
//! chunk is in use, the other if the chunk itself is in use. A free chunk starts with links and repeats its size at the
//! end. Memory with any other content is left alone, because a large image does less harm than a damaged one.
//!
//! The module also hides the objects created at boot from the interpreter's cycle collector, like `gc.freeze()` in
//! Python. A collection decrements the reference counts of all objects on the runtime's list and then restores them. A
//! collection would therefore write to every page of the image that contains an object, which is slow and makes these
//! pages private to the guest. No object created at boot is garbage. QuickJS links its objects in a ring, whose head
//! is in `JSRuntime` (`gc_obj_list`). Here the ring is closed without the head. A freed object is unlinked from its
//! ring. If an object on the list refers to an object outside the list, the collector decrements that object's count
//! and then restores it.

use super::{guest::Guest, state::BootedGuest, structures::fault};
use crate::{DriverError, Value};

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
/// The slots of an arena have one size, a multiple of this.
const SLOT_STEP_BYTES: u32 = 8;
/// The largest size of a slot, in steps.
const MAX_SLOT_STEPS: u32 = 63;
/// Maximum number of free slots of one size.
const MAX_FREE_SLOTS: u32 = 1 << 16;

struct FreeRange {
    at: u32,
    size: u32,
    /// `true` for the last chunk of its segment.
    is_last: bool,
}

/// Returns the free chunks of a segment, starting at the chunk whose memory is at `first`.
fn free_chunks(guest: &mut Guest<'_>, first: u32) -> Vec<FreeRange> {
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
            // The segment's last chunk has no successor.
            let is_last = next_head & FLAGS == 0 && next_head <= MAX_FOOT_BYTES;
            if !is_known_free && !is_last {
                return found;
            }
            found.push(FreeRange { at, size, is_last });
            if is_last {
                return found;
            }
        }
        at = next;
    }
}

/// Permanently allocates the small free chunks, so that a script's allocations are contiguous.
pub(super) fn fill_holes(guest: &mut Guest<'_>, first: u32) -> Result<(), DriverError> {
    let mut holes: Vec<u32> = free_chunks(guest, first)
        .into_iter()
        .filter(|chunk| !chunk.is_last && chunk.size <= MAX_HOLE_BYTES)
        .map(|chunk| chunk.size)
        .collect();
    // Largest first: the allocator takes the smallest chunk that fits, and each size is requested as often as it
    // occurs.
    holes.sort_unstable_by(|one, other| other.cmp(one));
    for size in holes {
        guest.allocate(size.saturating_sub(OVERHEAD_BYTES))?;
    }
    Ok(())
}

/// Allocates the free slots in the engine's arenas. Each size also receives one slot of a new arena, in the free memory
/// of one of the segments that start at `firsts`, or in new memory.
pub(super) fn fill_arenas(guest: &mut Guest<'_>, firsts: [u32; 2]) -> Result<(), DriverError> {
    let free: Vec<_> = firsts.into_iter().flat_map(|first| free_chunks(guest, first)).collect();
    let end = guest.machine.memory_bytes();
    for size in (1..=MAX_SLOT_STEPS).map(|steps| steps * SLOT_STEP_BYTES) {
        let mut slots = 0..MAX_FREE_SLOTS;
        loop {
            let at = guest.call_word("js_malloc_rt", &[guest.runtime, size].map(Value::I32))?;
            let is_in_free_memory = free.iter().any(|chunk| at > chunk.at && at - chunk.at < chunk.size);
            if is_in_free_memory || u64::from(at) >= end {
                break;
            }
            if at == 0 || slots.next().is_none() {
                return Err(fault(format!("it has too many free slots of {size} bytes")));
            }
        }
    }
    Ok(())
}

/// Zeroes the free chunks of a segment, starting at the chunk whose memory is at `first`.
pub(super) fn wipe_free_memory(guest: &mut Guest<'_>, first: u32) -> Result<(), DriverError> {
    for FreeRange { at, size, .. } in free_chunks(guest, first) {
        let from = at + HEADER_BYTES + LINKS_BYTES;
        if let Some(bytes) = (at + size).checked_sub(from) {
            let zeros = vec![0; usize::try_from(bytes).unwrap_or_default()];
            guest.machine.write(from, &zeros)?;
        }
    }
    Ok(())
}

/// The possible offsets of the list link in an object (`JSGCObjectHeader.link`).
const LINKS: [u32; 2] = [0, 8];
/// The offset of the `next` field in a list link, after `prev`.
const NEXT: u32 = 4;
/// The number of bytes to search from the start of `JSRuntime`; more than its size.
const RUNTIME_BYTES: u32 = 4 << 10;
/// More objects than any image can contain: each object takes more than 32 bytes.
const MAX_OBJECTS: u32 = 1 << 26;

impl BootedGuest<'_> {
    /// Removes all existing objects from the list. Must be called last, because objects created later are collected.
    pub(super) fn freeze(&mut self) -> Result<(), DriverError> {
        let head = self.find_objects()?;
        let (last, first) = (self.guest.read_word(head)?, self.guest.read_word(head + NEXT)?);
        if first == head {
            return Err(fault("it has no objects"));
        }
        let mut at = first;
        for _ in 0..MAX_OBJECTS {
            let next = self.guest.read_word(at + NEXT)?;
            if self.guest.read_word(next)? != at {
                return Err(fault("its list of objects is not a ring"));
            }
            if next == head {
                self.guest.write_word(first, last)?;
                self.guest.write_word(last + NEXT, first)?;
                self.guest.write_word(head, head)?;
                self.guest.write_word(head + NEXT, head)?;
                return Ok(());
            }
            at = next;
        }
        Err(fault(format!("its list of objects has more than {MAX_OBJECTS} entries")))
    }

    /// Creates an object and finds the head of the list of objects, which follows the newest object.
    fn find_objects(&mut self) -> Result<u32, DriverError> {
        let newest = self.value_of("glovebox:newest", "({})", 0)?;
        let object = newest.address().ok_or_else(|| fault("it did not create an object"))?;
        let mut head = None;
        for link in LINKS.map(|offset| object + offset) {
            let next = self.guest.read_word(link + NEXT)?;
            let is_in_runtime = next.checked_sub(self.at.runtime).is_some_and(|offset| offset < RUNTIME_BYTES);
            if is_in_runtime && self.guest.read_word(next)? == link && head.replace(next).is_some() {
                return Err(fault("its list of objects is ambiguous"));
            }
        }
        self.guest.free(newest)?;
        head.ok_or_else(|| fault("its list of objects is not at the expected address"))
    }
}
