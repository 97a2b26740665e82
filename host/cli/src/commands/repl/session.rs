//! Sessions of the REPL, temporary or stored: undoing inputs, and printing a running input's output.

use std::{
    borrow::Cow,
    io::{self, Write as _},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anstyle::{AnsiColor, Style};
use anyhow::Context as _;
use glovebox::{CancelToken, Checkpoints, Execution, Request, Session, Stream};
use glovebox_sessions::SessionId;

use super::{
    last_value::{self, unwrapped},
    tokens::Dialect,
};
use crate::{
    output::Passthrough,
    session_dir::ActiveSession,
    terminal::{HintedError, format_count},
};

/// A session, and the REPL's own data about it.
#[derive(Debug)]
pub(super) struct ReplSession {
    source: Source,
    /// The number of executions that were not inputs.
    setup_count: u64,
    /// The number of executions before the first input that can be undone.
    pub(super) executions_at_start: u64,
    /// `true` if `_` is the value of the last input, not a variable that an input declared.
    pub(super) binds_last_value: bool,
}

/// A temporary or stored session.
#[derive(Debug)]
pub(super) enum Source {
    /// A session that ends with the REPL.
    Temporary(Session),
    /// A session that is saved after each input.
    Stored(Box<ActiveSession>),
}

impl ReplSession {
    pub(super) fn new(source: Source) -> Self {
        Self { source, setup_count: 0, executions_at_start: 0, binds_last_value: false }
    }

    /// Sets `_` to the value of each later input. If this fails, the session works without `_`.
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

    /// Saves changes that were not made by an execution, if the session is stored.
    pub(super) fn save(&self) -> anyhow::Result<()> {
        match &self.source {
            Source::Temporary(_) => Ok(()),
            Source::Stored(stored) => stored.save().context("cannot save the session"),
        }
    }

    /// Copies this session. A copy of a stored session is stored, too.
    pub(super) fn fork(&self, name: &str) -> anyhow::Result<Self> {
        let source = match &self.source {
            Source::Temporary(session) => Source::Temporary(session.fork().context("cannot fork the session")?),
            Source::Stored(stored) => {
                Source::Stored(Box::new(stored.fork(SessionId::new(name)?).context("cannot fork the session")?))
            }
        };
        Ok(Self { source, ..*self })
    }

    /// Replaces this session with `other`, under the same name.
    pub(super) fn replace(&mut self, other: Session) -> anyhow::Result<()> {
        match &mut self.source {
            Source::Temporary(session) => *session = other,
            Source::Stored(stored) => stored.replace(&other)?,
        }
        (self.setup_count, self.executions_at_start) = (0, 0);
        Ok(())
    }

    /// Returns a message that says how to continue after the policy has ended the session.
    pub(super) fn after_its_end(&self) -> &'static str {
        match &self.source {
            Source::Temporary(_) => {
                "the session has ended; `:reset` starts a new one, `:load FILE` restores a saved one"
            }
            Source::Stored(_) => {
                "the session has ended; the next input continues from the state saved before this input"
            }
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

/// Creates a checkpoint before an input, if the policy takes one before every execution of a session of this size.
/// There is only one automatic checkpoint, so undoing several inputs needs explicit checkpoints.
pub(super) fn remember(session: &Session) -> anyhow::Result<()> {
    let policy = &session.sandbox().policy().session;
    let is_due = match policy.checkpoints {
        Checkpoints::Always => true,
        Checkpoints::Auto => session.info().private_bytes <= policy.checkpoint_auto_bytes,
        Checkpoints::Every(_) | Checkpoints::Never => false,
    };
    if is_due && session.ended().is_none() {
        session.checkpoint().context("cannot save the session before running the input")?;
    }
    Ok(())
}

/// Undoes `count` inputs, or more if there is no checkpoint at exactly that point. Returns a description. The state
/// after `executions_at_start` executions is the earliest state that can be restored.
pub(super) fn undo(session: &Session, count: u64, executions_at_start: u64) -> anyhow::Result<String> {
    let executions = session.info().executions;
    let mut checkpoints = session.checkpoints()?;
    checkpoints.retain(|checkpoint| checkpoint.executions >= executions_at_start);
    let reached = checkpoints.iter().rev().find(|checkpoint| checkpoint.executions.saturating_add(count) <= executions);
    let Some(checkpoint) = reached else {
        let max = checkpoints.first().map_or(0, |first| executions.saturating_sub(first.executions));
        return Err(HintedError::new(
            format!("{} cannot be undone", format_count(count, "input")),
            match max {
                0 => "there is nothing to undo".to_owned(),
                max => format!("`:undo {max}` is the maximum; `checkpoints_retained` under `[session]` in a policy file sets how many checkpoints are retained"),
            },
        )
        .into());
    };
    session.undo_to(checkpoint.id).context("cannot roll the session back")?;
    let undone = executions - checkpoint.executions;
    Ok(format!("undid {}", format_count(undone, "input")))
}

const ERROR: Style = AnsiColor::Red.on_default();

/// A printer of one input's output. Clones print the output of the same input.
#[derive(Clone)]
pub(super) struct Printer {
    pub(super) output: Passthrough,
    /// Stops the input.
    pub(super) cancel: CancelToken,
    /// `true` if the output goes to a terminal.
    pub(super) is_terminal: bool,
    /// `true` if control characters reach the terminal unescaped.
    pub(super) is_raw: bool,
    /// `true` if the input may be wrapped, so that [`unwrapped`] must restore names and columns in its errors.
    pub(super) unwraps: bool,
    pub(super) has_ended_echo: Arc<AtomicBool>,
}

impl Printer {
    pub(super) fn write(&self, stream: Stream, bytes: &[u8]) {
        self.end_echo();
        match stream {
            Stream::Stdout => self.output.write(stream, bytes),
            _ => self.write_error(stream, bytes),
        }
    }

    /// Flushes the output. Returns the error that prevented writing it.
    pub(super) fn finish(&self) -> Option<io::Error> {
        self.end_echo();
        self.output.finish()
    }

    /// Ends the line on which the terminal echoed `^C`.
    fn end_echo(&self) {
        let is_echoed = self.is_terminal && self.cancel.is_cancelled();
        if is_echoed && !self.has_ended_echo.swap(true, Ordering::Relaxed) {
            let _ = io::stderr().write_all(b"\n");
        }
    }

    fn write_error(&self, stream: Stream, bytes: &[u8]) {
        let bytes = if self.unwraps { Cow::Owned(unwrapped(bytes)) } else { Cow::Borrowed(bytes) };
        if self.is_terminal && !self.is_raw {
            // Errors are ignored: a script continues without standard error.
            let _ = write!(anstream::stderr(), "{ERROR}");
            self.output.write(stream, &bytes);
            let _ = write!(anstream::stderr(), "{ERROR:#}");
        } else {
            self.output.write(stream, &bytes);
        }
    }
}
