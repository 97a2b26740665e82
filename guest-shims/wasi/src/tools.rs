//! The tools device: how a script's calls of the embedder's functions leave the guest, and how their replies come back.

use crate::Errno;
use crate::memory::{narrow, size};
use crate::output::held_bytes;
use crate::stdin::Source;

/// Where the null device is for the guest. It is seen as [`TOOLS_DEVICE`] is.
pub const NULL_DEVICE: &str = "/dev/null";

/// Where the device is for the guest. It is seen through the preopen `/`, whatever is mounted, and listed nowhere.
pub const TOOLS_DEVICE: &str = "/dev/glovebox/tools";

/// The reply that the guest is reading. There is one, however many descriptors refer to the device.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolsDevice {
    frame: Vec<u8>,
    position: usize,
}

impl ToolsDevice {
    /// Puts a reply up for reading, its length in front, little-endian in four bytes.
    pub(crate) fn put(&mut self, reply: &[u8]) -> Result<(), Errno> {
        let len = narrow(reply.len())?;
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
