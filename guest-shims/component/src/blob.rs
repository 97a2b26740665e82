//! Byte buffers that are too large for a list.

use glovebox_core::contract::part;

/// A byte buffer that grows at its end.
#[derive(Clone, Debug, Default)]
pub struct Blob(Vec<u8>);

impl Blob {
    /// Wraps these bytes.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Returns all bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// Appends bytes. Returns `false` if there is not enough memory.
    pub fn append(&mut self, bytes: &[u8]) -> bool {
        let has_room = self.0.try_reserve(bytes.len()).is_ok();
        if has_room {
            self.0.extend_from_slice(bytes);
        }
        has_room
    }

    /// Returns at most `len` bytes from `offset`.
    #[must_use]
    pub fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        part(&self.0, offset, len).to_vec()
    }
}
