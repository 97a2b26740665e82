//! Bytes that are too many for a list.

use glovebox_core::contract::part;

/// Bytes that grow at their end.
#[derive(Clone, Debug, Default)]
pub struct Blob(Vec<u8>);

impl Blob {
    /// These bytes.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// All of them.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// Adds bytes at the end; false if there is no memory for them.
    pub fn append(&mut self, bytes: &[u8]) -> bool {
        let has_room = self.0.try_reserve(bytes.len()).is_ok();
        if has_room {
            self.0.extend_from_slice(bytes);
        }
        has_room
    }

    /// At most `len` bytes from `offset` on.
    #[must_use]
    pub fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        part(&self.0, offset, len).to_vec()
    }
}
