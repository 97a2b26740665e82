//! Executions that are stepped through, the tools of the component, and their answers.

use std::{io::BufRead, time::Duration};

use crate::{
    CallFailure, Error, Execution, Files, OutputStream, Step, Tool, ToolAnswer, ToolError, ToolRequest,
    bindings::glovebox::sandbox::sandbox as raw, files::Pieces, policy::milliseconds,
};

/// An execution that the component steps through.
///
/// The execution runs whether or not the component waits for it. Its limits apply from the start, and the time between
/// two steps counts. Dropping the handle cancels the execution.
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
    /// Passes answers, and waits until the execution has ended or needs further answers.
    ///
    /// Unanswered calls are returned again; an answer to a call that is not outstanding is ignored. Once the result is
    /// [`Step::Done`], every further step returns the same execution.
    ///
    /// # Errors
    /// [`Error::SessionEnded`]; [`Error::InvalidArgument`] for an answer with an unknown id or that is not JSON: no
    /// answer of the list is then used.
    pub fn step(&self, answers: &[ToolAnswer]) -> Result<Step, Error> {
        Ok(self.raw.continue_(answers, None)?)
    }

    /// Like [`step`](Self::step), but waits at most `wait`, rounded up to the millisecond. After that, the result is
    /// [`Step::Running`], or [`Step::NeedsTools`] if calls are unanswered, even while the script is busy with other
    /// work.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn step_within(&self, wait: Duration, answers: &[ToolAnswer]) -> Result<Step, Error> {
        Ok(self.raw.continue_(answers, Some(milliseconds(wait)))?)
    }

    /// Waits until the execution has ended, and answers its calls one at a time with `tool`: with JSON text, or with a
    /// failure that becomes an exception in the script.
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

    /// Waits until the execution has ended, without tools of the component: every call of such a tool fails.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn finish(&self) -> Result<Execution, Error> {
        self.finish_with(|call| {
            Err(format!("no handler for tool `{}`; use `finish_with` to answer its calls", call.name).into())
        })
    }

    /// Returns the script's output so far, from `offset` on, at most `len` bytes and at most 16,777,216; empty at the
    /// current end.
    #[must_use]
    pub fn read_output(&self, stream: OutputStream, offset: u64, len: u64) -> Vec<u8> {
        self.raw.read_output(stream, offset, len)
    }

    /// Returns a reader of the output from the beginning. At the current end a read returns nothing; a later read may
    /// return more.
    pub fn output(&self, stream: OutputStream) -> impl BufRead + '_ {
        Pieces::new(move |offset, len| Ok(self.raw.read_output(stream, offset, len)))
    }

    /// Returns the files that an execution outside a session left.
    ///
    /// # Errors
    /// [`Error::SessionBusy`] before the execution is done; [`Error::Unsupported`] in a session.
    pub fn files(&self) -> Result<Files, Error> {
        Ok(Files { raw: self.raw.files()? })
    }

    /// Cancels the execution: the script gets an exception and a moment to clean up, then it is unwound. Has no effect
    /// on an execution that is cancelled already or has ended.
    pub fn cancel(&self) {
        self.raw.cancel();
    }
}

impl Tool {
    /// Creates a tool that accepts any object. The name is 1 to 64 ASCII letters, digits and underscores, starting with
    /// a letter.
    #[must_use]
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self { name: name.into(), description: description.into(), arguments_schema: None }
    }

    /// Sets the JSON Schema of an object whose properties are the arguments. Default: any object.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.arguments_schema = Some(schema.into());
        self
    }
}

impl ToolRequest {
    /// Answers the call with a result, as JSON text.
    #[must_use]
    pub fn returns(&self, json: impl Into<String>) -> ToolAnswer {
        self.answer(Ok(json.into()))
    }

    /// Answers the call with a failure and its message for the script.
    #[must_use]
    pub fn fails(&self, failure: impl Into<CallFailure>) -> ToolAnswer {
        self.answer(Err(failure.into()))
    }

    /// Answers the call with a result or a failure.
    #[must_use]
    pub fn answer(&self, answer: Result<String, CallFailure>) -> ToolAnswer {
        ToolAnswer { id: self.id, answer }
    }
}

/// Creates a failure of the tool itself. The message must not contain secrets, because the script reads it.
impl From<&str> for CallFailure {
    fn from(message: &str) -> Self {
        message.to_owned().into()
    }
}

/// Creates a failure of the tool itself. The message must not contain secrets, because the script reads it.
impl From<String> for CallFailure {
    fn from(message: String) -> Self {
        Self { kind: ToolError::Failed, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_carries_the_id_of_its_request() {
        let request = ToolRequest { id: 7, name: "add".into(), arguments: "{}".into() };
        assert_eq!(request.returns("1"), ToolAnswer { id: 7, answer: Ok("1".into()) });
        let failure = CallFailure { kind: ToolError::Failed, message: "no".into() };
        assert_eq!(request.fails("no"), ToolAnswer { id: 7, answer: Err(failure) });
    }
}
