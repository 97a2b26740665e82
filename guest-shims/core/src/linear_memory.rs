//! The host's access to a guest's linear memory.

use std::ops::Range;

use glovebox_wasi::Fault;

/// A guest's linear memory. Every access is bounds-checked.
pub trait LinearMemory {
    /// Returns the size in bytes.
    fn bytes(&self) -> u64;

    /// Reads `into.len()` bytes at `at`.
    fn read(&self, at: u32, into: &mut [u8]) -> Result<(), Fault>;

    /// Writes `from` at `at`.
    fn write(&mut self, at: u32, from: &[u8]) -> Result<(), Fault>;

    /// Returns the 32-bit little-endian word at an address; `None` outside the memory.
    fn word(&self, at: u32) -> Option<u32> {
        let mut word = [0; 4];
        self.read(at, &mut word).ok()?;
        Some(u32::from_le_bytes(word))
    }

    /// Writes a 32-bit little-endian word. Does nothing outside the memory.
    fn set_word(&mut self, at: u32, word: u32) {
        self.write(at, &word.to_le_bytes()).unwrap_or_default();
    }
}

fn range(at: u32, len: usize) -> Range<usize> {
    let at = usize::try_from(at).unwrap_or(usize::MAX);
    at..at.saturating_add(len)
}

impl LinearMemory for [u8] {
    fn bytes(&self) -> u64 {
        self.len() as u64
    }

    fn read(&self, at: u32, into: &mut [u8]) -> Result<(), Fault> {
        into.copy_from_slice(self.get(range(at, into.len())).ok_or(Fault)?);
        Ok(())
    }

    fn write(&mut self, at: u32, from: &[u8]) -> Result<(), Fault> {
        self.get_mut(range(at, from.len())).ok_or(Fault)?.copy_from_slice(from);
        Ok(())
    }
}
