//! Executions that are stepped through.

use std::{io::BufRead, time::Duration};

use crate::{
    CallFailure, Error, Execution, Files, OutputStream, Step, ToolAnswer, ToolRequest,
    bindings::glovebox::sandbox::sandbox as raw, reader::Pieces, request::milliseconds,
};

/// An execution that the component steps through.
///
/// It runs whether or not somebody waits for it; its limits apply from its start, and time between two steps counts.
/// Dropping it cancels it.
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
    /// Passes answers, and waits until the execution has ended or needs others.
    ///
    /// Unanswered calls are returned again; an answer to a call that is not outstanding is ignored. Once the result is
    /// [`Step::Done`], every further step returns the same execution.
    ///
    /// # Errors
    /// [`Error::SessionEnded`]; [`Error::InvalidArgument`] for an answer with an unknown id or that is not JSON: then
    /// no answer is taken.
    pub fn step(&self, answers: &[ToolAnswer]) -> Result<Step, Error> {
        Ok(self.raw.continue_(answers, None)?)
    }

    /// Like [`step`](Self::step), but waits at most this long, rounded up to the millisecond: then the result is
    /// [`Step::Running`], or [`Step::NeedsTools`] if calls are unanswered, even if the script does something else
    /// meanwhile.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn step_within(&self, wait: Duration, answers: &[ToolAnswer]) -> Result<Step, Error> {
        Ok(self.raw.continue_(answers, Some(milliseconds(wait)))?)
    }

    /// Waits until the execution has ended, and answers each of its calls with `tool`, one after the other: with JSON
    /// text, or with a failure that the script gets as an exception.
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

    /// Waits until the execution has ended, without tools of the component: a call of one fails.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn finish(&self) -> Result<Execution, Error> {
        self.finish_with(|call| Err(format!("nobody answers `{}`", call.name).into()))
    }

    /// The script's output so far, from `offset` on, at most `len` bytes and at most 16,777,216; empty at its current
    /// end.
    #[must_use]
    pub fn read_output(&self, stream: OutputStream, offset: u64, len: u64) -> Vec<u8> {
        self.raw.read_output(stream, offset, len)
    }

    /// Reads output from the beginning. At its current end a read returns nothing; a later one may return more.
    pub fn output(&self, stream: OutputStream) -> impl BufRead + '_ {
        Pieces::new(move |offset, len| Ok(self.raw.read_output(stream, offset, len)))
    }

    /// The files after the execution, for one outside a session.
    ///
    /// # Errors
    /// [`Error::SessionBusy`] before it is done; [`Error::Unsupported`] in a session.
    pub fn files(&self) -> Result<Files, Error> {
        Ok(Files { raw: self.raw.files()? })
    }

    /// Cancels the execution: the script gets an exception and a moment to clean up, then it is unwound. Cancelling
    /// again, or after its end, has no effect.
    pub fn cancel(&self) {
        self.raw.cancel();
    }
}
