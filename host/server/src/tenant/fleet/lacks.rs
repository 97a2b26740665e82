//! Operations that a fleet does not support.

use std::fmt;

/// An operation on stored sessions that fleet sessions do not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotInFleet {
    /// Reading or changing files, or having them returned.
    Files,
    /// Getting and setting variables.
    Variables,
    /// Named checkpoints.
    Checkpoints,
    /// Forking a session.
    Fork,
    /// Exporting a session.
    Export,
    /// Importing a session.
    Import,
    /// Releasing a session's memory.
    Hibernate,
    /// Tools that the caller answers.
    Stepping,
}

impl NotInFleet {
    /// The operation, as messages name it.
    fn what(self) -> &'static str {
        match self {
            Self::Files => "files of sessions",
            Self::Variables => "variables of sessions",
            Self::Checkpoints => "checkpoints",
            Self::Fork => "copies of sessions",
            Self::Export => "sessions as bytes",
            Self::Import => "sessions of bytes",
            Self::Hibernate => "hibernating sessions",
            Self::Stepping => "tools without a `callback`",
        }
    }

    /// The alternative to suggest.
    fn instead(self) -> &'static str {
        match self {
            Self::Files => {
                "have scripts of the session read and write them: `stdin` and `context` bring in what they need"
            }
            Self::Variables => "have a script of the session print it, or set it from `context`",
            Self::Checkpoints => "`undo` without a `checkpoint` sets a session back to before its last execution",
            Self::Fork => "open another session and execute the same in it",
            Self::Export | Self::Import => "ask a server that has a store of its own (`--store`)",
            Self::Hibernate => "there is no need to: each state is in the store before it is answered",
            Self::Stepping => {
                "give each tool of a session the address of a service that answers it, or execute outside of a session"
            }
        }
    }
}

impl fmt::Display for NotInFleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a fleet does not have {}: {}", self.what(), self.instead())
    }
}
