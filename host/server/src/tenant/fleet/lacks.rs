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
            Self::Fork => "forking sessions",
            Self::Export => "exporting sessions",
            Self::Import => "importing sessions",
            Self::Hibernate => "hibernating sessions",
            Self::Stepping => "tools without a `callback`",
        }
    }

    /// The alternative to suggest.
    fn instead(self) -> &'static str {
        match self {
            Self::Files => "read and write them in scripts of the session; pass input in `stdin` and `context`",
            Self::Variables => "print them in a script of the session, or set them from `context`",
            Self::Checkpoints => "`undo` without a `checkpoint` restores the state before the last execution",
            Self::Fork => "open another session and execute the same scripts in it",
            Self::Export | Self::Import => "use a server with a store of its own (`--store`)",
            Self::Hibernate => "not needed, because each state is stored before it is answered",
            Self::Stepping => "set a `callback` for each tool of a session, or execute outside of a session",
        }
    }
}

impl fmt::Display for NotInFleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a fleet does not support {}: {}", self.what(), self.instead())
    }
}
