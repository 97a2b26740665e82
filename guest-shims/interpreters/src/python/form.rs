//! The two kinds of binaries.

/// What a binary is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A command, 3.12: it runs a script and ends, and is parked before it does.
    Command,
    /// A reactor, 3.15: its functions make an interpreter and run code in it, and return.
    Reactor,
}
