//! Executions that run while the component does other work.

use super::{Event, StreamReader, sandbox as raw};
use crate::{CallFailure, Error, Execution};

/// An execution that runs while the component reads its output, answers its tool calls, or does other work.
///
/// Its limits apply from the start, and the timeout includes the time that the script waits for answers. Dropping the
/// handle cancels the execution.
///
/// ```no_run
/// use glovebox_guest::{Error, Sandbox, Tool, concurrent::Event};
///
/// # async fn example() -> Result<(), Error> {
/// let tools = [Tool::new("now", "The time, in the words of a clock.")];
/// let started = Sandbox::python().concurrent().start("print(tools.now())", &tools).await?;
/// let (stdout, mut events) = (started.stdout()?, started.events()?);
/// while let Some(Event::ToolRequest(call)) = events.next().await {
///     started.answer(call.id, Ok("\"half past six\"".into()))?;
/// }
/// assert_eq!(stdout.collect().await, b"half past six\n");
/// println!("{}", started.finish().await?.outcome);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Started {
    pub(super) raw: raw::Started,
}

impl Started {
    /// Opens a stream of the script's standard output. Each call returns a new stream, which begins with the first byte
    /// and ends when the execution has ended. An unread stream does not stop the script.
    ///
    /// # Errors
    /// [`Error::QuotaExceeded`]: each open stream counts as a handle.
    pub fn stdout(&self) -> Result<StreamReader<u8>, Error> {
        Ok(self.raw.stdout()?)
    }

    /// Opens a stream of the script's standard error, like [`stdout`](Self::stdout).
    ///
    /// # Errors
    /// Same as [`stdout`](Self::stdout).
    pub fn stderr(&self) -> Result<StreamReader<u8>, Error> {
        Ok(self.raw.stderr()?)
    }

    /// Opens a stream of the calls to the component's tools. Each call returns a new stream, which begins with all
    /// calls that have no answer yet, and ends when the execution has ended. A call is an event as soon as the script
    /// has made it, even if the script does not wait for the answer.
    ///
    /// # Errors
    /// Same as [`stdout`](Self::stdout).
    pub fn events(&self) -> Result<StreamReader<Event>, Error> {
        Ok(self.raw.events()?)
    }

    /// Answers a call with a result as JSON text, or with a failure that becomes an exception in the script. An answer
    /// to a call that has timed out or already has an answer is ignored.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if no call has this ID, or if the answer is not JSON. The answer is then not used.
    pub fn answer(&self, id: u64, answer: Result<String, CallFailure>) -> Result<(), Error> {
        Ok(self.raw.answer(id, answer.as_deref())?)
    }

    /// Waits for the end of the execution. Dropping this call does not cancel the execution.
    ///
    /// # Errors
    /// [`Error::SessionBusy`] while another call to `finish` waits; [`Error::Variable`] if the guest cannot store the
    /// context; [`Error::NotResumable`] after [`Sandbox::resume_suspended`](super::Sandbox::resume_suspended).
    pub async fn finish(&self) -> Result<Execution, Error> {
        Ok(self.raw.finish().await?)
    }

    /// Turns the execution into bytes for [`Sandbox::resume_suspended`](super::Sandbox::resume_suspended), while the
    /// script waits for answers. The bytes are not encrypted and not authenticated. The execution then ends, and every
    /// further call returns the same bytes.
    ///
    /// # Errors
    /// [`Error::SessionBusy`] if the script does not wait for an answer, if a tool of the provider is running, or if
    /// another call to `suspend` has not ended; [`Error::Unsupported`] if the execution was not started with
    /// [`Sandbox::start_suspendable`](super::Sandbox::start_suspendable), if it has ended or reached a limit, or if it
    /// has received more than 1 MiB from outside; [`Error::QuotaExceeded`]. The execution then continues.
    pub async fn suspend(&self) -> Result<Vec<u8>, Error> {
        Ok(self.raw.suspend().await?)
    }

    /// Cancels the execution: the script receives an exception and a short time to clean up, and is then unwound. Does
    /// nothing if the execution was already cancelled or has ended.
    pub fn cancel(&self) {
        self.raw.cancel();
    }
}
