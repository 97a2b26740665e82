//! Cleans up the engine's arenas and the list of objects after boot.
//!
//! QuickJS-NG 0.17 divides larger blocks, the arenas, into slots for small objects. Like the heap (see [`heap`]), the
//! arenas have holes between live objects.
//!
//! The module also hides the objects created at boot from the interpreter's cycle collector, like `gc.freeze()` in
//! Python. A collection decrements the reference counts of all objects on the runtime's list and then restores them. A
//! collection would therefore write to every page of the image that contains an object, which is slow and makes these
//! pages private to the guest. No object created at boot is garbage. QuickJS links its objects in a ring, whose head
//! is in `JSRuntime` (`gc_obj_list`). Here the ring is closed without the head. A freed object is unlinked from its
//! ring. If an object on the list refers to an object outside the list, the collector decrements that object's count
//! and then restores it.

use super::{guest::Guest, state::BootedGuest, structures::fault};
use crate::{DriverError, Value, heap};

/// The slots of an arena have one size, a multiple of this.
const SLOT_STEP_BYTES: u32 = 8;
/// The largest size of a slot, in steps.
const MAX_SLOT_STEPS: u32 = 63;
/// Maximum number of free slots of one size.
const MAX_FREE_SLOTS: u32 = 1 << 16;

/// Allocates the free slots in the engine's arenas. Each size also receives one slot of a new arena, in the free memory
/// of one of the segments that start at `firsts`, or in new memory.
pub(super) fn fill_arenas(guest: &mut Guest<'_>, firsts: [u32; 2]) -> Result<(), DriverError> {
    let free: Vec<_> = firsts.into_iter().flat_map(|first| heap::free_chunks(guest.machine, first)).collect();
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
