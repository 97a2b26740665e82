//! A guest's standard streams: input, output and error, with the frame that parks the guest. Also the displays device.

use std::{borrow::Cow, sync::Arc};

use crate::memory::size;

/// The output of one execution to one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturedStream {
    /// The first bytes of the output, up to the limit.
    pub bytes: Vec<u8>,
    /// The total number of bytes that the guest wrote.
    pub total_bytes: u64,
    /// `true` if some bytes were dropped.
    pub truncated: bool,
}

impl CapturedStream {
    /// Returns the retained bytes as text, with U+FFFD for bytes that are not UTF-8. If the limit cuts a character in
    /// two, the bytes of that character are omitted.
    pub fn text(&self) -> Cow<'_, str> {
        let retained = if self.truncated { whole_characters(&self.bytes) } else { &self.bytes };
        String::from_utf8_lossy(retained)
    }
}

/// Returns `bytes` without an incomplete UTF-8 sequence at its end.
pub fn whole_characters(bytes: &[u8]) -> &[u8] {
    // An incomplete sequence consists of a lead byte and at most two continuation bytes.
    for back in 1..=3.min(bytes.len()) {
        let at = bytes.len().saturating_sub(back);
        let (Some(&byte), Some(head)) = (bytes.get(at), bytes.get(..at)) else {
            break;
        };
        let wanted = match byte {
            0x80..=0xBF => continue,
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            _ => 1,
        };
        return if wanted > back { head } else { bytes };
    }
    bytes
}

/// The output of one execution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Output to descriptor 1.
    pub stdout: CapturedStream,
    /// Output to descriptor 2.
    pub stderr: CapturedStream,
    /// Output to [`DISPLAYS_DEVICE`](crate::DISPLAYS_DEVICE).
    pub displays: CapturedDisplays,
}

/// A stream's capture buffer.
#[derive(Clone, Debug)]
pub(crate) struct Capture {
    bytes: Vec<u8>,
    total_bytes: u64,
    cap_bytes: u64,
    truncated: bool,
    reported: bool,
}

impl Capture {
    pub(crate) fn new(cap_bytes: u64) -> Self {
        Self { bytes: Vec::new(), total_bytes: 0, cap_bytes, truncated: false, reported: false }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns how many of `len` more bytes will be retained, given `room_bytes` of available memory.
    pub(crate) fn accepts(&self, len: u32, room_bytes: u64) -> u32 {
        // After the first dropped byte, no more bytes are retained, so that the retained output is a prefix of the
        // guest's output.
        if self.truncated {
            return 0;
        }
        let held = held_bytes(&self.bytes);
        let used = u64::try_from(self.bytes.len()).unwrap_or(u64::MAX);
        let spare = held.saturating_sub(used);
        // `append` doubles the buffer and falls back to an exact fit, so all room is usable.
        let room = spare.saturating_add(room_bytes);
        let keep = u64::from(len).min(self.cap_bytes.saturating_sub(used)).min(room);
        u32::try_from(keep).unwrap_or(len)
    }

    /// Appends `bytes`, whose length [`Self::accepts`] must have allowed for the same `room_bytes`.
    pub(crate) fn append(&mut self, bytes: &[u8], room_bytes: u64) {
        append_within(&mut self.bytes, bytes, self.cap_bytes, room_bytes);
    }

    /// Counts bytes that the guest wrote, and records whether all of them were retained.
    pub(crate) fn count(&mut self, written: u32, retained: u32) {
        self.total_bytes = self.total_bytes.saturating_add(u64::from(written));
        self.truncated |= retained < written;
    }

    pub(crate) fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Discards everything after the first `total_bytes`.
    pub(crate) fn shorten(&mut self, total_bytes: u64) {
        self.total_bytes = self.total_bytes.min(total_bytes);
        let length = usize::try_from(total_bytes).unwrap_or(usize::MAX);
        if length <= self.bytes.len() {
            // No byte before this position was dropped.
            self.bytes.truncate(length);
            self.truncated = false;
        }
    }

    /// Returns the total number of written bytes if output was lost and the loss was not yet reported.
    pub(crate) fn take_loss(&mut self) -> Option<u64> {
        if self.truncated && !self.reported {
            self.reported = true;
            return Some(self.total_bytes);
        }
        None
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        held_bytes(&self.bytes)
    }

    pub(crate) fn set_cap_bytes(&mut self, cap_bytes: u64) {
        self.cap_bytes = cap_bytes;
    }

    /// Takes the output and resets the buffer.
    pub(crate) fn take(&mut self) -> CapturedStream {
        let taken = CapturedStream {
            bytes: std::mem::take(&mut self.bytes),
            total_bytes: self.total_bytes,
            truncated: self.truncated,
        };
        self.total_bytes = 0;
        self.truncated = false;
        self.reported = false;
        taken
    }
}

/// Returns the allocated size of a buffer in bytes.
pub(crate) fn held_bytes(buffer: &Vec<u8>) -> u64 {
    u64::try_from(buffer.capacity()).unwrap_or(u64::MAX)
}

/// Appends bytes. The buffer grows by doubling, but never beyond `cap_bytes`, nor by more than `room_bytes` unless
/// `bytes` requires it.
pub(crate) fn append_within(buffer: &mut Vec<u8>, bytes: &[u8], cap_bytes: u64, room_bytes: u64) {
    let needed = buffer.len().saturating_add(bytes.len());
    if needed > buffer.capacity() {
        let cap = usize::try_from(cap_bytes).unwrap_or(usize::MAX);
        let room = usize::try_from(room_bytes).unwrap_or(usize::MAX);
        let wanted = buffer.capacity().saturating_mul(2).min(cap).min(buffer.capacity().saturating_add(room));
        buffer.reserve_exact(wanted.max(needed).saturating_sub(buffer.len()));
    }
    buffer.extend_from_slice(bytes);
}

/// Bytes that are read once, from the beginning.
pub(crate) trait Source {
    /// Returns the number of remaining bytes.
    fn rest_bytes(&self) -> u64;

