//! The guest's standard input.

use std::sync::Arc;

use crate::memory::size;

/// A source of bytes that are read once, from the beginning.
pub(crate) trait Source {
    /// Returns the number of remaining bytes.
    fn rest_bytes(&self) -> u64;

    /// Returns the next bytes, at most `len`.
    fn next(&mut self, len: u32) -> &[u8];
}

/// The given bytes and the guest's position in them. End of file follows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stdin {
    // Shared: a fork of the instance reads the same bytes.
    bytes: Arc<[u8]>,
    position: usize,
    /// The number of bytes that were read before `bytes`.
    read_before: u64,
}

impl Stdin {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self::resumed(0, bytes)
    }

    /// Creates the rest of an input of which `read_before` bytes were read.
    pub(crate) fn resumed(read_before: u64, rest: Vec<u8>) -> Self {
        Self { bytes: rest.into(), position: 0, read_before }
    }

    pub(crate) fn rest(&self) -> &[u8] {
        self.bytes.get(self.position..).unwrap_or_default()
    }

    pub(crate) fn position(&self) -> u64 {
        self.read_before.saturating_add(u64::try_from(self.position).unwrap_or(u64::MAX))
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        u64::try_from(self.bytes.len()).unwrap_or(u64::MAX)
    }
}

impl Source for Stdin {
    fn rest_bytes(&self) -> u64 {
        u64::try_from(self.rest().len()).unwrap_or(u64::MAX)
    }

    fn next(&mut self, len: u32) -> &[u8] {
        let count = size(len).min(self.rest().len());
        let from = self.position;
        self.position = from.saturating_add(count);
        self.bytes.get(from..self.position).unwrap_or_default()
    }
}
