//! The tools device, which carries a script's calls of the embedder's functions out of the guest, and the replies back.

use crate::Errno;
use crate::memory::{guest_size, size};
use crate::output::held_bytes;
use crate::stdin::Source;

/// The guest's path of the null device. It is visible like [`TOOLS_DEVICE`].
pub const NULL_DEVICE: &str = "/dev/null";

/// The guest's path of the tools device. It is visible through the preopen `/`, regardless of the mounts, and not
/// listed in any directory.
pub const TOOLS_DEVICE: &str = "/dev/glovebox/tools";

/// The reply that the guest is reading. There is a single one, shared by all descriptors of the device.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolsDevice {
    frame: Vec<u8>,
    position: usize,
}

impl ToolsDevice {
    /// Makes a reply available for reading, prefixed by its length as four bytes, little-endian.
    pub(crate) fn put(&mut self, reply: &[u8]) -> Result<(), Errno> {
        let len = guest_size(reply.len())?;
        self.frame = [&len.to_le_bytes(), reply].concat();
        self.position = 0;
        Ok(())
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        held_bytes(&self.frame)
    }
}

impl Source for ToolsDevice {
    fn rest_bytes(&self) -> u64 {
        u64::try_from(self.frame.len().saturating_sub(self.position)).unwrap_or(u64::MAX)
    }

    fn next(&mut self, len: u32) -> &[u8] {
        let from = self.position;
        self.position = from.saturating_add(size(len)).min(self.frame.len());
        self.frame.get(from..self.position).unwrap_or_default()
    }
}
