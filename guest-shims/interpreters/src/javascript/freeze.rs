//! Takes what boot made out of the sight of the interpreter's cycle collector, as `gc.freeze()` does in Python.
//!
//! A collection counts down and up again the references of every object on the runtime's list, and so would write to every page
//! of the image that holds one: slow, and all of them then belong to the guest alone. Nothing that boot left is garbage.
//! QuickJS links its objects in one ring with a head in `JSRuntime` (`gc_obj_list`); here the ring closes without the head. An
//! object that is freed is taken out of whichever ring it is in, and the collector counts references to what is not on
//! its list, and gives back what it counted.

use crate::DriverError;

use super::{boot::fault, state::Booted};

/// Where an object's links may be (`JSGCObjectHeader.link`), by build: `prev`, then `next`.
const LINKS: [u32; 2] = [0, 8];
const NEXT: u32 = 4;
/// How much of `JSRuntime` is looked at; it is smaller.
const RUNTIME_BYTES: u32 = 4 << 10;
/// More objects than boot makes by far.
const MAX_OBJECTS: u32 = 1 << 20;

impl Booted<'_> {
    /// Takes every object that there is off the list. Comes last: what is made afterwards is collected.
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
                return Err(fault("its list of objects is no ring"));
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

    /// The head of the list of objects: it comes after the newest, which is ours.
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
