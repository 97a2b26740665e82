//! Executions that are stepped through.

use std::{io::BufRead, time::Duration};

use crate::{
    CallFailure, Error, Execution, Files, OutputStream, Step, ToolAnswer, ToolRequest,
    bindings::glovebox::sandbox::sandbox as raw, reader::Pieces, request::milliseconds,
};

/// An execution that the component steps through.
///
/// It runs by itself, whether or not somebody waits for it; its limits hold from its beginning, and time between two steps is on its
/// bill. Dropping it cancels it.
///
/// ```no_run
/// use glovebox_guest::{Sandbox, Tool};
///
/// # fn main() -> Result<(), glovebox_guest::Error> {
/// let tools = [Tool::new("now", "The time, in the words of a clock.")];
/// let started = Sandbox::python().start("print(tools.now())", &tools)?;
/// let run = started.finish_with(|call| match call.name.as_str() {
///     "now" => Ok("\"half past six\"".into()),
///     other => Err(format!("there is no `{other}`").into()),
/// })?;
/// println!("{}", run.stdout.text());
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Started {
    pub(crate) raw: raw::Started,
}

impl Started {
    /// Gives answers, and waits until the execution has ended or needs others.
    ///
    /// Calls that were left unanswered are told again; an answer to a call that has none outstanding is ignored. Once it is
    /// [`Step::Done`], it is so with the same execution each time.
    ///
    /// # Errors
    /// [`Error::SessionEnded`]; [`Error::InvalidArgument`] for an answer with an id that no call had, or
    /// that is no JSON: then no answer is taken.
    pub fn step(&self, answers: &[ToolAnswer]) -> Result<Step, Error> {
        Ok(self.raw.continue_(answers, None)?)
    }

    /// As [`step`](Self::step), but waits no longer than this, to the millisecond, rounded up: then it is [`Step::Running`], or
    /// [`Step::NeedsTools`] where calls have no answer, also of a script that does something else meanwhile.
    ///
    /// # Errors
    /// As there.
    pub fn step_within(&self, wait: Duration, answers: &[ToolAnswer]) -> Result<Step, Error> {
        Ok(self.raw.continue_(answers, Some(milliseconds(wait)))?)
    }

    /// Waits until the execution has ended, and answers each of its calls by `tool`, one after the other: with JSON text, or with a
    /// failure that the script gets as an exception.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn finish_with(
        &self,
        mut tool: impl FnMut(&ToolRequest) -> Result<String, CallFailure>,
    ) -> Result<Execution, Error> {
        let mut answers = Vec::new();
        loop {
            match self.step(&answers)? {
                Step::Done(execution) => return Ok(execution),
                Step::NeedsTools(calls) => answers = calls.iter().map(|call| call.answer(tool(call))).collect(),
                Step::Running => answers.clear(),
            }
        }
    }

    /// Waits until the execution has ended, for one without tools of the component's: a call of one fails.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn finish(&self) -> Result<Execution, Error> {
        self.finish_with(|call| Err(format!("nobody answers `{}`", call.name).into()))
    }

    /// What the script has written so far, from `offset` on, at most `len` bytes and at most 16,777,216; none at the end of what is
    /// there.
    #[must_use]
    pub fn read_output(&self, stream: OutputStream, offset: u64, len: u64) -> Vec<u8> {
        self.raw.read_output(stream, offset, len)
    }

    /// Reads output from the beginning. At the end of what is there it reads nothing; later, perhaps more.
    pub fn output(&self, stream: OutputStream) -> impl BufRead + '_ {
        Pieces::new(move |offset, len| Ok(self.raw.read_output(stream, offset, len)))
    }

    /// The files as the execution left them, for one outside a session.
    ///
    /// # Errors
    /// [`Error::SessionBusy`] before it is done; [`Error::Unsupported`] in a session.
    pub fn files(&self) -> Result<Files, Error> {
        Ok(Files { raw: self.raw.files()? })
    }

    /// Stops it: the script gets an exception and a moment to clean up, then it is unwound. Cancelling again, or after its end, does
    /// nothing.
    pub fn cancel(&self) {
        self.raw.cancel();
    }
}
