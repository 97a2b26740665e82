//! A guest's standard output and standard error.

use std::borrow::Cow;

use crate::displays::Shown;

/// The output of one execution to one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// The first bytes, up to the cap.
    pub bytes: Vec<u8>,
    /// Total bytes that the guest wrote.
    pub total_bytes: u64,
    /// `true` if some bytes were dropped.
    pub truncated: bool,
}

impl Captured {
    /// Returns the retained bytes as text, with U+FFFD for bytes that are not UTF-8. A character that the cap cut in
    /// two is omitted rather than shown as damaged.
    pub fn text(&self) -> Cow<'_, str> {
        let retained = if self.truncated { whole_characters(&self.bytes) } else { &self.bytes };
        String::from_utf8_lossy(retained)
    }
}

/// Returns `bytes` without an incomplete UTF-8 sequence at its end.
pub fn whole_characters(bytes: &[u8]) -> &[u8] {
    // An incomplete sequence is a lead byte and at most two continuation bytes.
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
    pub stdout: Captured,
    /// Output to descriptor 2.
    pub stderr: Captured,
    /// Output to [`DISPLAYS_DEVICE`](crate::DISPLAYS_DEVICE).
    pub displays: Shown,
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

    /// Returns how many of `len` more bytes will be retained, given `room_bytes` of memory.
    pub(crate) fn accepts(&self, len: u32, room_bytes: u64) -> u32 {
        // After the first loss, no bytes are retained: the output is a prefix, not a selection.
        if self.truncated {
            return 0;
        }
        let held = held_bytes(&self.bytes);
        let used = u64::try_from(self.bytes.len()).unwrap_or(u64::MAX);
        let spare = held.saturating_sub(used);
        // `append` doubles the buffer and falls back to an exact fit, so any byte of room is usable.
        let room = spare.saturating_add(room_bytes);
        let keep = u64::from(len).min(self.cap_bytes.saturating_sub(used)).min(room);
        u32::try_from(keep).unwrap_or(len)
    }

    /// Appends `bytes`, as many as [`Self::accepts`] allowed, within `room_bytes`.
    pub(crate) fn append(&mut self, bytes: &[u8], room_bytes: u64) {
        append_within(&mut self.bytes, bytes, self.cap_bytes, room_bytes);
    }

    /// Counts the bytes that the guest wrote, and records whether all of them were retained.
    pub(crate) fn count(&mut self, written: u32, retained: u32) {
        self.total_bytes = self.total_bytes.saturating_add(u64::from(written));
        self.truncated |= retained < written;
    }

    /// Returns the total if output was lost since the last call.
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

    /// Takes the output and starts again.
    pub(crate) fn take(&mut self) -> Captured {
        let taken = Captured {
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

/// Returns the bytes that a buffer occupies, filled or not.
pub(crate) fn held_bytes(buffer: &Vec<u8>) -> u64 {
    u64::try_from(buffer.capacity()).unwrap_or(u64::MAX)
}

/// Appends, growing by doubling but never beyond `cap_bytes`, nor by more than `room_bytes` unless `bytes` needs it.
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
