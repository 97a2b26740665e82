//! Hides what boot created from the interpreter's cycle collector, like `gc.freeze()` in Python.
//!
//! A collection decrements and increments the references of every object on the runtime's list, and so would write to
//! every page of the image that holds one: that is slow and makes all of them private to the guest. Nothing that boot
//! created is garbage. QuickJS links its objects in a ring with a head in `JSRuntime` (`gc_obj_list`); here the ring is
//! closed without the head. A freed object is unlinked from its ring. The collector decrements references to objects
//! that are not on its list, and restores them.

use crate::DriverError;

use super::{places::fault, state::Booted};

/// Possible offsets of an object's links (`JSGCObjectHeader.link`), by build: `prev`, then `next`.
const LINKS: [u32; 2] = [0, 8];
const NEXT: u32 = 4;
/// The searched part of `JSRuntime`, which is smaller.
const RUNTIME_BYTES: u32 = 4 << 10;
/// Far more objects than an image may have: each takes more than 32 bytes.
const MAX_OBJECTS: u32 = 1 << 26;

impl Booted<'_> {
    /// Removes all existing objects from the list. Called last: objects created later are collected.
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
        Err(fault("its list of objects has no end"))
    }

    /// Finds the head of the list of objects, which follows the newest object. The function creates that object.
    fn find_objects(&mut self) -> Result<u32, DriverError> {
        let newest = self.value_of("glovebox:newest", "({})", 0)?;
        let object = newest.address().ok_or_else(|| fault("it made no object"))?;
        let mut head = None;
        for link in LINKS.map(|offset| object + offset) {
            let next = self.guest.read_word(link + NEXT)?;
            let is_in_runtime = next.checked_sub(self.at.runtime).is_some_and(|offset| offset < RUNTIME_BYTES);
            if is_in_runtime && self.guest.read_word(next)? == link && head.replace(next).is_some() {
                return Err(fault("its list of objects is ambiguous"));
            }
        }
        self.guest.free(newest)?;
        head.ok_or_else(|| fault("its list of objects is not where it should be"))
    }
}
