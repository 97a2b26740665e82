//! Parking: a guest's request to be stopped for a snapshot.

/// The frame that the guest writes to standard error, in one call, to be parked at the next `fd_fdstat_get(0)`. It is
/// recognized only while the embedder allows it, and is then not part of the output. Every binary can reach standard
/// error, even one with its own descriptor table (such as those packed with wasi-vfs).
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

    /// Arms the park if this is the frame that requests it and parking is allowed.
    pub(crate) fn check_frame(&mut self, bytes: &[u8]) -> bool {
        let asked = self.allowed && bytes == PARK_FRAME;
        self.armed |= asked;
        asked
    }

    pub(crate) fn arm(&mut self) {
        self.armed = true;
    }

    /// Returns whether to park the guest now. `true` once per arming.
    pub(crate) fn take(&mut self) -> bool {
        std::mem::take(&mut self.armed)
    }
}
