//! The displays device: carries what a script shows out of the guest, pictures and tables for instance.

/// The guest's path of the displays device. It is visible like [`TOOLS_DEVICE`](crate::TOOLS_DEVICE). A write is one display, whose form is
/// between the guest and the embedder; there is nothing to read.
pub const DISPLAYS_DEVICE: &str = "/dev/glovebox/displays";

/// How many displays of one execution are retained, whatever their size: each is an allocation.
pub const MAX_DISPLAYS: usize = 1_000;

/// What one execution wrote to the displays device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The writes that were retained, in order.
    pub messages: Vec<Vec<u8>>,
    /// How many were dropped, each as a whole, because they did not fit.
    pub dropped: u64,
}

/// The device's state.
#[derive(Clone, Debug, Default)]
pub(crate) struct DisplaysDevice {
    shown: Shown,
    bytes: u64,
}

impl DisplaysDevice {
    /// Whether a message of this length is retained. One that is not leaves no gap for smaller ones: what is shown is a prefix.
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

    /// Takes what was shown and starts again.
    pub(crate) fn take(&mut self) -> Shown {
        std::mem::take(self).shown
    }
}
