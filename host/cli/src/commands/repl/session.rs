//! A session of the REPL: a temporary one, or one stored in a directory.

use anyhow::Context as _;
use glovebox::{Execution, Request, Sandbox, Session, SessionId};

use crate::stored::ActiveSession;

/// A session.
#[derive(Debug)]
pub(super) enum ReplSession {
    /// It ends with the REPL.
    Temporary(Session),
    /// It is saved after each input.
    Stored(Box<ActiveSession>),
}

impl ReplSession {
    pub(super) fn temporary(sandbox: &Sandbox) -> anyhow::Result<Self> {
        Ok(Self::Temporary(sandbox.session().context("cannot open a session")?))
    }

    /// The active session.
    pub(super) fn session(&self) -> anyhow::Result<Session> {
        match self {
            Self::Temporary(session) => Ok(session.clone()),
            Self::Stored(stored) => Ok(stored.session()?),
        }
    }

    pub(super) fn run(&self, request: Request<'_>) -> anyhow::Result<Execution> {
        match self {
            Self::Temporary(session) => Ok(session.run(request)?),
            Self::Stored(stored) => Ok(stored.run(request)?),
        }
    }

    /// Saves changes that were not made by running something.
    pub(super) fn save(&self) -> anyhow::Result<()> {
        match self {
            Self::Temporary(_) => Ok(()),
            Self::Stored(stored) => stored.save().context("cannot save the session"),
        }
    }

    /// A copy of this session, stored if this one is.
    pub(super) fn fork(&self, name: &str) -> anyhow::Result<Self> {
        let fork = match self {
            Self::Temporary(session) => Self::Temporary(session.fork().context("cannot fork the session")?),
            Self::Stored(stored) => {
                Self::Stored(Box::new(stored.fork(SessionId::new(name)?).context("cannot fork the session")?))
            }
        };
        Ok(fork)
    }

    /// Replaces this session by another under the same name.
    pub(super) fn replace(&mut self, other: Session) -> anyhow::Result<()> {
        match self {
            Self::Temporary(session) => *session = other,
            Self::Stored(stored) => stored.replace(&other)?,
        }
        Ok(())
    }

    /// What remains of a session that ended under its policy.
    pub(super) fn after_its_end(&self) -> &'static str {
        match self {
            Self::Temporary(_) => "the session has ended; `:reset` starts a new one, `:load FILE` restores a saved one",
            Self::Stored(_) => "the session has ended; the next input continues from the state saved before this",
        }
    }

    /// Closes a session that ends with the REPL: its exit handlers run.
    pub(super) fn finish(&self) -> anyhow::Result<()> {
        match self {
            Self::Temporary(session) if session.ended().is_none() => {
                session.close().context("cannot close the session")
            }
            _ => Ok(()),
        }
    }
}