    /// Returns the next bytes, at most `len`.
    fn next(&mut self, len: u32) -> &[u8];
}

/// The provided bytes and the guest's position in them. End of file follows the bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stdin {
    // Shared, because a fork of the instance reads the same bytes.
    bytes: Arc<[u8]>,
    position: usize,
    /// The number of bytes that were read before `bytes`.
    read_before: u64,
}

impl Stdin {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self::resumed(0, bytes)
    }

    /// Restores the remaining input after `read_before` bytes have been read.
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

/// The frame that requests parking. A guest writes the frame to standard error in a single call, and is then parked at
/// the next `fd_fdstat_get(0)`. The frame is recognized only while the embedder allows parking. A recognized frame is
/// not part of the output. Every binary can write to standard error, even one with its own descriptor table (such as
/// those packed with wasi-vfs).
pub const PARK_FRAME: &[u8] = b"\0park";

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Park {
    allowed: bool,
    armed: bool,
}

impl Park {
    pub(crate) fn allow(&mut self, allowed: bool) {
        self.allowed = allowed;
        self.armed &= allowed;
    }

    pub(crate) fn is_allowed(self) -> bool {
        self.allowed
    }

    /// Arms parking if it is allowed and the bytes are the frame that requests it.
    pub(crate) fn check_frame(&mut self, bytes: &[u8]) -> bool {
        let is_park_frame = self.allowed && bytes == PARK_FRAME;
        self.armed |= is_park_frame;
        is_park_frame
    }

    /// Returns `true` if the guest must be parked now, and disarms parking.
    pub(crate) fn take(&mut self) -> bool {
        std::mem::take(&mut self.armed)
    }
}

/// The displays device's path in the guest. Guests reach the device in the same way as
/// [`TOOLS_DEVICE`](crate::TOOLS_DEVICE). Each write is one display, in a format defined by the guest's driver and the
/// embedder. Reads return nothing.
pub const DISPLAYS_DEVICE: &str = "/dev/glovebox/displays";

/// Maximum number of displays retained per execution, regardless of their size. Each display is an allocation.
pub const MAX_DISPLAYS: usize = 1_000;

/// The displays of one execution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturedDisplays {
    /// The retained displays, in order.
    pub messages: Vec<Vec<u8>>,
    /// The number of dropped displays. A display that does not fit is dropped completely.
    pub dropped: u64,
}

/// The state of [`DISPLAYS_DEVICE`].
#[derive(Clone, Debug, Default)]
pub(crate) struct DisplaysDevice {
    shown: CapturedDisplays,
    bytes: u64,
}

impl DisplaysDevice {
    /// Returns `true` if a message of this length is retained. After the first dropped message, all later messages are
    /// dropped, so that the retained messages are a prefix.
    pub(crate) fn accepts(&self, len: u64, cap_bytes: u64, room_bytes: u64) -> bool {
        self.shown.dropped == 0
            && self.shown.messages.len() < MAX_DISPLAYS
            && self.bytes.saturating_add(len) <= cap_bytes
            && len <= room_bytes
    }

    pub(crate) fn keep(&mut self, message: Vec<u8>) {
        self.bytes = self.bytes.saturating_add(u64::try_from(message.capacity()).unwrap_or(u64::MAX));
        self.shown.messages.push(message);
    }

    pub(crate) fn drop_one(&mut self) {
        self.shown.dropped = self.shown.dropped.saturating_add(1);
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes the displays and resets the device.
    pub(crate) fn take(&mut self) -> CapturedDisplays {
        std::mem::take(self).shown
    }
}
