//! Bounds-checked access to one guest's memory.

use std::{fmt, rc::Rc};

use glovebox_core::LinearMemory;
use glovebox_wasi::Fault;

use crate::{Guests, ImageRuns};

/// The size of a WebAssembly page in bytes.
pub(crate) const PAGE_BYTES: u64 = 1 << 16;

/// The number of pages that 32-bit addresses can reach.
pub(crate) const MAX_PAGES: u32 = 1 << 16;

/// A guest's memory, with the size that the guest sees.
#[derive(Clone)]
pub struct GuestMemory {
    guests: Rc<dyn Guests>,
    number: u32,
}

impl fmt::Debug for GuestMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuestMemory")
            .field("number", &self.number)
            .field("pages", &self.pages())
            .finish_non_exhaustive()
    }
}

impl GuestMemory {
    /// Creates the memory of the guest with this number.
    #[must_use]
    pub fn new(guests: Rc<dyn Guests>, number: u32) -> Self {
        Self { guests, number }
    }

    /// Returns the woven module.
    #[must_use]
    pub fn guests(&self) -> &dyn Guests {
        &*self.guests
    }

    /// Returns the guest's number.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the size in pages that the guest sees.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.guests.virtual_size(self.number)
    }

    /// Returns the size in bytes that the guest sees.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.pages()) * PAGE_BYTES
    }

    /// Checks that a range is inside the memory.
    fn check(&self, at: u32, len: usize) -> Result<(), Fault> {
        let end = u64::from(at).checked_add(len as u64).ok_or(Fault)?;
        if end > self.bytes() { Err(Fault) } else { Ok(()) }
    }

    /// Reads `into.len()` bytes at `at`.
    pub fn read(&self, at: u32, into: &mut [u8]) -> Result<(), Fault> {
        self.check(at, into.len())?;
        self.guests.memory_read(self.number, at, into);
        Ok(())
    }

    /// Writes `from` at `at`.
    pub fn write(&self, at: u32, from: &[u8]) -> Result<(), Fault> {
        self.check(at, from.len())?;
        self.guests.memory_write(self.number, at, from);
        Ok(())
    }

    /// Grows the memory, and the real memory if it is too small. The new bytes are zero, or bytes that this guest
    /// itself wrote beyond its end.
    #[must_use]
    pub fn grow(&self, pages: u32) -> bool {
        let Some(wanted) = self.pages().checked_add(pages).filter(|wanted| *wanted <= MAX_PAGES) else {
            return false;
        };
        let missing = wanted.saturating_sub(self.guests.memory_size(self.number));
        if missing > 0 && !self.guests.memory_grow(self.number, missing) {
            return false;
        }
        self.guests.set_virtual_size(self.number, wanted);
        true
    }

    /// Fills the memory with zeros from `at` to its real end. A guest's code can reach all of it.
    pub fn clear_from(&self, at: u64) {
        let end = u64::from(self.guests.memory_size(self.number)) * PAGE_BYTES;
        self.clear(at, end);
    }

    /// Fills a part of the real memory with zeros.
    fn clear(&self, from: u64, to: u64) {
        let mut at = from;
        while at < to {
            // A length has 32 bits, and the largest memory is one byte longer.
            let len = (to - at).min(1 << 30);
            if let (Ok(at), Ok(len)) = (u32::try_from(at), u32::try_from(len)) {
                self.guests.memory_fill(self.number, at, 0, len);
            }
            at += len;
        }
    }

    /// Resets the memory to its image: the given size, the given runs, and zeros everywhere else up to the real end.
    pub fn reset(&self, pages: u32, image: &ImageRuns) {
        let mut at = 0;
        for run in image.all() {
            self.clear(at, u64::from(run.start));
            self.guests.image_to_guest(self.number, run.offset, run.start, run.length);
            at = run.end();
        }
        self.clear_from(at);
        self.guests.set_virtual_size(self.number, pages);
    }
}

impl LinearMemory for GuestMemory {
    fn bytes(&self) -> u64 {
        self.bytes()
    }

    fn read(&self, at: u32, into: &mut [u8]) -> Result<(), Fault> {
        self.read(at, into)
    }

    fn write(&mut self, at: u32, from: &[u8]) -> Result<(), Fault> {
        GuestMemory::write(self, at, from)
    }
}
