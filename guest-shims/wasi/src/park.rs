//! How a guest asks to be stopped for a snapshot.

/// The frame that the guest writes to standard error, in one call, to be parked at the next `fd_fdstat_get(0)`. It is
/// only recognized while the embedder allows it, and then it is not output. It goes to standard error because every
/// binary can reach that, even one with its own descriptor table (those packed with wasi-vfs).
pub const PARK_FRAME: &[u8] = b"\0park";

/// The state of parking.
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

    /// Arms the park if this is the frame that asks for it and it is allowed.
    pub(crate) fn check_frame(&mut self, bytes: &[u8]) -> bool {
        let asked = self.allowed && bytes == PARK_FRAME;
        self.armed |= asked;
        asked
    }

    pub(crate) fn arm(&mut self) {
        self.armed = true;
    }

    /// Whether to park the guest now; true once per arming.
    pub(crate) fn take(&mut self) -> bool {
        std::mem::take(&mut self.armed)
    }
}
