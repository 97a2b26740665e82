//! The displays device, which carries displayed objects such as pictures and tables out of the guest.

/// The guest's path of the displays device. It is visible like [`TOOLS_DEVICE`](crate::TOOLS_DEVICE). A write is one
/// display, in a format defined by the guest's driver and the embedder. Reads return nothing.
pub const DISPLAYS_DEVICE: &str = "/dev/glovebox/displays";

/// Maximum number of retained displays of one execution, regardless of their size, because each is an allocation.
pub const MAX_DISPLAYS: usize = 1_000;

/// The displays of one execution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The retained writes, in order.
    pub messages: Vec<Vec<u8>>,
    /// The number of displays that were dropped as a whole because they did not fit.
    pub dropped: u64,
}

/// The device's state.
#[derive(Clone, Debug, Default)]
pub(crate) struct DisplaysDevice {
    shown: Shown,
    bytes: u64,
}

impl DisplaysDevice {
    /// Returns whether a message of this length is retained. After the first dropped message all others are dropped, so
    /// the retained ones are a prefix.
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

    /// Takes the displays and starts again.
    pub(crate) fn take(&mut self) -> Shown {
        std::mem::take(self).shown
    }
}
