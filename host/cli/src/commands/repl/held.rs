//! A session of the REPL: its own, or one that is kept in a directory.

use anyhow::Context as _;
use glovebox::{Execution, Request, Sandbox, Session, SessionId};

use crate::kept::Awake;

/// A session.
#[derive(Debug)]
pub(super) enum Held {
    /// It ends with the REPL.
    Own(Session),
    /// It is saved after each input.
    Kept(Box<Awake>),
}

impl Held {
    pub(super) fn own(sandbox: &Sandbox) -> anyhow::Result<Self> {
        Ok(Self::Own(sandbox.session().context("cannot open a session")?))
    }

    /// The live session.
    pub(super) fn session(&self) -> anyhow::Result<Session> {
        match self {
            Self::Own(session) => Ok(session.clone()),
            Self::Kept(kept) => Ok(kept.session()?),
        }
    }

    pub(super) fn run(&self, request: Request<'_>) -> anyhow::Result<Execution> {
        match self {
            Self::Own(session) => Ok(session.run(request)?),
            Self::Kept(kept) => Ok(kept.run(request)?),
        }
    }

    /// Saves what was done other than by running something.
    pub(super) fn save(&self) -> anyhow::Result<()> {
        match self {
            Self::Own(_) => Ok(()),
            Self::Kept(kept) => kept.save().context("cannot save the session"),
        }
    }

    /// A second session like this one, kept if this is.
    pub(super) fn fork(&self, name: &str) -> anyhow::Result<Self> {
        let fork = match self {
            Self::Own(session) => Self::Own(session.fork().context("cannot fork the session")?),
            Self::Kept(kept) => {
                Self::Kept(Box::new(kept.fork(SessionId::new(name)?).context("cannot fork the session")?))
            }
        };
        Ok(fork)
    }

    /// Puts another session in the place of this one, under the same name.
    pub(super) fn replace(&mut self, other: Session) -> anyhow::Result<()> {
        match self {
            Self::Own(session) => *session = other,
            Self::Kept(kept) => kept.replace(&other)?,
        }
        Ok(())
    }

    /// What is left of a session that the policy has ended.
    pub(super) fn after_its_end(&self) -> &'static str {
        match self {
            Self::Own(_) => "the session has ended; `:reset` begins again, `:load FILE` brings a saved one back",
            Self::Kept(_) => "the session has ended; the next input goes on with what was saved before this",
        }
    }

    /// Ends what does not outlast the REPL: its exit handlers run.
    pub(super) fn finish(&self) -> anyhow::Result<()> {
        match self {
            Self::Own(session) if session.ended().is_none() => session.close().context("cannot close the session"),
            _ => Ok(()),
        }
    }
}
