//! Sessions of the REPL: temporary or stored.

use anyhow::Context as _;
use glovebox::{Execution, Request, Sandbox, Session};
use glovebox_sessions::SessionId;

use super::{dialect::Dialect, last_value};
use crate::stored::ActiveSession;

/// A session with the REPL's own preparation.
#[derive(Debug)]
pub(super) struct ReplSession {
    source: Source,
    /// Number of executions that were not inputs.
    setup_count: u64,
    /// Number of executions before the first input that can be undone.
    pub(super) executions_at_start: u64,
    /// `_` is the value of the last input, not a variable that an input declared.
    pub(super) binds_last_value: bool,
}

/// Kind of a session.
#[derive(Debug)]
enum Source {
    /// Ends with the REPL.
    Temporary(Session),
    /// Saved after each input.
    Stored(Box<ActiveSession>),
}

impl ReplSession {
    /// Creates a session that ends with the REPL.
    pub(super) fn temporary(sandbox: &Sandbox) -> anyhow::Result<Self> {
        Ok(Self::new(Source::Temporary(sandbox.session().context("cannot open a session")?)))
    }

    /// Wraps a stored session.
    pub(super) fn stored(session: ActiveSession) -> Self {
        Self::new(Source::Stored(Box::new(session)))
    }

    fn new(source: Source) -> Self {
        Self { source, setup_count: 0, executions_at_start: 0, binds_last_value: false }
    }

    /// Sets `_` to the value of the last input from now on. A session in which that fails works without `_`.
    pub(super) fn bind_last_value(&mut self, dialect: Dialect) -> anyhow::Result<()> {
        self.binds_last_value = true;
        if dialect == Dialect::Python {
            let session = self.session()?;
            let before = session.info().executions;
            if let Err(error) = session.execute(last_value::PYTHON_SETUP) {
                tracing::debug!(%error, "no last value");
            }
            self.executions_at_start = session.info().executions;
            self.setup_count += self.executions_at_start.saturating_sub(before);
        }
        Ok(())
    }

    /// Returns the number of inputs up to the session's current state.
    pub(super) fn input_count(&self) -> u64 {
        let executions = self.session().map_or(0, |session| session.info().executions);
        executions.saturating_sub(self.setup_count)
    }

    /// Returns the active session.
    pub(super) fn session(&self) -> anyhow::Result<Session> {
        match &self.source {
            Source::Temporary(session) => Ok(session.clone()),
            Source::Stored(stored) => Ok(stored.session()?),
        }
    }

    pub(super) fn run(&self, request: Request<'_>) -> anyhow::Result<Execution> {
        match &self.source {
            Source::Temporary(session) => Ok(session.run(request)?),
            Source::Stored(stored) => Ok(stored.run(request)?),
        }
    }

    /// Saves changes that no execution made.
    pub(super) fn save(&self) -> anyhow::Result<()> {
        match &self.source {
            Source::Temporary(_) => Ok(()),
            Source::Stored(stored) => stored.save().context("cannot save the session"),
        }
    }

    /// Copies this session. The copy is stored if this one is.
    pub(super) fn fork(&self, name: &str) -> anyhow::Result<Self> {
        let source = match &self.source {
            Source::Temporary(session) => Source::Temporary(session.fork().context("cannot fork the session")?),
            Source::Stored(stored) => {
                Source::Stored(Box::new(stored.fork(SessionId::new(name)?).context("cannot fork the session")?))
            }
        };
        Ok(Self { source, ..*self })
    }

    /// Replaces this session by another under the same name.
    pub(super) fn replace(&mut self, other: Session) -> anyhow::Result<()> {
        match &mut self.source {
            Source::Temporary(session) => *session = other,
            Source::Stored(stored) => stored.replace(&other)?,
        }
        (self.setup_count, self.executions_at_start) = (0, 0);
        Ok(())
    }

    /// Describes the remains of a session that ended under its policy.
    pub(super) fn after_its_end(&self) -> &'static str {
        match &self.source {
            Source::Temporary(_) => {
                "the session has ended; `:reset` starts a new one, `:load FILE` restores a saved one"
            }
            Source::Stored(_) => "the session has ended; the next input continues from the state saved before this",
        }
    }

    /// Closes a session that ends with the REPL, and runs its exit handlers.
    pub(super) fn finish(&self) -> anyhow::Result<()> {
        match &self.source {
            Source::Temporary(session) if session.ended().is_none() => {
                session.close().context("cannot close the session")
            }
            _ => Ok(()),
        }
    }
}
