//! The driver channel: how embedder and driver talk without the script's arguments, files or streams.

use crate::output::{append_within, held_bytes};
use crate::stdin::Source;
use crate::{Errno, memory::size};

/// The channel's descriptor. It lies outside the descriptor table: it cannot be closed, renumbered or listed, and
/// no table is large enough to reach it.
pub const CHANNEL_FD: u32 = 0x4000_0000;

/// What the guest writes to the channel or to standard error, in one call, to be parked at the next `fd_fdstat_get(0)`.
/// Only heeded while the embedder allows it, and then it is no output. Standard error serves guests with a descriptor table
/// of their own in front of ours (binaries packed with wasi-vfs), which cannot reach the channel.
pub const PARK_FRAME: &[u8] = b"\0park";

/// Request and reply of one execution, and the park hook.
#[derive(Clone, Debug, Default)]
pub(crate) struct Channel {
    request: Vec<u8>,
    position: usize,
    reply: Vec<u8>,
    cap_bytes: u64,
    parking_allowed: bool,
    park_armed: bool,
}

impl Channel {
    pub(crate) fn new(cap_bytes: u64) -> Self {
        Self { cap_bytes, ..Self::default() }
    }

    pub(crate) fn set_cap_bytes(&mut self, cap_bytes: u64) {
        self.cap_bytes = cap_bytes;
    }

    pub(crate) fn send(&mut self, request: Vec<u8>) {
        self.request = request;
        self.position = 0;
    }

    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.reply)
    }

    /// Appends to the reply. Past the cap (`ENOSPC`) or beyond the room in memory (`ENOMEM`) none of `bytes` is kept.
    pub(crate) fn reply(&mut self, bytes: &[u8], room_bytes: u64) -> Result<(), Errno> {
        if self.heed_park(bytes) {
            return Ok(());
        }
        let needed = u64::try_from(self.reply.len().saturating_add(bytes.len())).unwrap_or(u64::MAX);
        if needed > self.cap_bytes {
            return Err(Errno::NoSpc);
        }
        if needed > held_bytes(&self.reply).saturating_add(room_bytes) {
            return Err(Errno::NoMem);
        }
        append_within(&mut self.reply, bytes, self.cap_bytes, room_bytes);
        Ok(())
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        held_bytes(&self.request).saturating_add(held_bytes(&self.reply))
    }

    pub(crate) fn allow_parking(&mut self, allowed: bool) {
        self.parking_allowed = allowed;
        self.park_armed &= allowed;
    }

    pub(crate) fn parking_allowed(&self) -> bool {
        self.parking_allowed
    }

    /// Arms the park if this is the frame that asks for it and it is allowed.
    pub(crate) fn heed_park(&mut self, bytes: &[u8]) -> bool {
        let asked = self.parking_allowed && bytes == PARK_FRAME;
        self.park_armed |= asked;
        asked
    }

    pub(crate) fn arm_park(&mut self) {
        self.park_armed = true;
    }

    /// Whether the guest is to be parked now; asked once per arming.
    pub(crate) fn take_park(&mut self) -> bool {
        std::mem::take(&mut self.park_armed)
    }
}

impl Source for Channel {
    fn rest_bytes(&self) -> u64 {
        u64::try_from(self.request.len().saturating_sub(self.position)).unwrap_or(u64::MAX)
    }

    fn next(&mut self, len: u32) -> &[u8] {
        let from = self.position;
        self.position = from.saturating_add(size(len)).min(self.request.len());
        self.request.get(from..self.position).unwrap_or_default()
    }
}
