//! Executions that the component steps through, and the component's tools and answers.

use std::{io::BufRead, time::Duration};

use crate::{
    Blob, CallFailure, Error, Execution, Files, OutputStream, Step, Tool, ToolAnswer, ToolError, ToolRequest,
    bindings::glovebox::sandbox::sandbox as raw, files::Pieces, policy::milliseconds,
};

/// An execution that the component steps through.
///
/// The script runs during a step, and also between steps if the provider supports that. The limits apply from the
/// start, and the timeout includes the time between steps. Dropping the handle cancels the execution.
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
    /// Passes answers to the execution, and waits until it has ended or needs more answers.
    ///
    /// Each step returns all unanswered calls again. An answer to a call that no longer waits is ignored. Once the
    /// execution has ended, every further step returns the same [`Step::Done`].
    ///
    /// # Errors
    /// [`Error::SessionEnded`]. [`Error::InvalidArgument`] if an answer has an unknown ID or is not JSON. All answers
    /// are then ignored.
    pub fn step(&self, answers: &[ToolAnswer]) -> Result<Step, Error> {
        Ok(self.raw.continue_(answers, None)?)
    }

    /// Like [`step`](Self::step), but waits at most `wait`, rounded up to whole milliseconds. After this time, returns
    /// [`Step::NeedsTools`] if there are unanswered calls, even if the script is still running. Otherwise, returns
    /// [`Step::Running`].
    ///
    /// # Errors
    /// Same as [`step`](Self::step).
    pub fn step_within(&self, wait: Duration, answers: &[ToolAnswer]) -> Result<Step, Error> {
        Ok(self.raw.continue_(answers, Some(milliseconds(wait)))?)
    }

    /// Waits until the execution has ended, and answers its tool calls one at a time. `tool` returns an answer as JSON
    /// text, or a failure that becomes an exception in the script.
    ///
    /// # Errors
    /// Same as [`step`](Self::step).
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

    /// Waits until the execution has ended. Calls to the component's tools fail.
    ///
    /// # Errors
    /// Same as [`step`](Self::step).
    pub fn finish(&self) -> Result<Execution, Error> {
        self.finish_with(|call| {
            Err(format!("no handler for tool `{}`; use `finish_with` to answer its calls", call.name).into())
        })
    }

    /// Returns at most `len` bytes of the script's output so far, starting at `offset`. Returns at most 16,777,216
    /// bytes, and no bytes at the current end.
    #[must_use]
    pub fn read_output(&self, stream: OutputStream, offset: u64, len: u64) -> Vec<u8> {
        self.raw.read_output(stream, offset, len)
    }

    /// Returns a reader that starts at the first byte of the output. A read at the current end returns no bytes, but a
    /// later read may return more output.
    pub fn output(&self, stream: OutputStream) -> impl BufRead + '_ {
        Pieces::new(move |offset, len| Ok(self.raw.read_output(stream, offset, len)))
    }

    /// Returns the files at the end of an execution outside a session.
    ///
    /// # Errors
    /// [`Error::SessionBusy`] if the execution has not ended. [`Error::Unsupported`] in a session.
    pub fn files(&self) -> Result<Files, Error> {
        Ok(Files { raw: self.raw.files()? })
    }

    /// Serializes an execution that waits for answers, for
    /// [`Sandbox::resume_suspended`](crate::Sandbox::resume_suspended). The bytes are neither encrypted nor
    /// authenticated. Afterwards, [`step`](Self::step) reports the execution as cancelled.
    ///
    /// ```no_run
    /// use glovebox_guest::{Blob, Sandbox, Step, Tool};
    ///
    /// # fn main() -> Result<(), glovebox_guest::Error> {
    /// let (sandbox, tools) = (Sandbox::python(), [Tool::new("pay", "Pays an invoice.")]);
    /// let started = sandbox.start_suspendable("print(tools.pay(euros=20))", &tools)?;
    /// let Step::NeedsTools(_) = started.step(&[])? else { panic!("the script does not wait") };
    /// let bytes = started.suspend()?.to_vec();
    ///
    /// // Days later, in another component:
    /// let resumed = sandbox.resume_suspended(&Blob::of(&bytes)?, &[], &tools)?;
    /// let run = resumed.finish_with(|_| Ok("\"paid\"".into()))?;
    /// assert_eq!(run.stdout.text(), "paid\n");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::SessionBusy`] if the script is not waiting for an answer, or if a tool of the provider is running.
    /// [`Error::Unsupported`] if the execution was not started with
    /// [`Sandbox::start_suspendable`](crate::Sandbox::start_suspendable), if it has ended or reached a limit, or if
    /// its record of tool answers, times and random numbers exceeds 1 MiB. [`Error::QuotaExceeded`]. After an error,
    /// the execution continues.
    pub fn suspend(&self) -> Result<Blob, Error> {
        Ok(Blob { raw: self.raw.suspend()? })
    }

    /// Cancels the execution. The script receives an exception and a short time to clean up, and is then unwound. Does
    /// nothing if the execution was already cancelled or has ended.
    pub fn cancel(&self) {
        self.raw.cancel();
    }
}

impl Tool {
    /// Creates a tool that accepts any object. The name consists of 1 to 64 ASCII letters, digits and underscores, and
    /// starts with a letter.
    #[must_use]
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self { name: name.into(), description: description.into(), arguments_schema: None }
    }

    /// Sets the JSON Schema of the arguments, which are the properties of an object. Default: any object.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.arguments_schema = Some(schema.into());
        self
    }
}

impl ToolRequest {
    /// Creates an answer with a result, as JSON text.
    #[must_use]
    pub fn returns(&self, json: impl Into<String>) -> ToolAnswer {
        self.answer(Ok(json.into()))
    }

    /// Creates an answer with a failure, whose message the script receives.
    #[must_use]
    pub fn fails(&self, failure: impl Into<CallFailure>) -> ToolAnswer {
        self.answer(Err(failure.into()))
    }

    /// Creates an answer with a result or a failure.
    #[must_use]
    pub fn answer(&self, answer: Result<String, CallFailure>) -> ToolAnswer {
        ToolAnswer { id: self.id, answer }
    }
}

/// Creates a failure of the tool itself. The message must not contain secrets, because the script can read it.
impl From<&str> for CallFailure {
    fn from(message: &str) -> Self {
        message.to_owned().into()
    }
}

/// Creates a failure of the tool itself. The message must not contain secrets, because the script can read it.
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
