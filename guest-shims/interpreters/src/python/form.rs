//! The two kinds of binaries.

use super::object::{IMMORTAL, IMMORTAL_SINCE_3_14};

/// The kind of a binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A command, 3.12: it runs a script and exits, and is parked before its exit.
    Command,
    /// A reactor, 3.15: its functions create an interpreter, run code in it, and return.
    Reactor,
}

impl Form {
    /// Returns the reference count of an object that is never freed.
    pub(super) fn immortal(self) -> u32 {
        match self {
            Self::Command => IMMORTAL,
            Self::Reactor => IMMORTAL_SINCE_3_14,
        }
    }
}
