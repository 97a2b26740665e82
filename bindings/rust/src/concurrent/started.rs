//! Executions that run while the component does other work.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::Poll,
};

use super::{Event, StreamReader, ToolRequest, sandbox as raw};
use crate::{CallFailure, Display, Error, Execution, FileEntry};

/// An execution that runs while the component reads its output, answers its tool calls, or does other work.
///
/// The limits apply from the start, and the timeout includes the time during which the script waits for answers.
/// Dropping the handle cancels the execution.
///
/// ```no_run
/// use glovebox_guest::{Error, Sandbox, Tool, concurrent::Event};
///
/// # async fn example() -> Result<(), Error> {
/// let tools = [Tool::new("now", "The time, in the words of a clock.")];
/// let started = Sandbox::python().concurrent().start("print(tools.now())", &tools).await?;
/// let (stdout, mut events) = (started.stdout()?, started.events()?);
/// while let Some(event) = events.next().await {
///     match event {
///         Event::ToolRequest(call) => started.answer(call.id, Ok("\"half past six\"".into()))?,
///         Event::Display(index) => println!("{:?}", started.display(index)?.forms),
///     }
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
    /// Opens a stream of the script's standard output. Each call to this method opens a new stream, which begins with
    /// the first byte of the output and ends when the execution has ended. An unread stream does not block the script.
    ///
    /// # Errors
    /// [`Error::QuotaExceeded`] if there are too many handles. Each open stream counts as a handle.
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

    /// Opens a stream of the script's displays and of its calls to the component's tools. Each call to this method
    /// opens a new stream, which begins with all displays so far and all unanswered calls. The stream ends when the
    /// execution has ended. A call appears in the stream as soon as the script makes it, even if the script does not
    /// wait for the answer, but after all displays that the script has shown before the call.
    ///
    /// # Errors
    /// Same as [`stdout`](Self::stdout).
    pub fn events(&self) -> Result<StreamReader<Event>, Error> {
        Ok(self.raw.events()?)
    }

    /// Returns a display of the script, such as a table or a picture, by its index in [`Event::Display`] or in
    /// `displays` of the result. The content is untrusted.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the display does not exist, and [`Error::QuotaExceeded`] if the result of the
    /// execution exceeds the quota.
    pub fn display(&self, index: u32) -> Result<Display, Error> {
        Ok(self.raw.display(index)?)
    }

    /// Answers a call with a result as JSON text, or with a failure that becomes an exception in the script. Ignores an
    /// answer to a call that has timed out or already has an answer.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if no call has this ID, or if the answer is not JSON. The call then remains
    /// unanswered.
    pub fn answer(&self, id: u64, answer: Result<String, CallFailure>) -> Result<(), Error> {
        Ok(self.raw.answer(id, answer.as_deref())?)
    }

    /// Answers the script's calls with the results of `handler`, until the execution has ended. At most
    /// `limits.tool-calls-at-once` calls wait for an answer at the same time. A call that has timed out is still handled,
    /// but its answer is ignored, so up to `limits.tool-calls` handlers can run. To prevent this, let `handler` return
    /// within `limits.tool-timeout-ms`. Ignores displays. When the execution ends, drops the futures of calls that are
    /// still being handled.
    ///
    /// ```no_run
    /// use glovebox_guest::{Error, Sandbox, concurrent::{CallInfo, call_tool, list_tools}};
    ///
    /// # async fn example() -> Result<(), Error> {
    /// // Lets a script call the tools of another component.
    /// let started = Sandbox::python().concurrent().start("print(tools.rate(of='EUR'))", &list_tools()).await?;
    /// started.answer_calls(|call| {
    ///     let info = CallInfo { id: call.id, session_id: None, timeout_ms: None };
    ///     call_tool(call.name, call.arguments, info)
    /// }).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::QuotaExceeded`] if there are too many handles or bytes. [`Error::InvalidArgument`] if a result is not
    /// JSON; the execution then continues, and the call has no answer.
    pub async fn answer_calls<F>(&self, mut handler: impl FnMut(ToolRequest) -> F) -> Result<(), Error>
    where
        F: Future<Output = Result<String, CallFailure>>,
    {
        let mut events = self.events()?;
        let mut running: Vec<(u64, Pin<Box<F>>)> = Vec::new();
        loop {
            // The read must not be dropped before it ends, because its event would be lost.
            let mut read = pin!(events.next());
            let event = poll_fn(|context| {
                let mut answered = Ok(());
                running.retain_mut(|(id, call)| match call.as_mut().poll(context) {
                    Poll::Ready(answer) => {
                        if answered.is_ok() {
                            answered = self.answer(*id, answer);
                        }
                        false
                    }
                    Poll::Pending => true,
                });
                match answered {
                    Ok(()) => read.as_mut().poll(context).map(Ok),
                    Err(error) => Poll::Ready(Err(error)),
                }
            });
            match event.await? {
                Some(Event::ToolRequest(call)) => running.push((call.id, Box::pin(handler(call)))),
                Some(Event::Display(_)) => {}
                None => return Ok(()),
            }
        }
    }

    /// Waits for the end of the execution. Dropping the returned future does not cancel the execution.
    ///
    /// # Errors
    /// [`Error::SessionBusy`] while another call to `finish` is waiting. [`Error::Variable`] if the guest cannot store
    /// the context. [`Error::NotResumable`] if an execution from
    /// [`Sandbox::resume_suspended`](super::Sandbox::resume_suspended) or
    /// [`Sandbox::resume_suspended_session`](super::Sandbox::resume_suspended_session) behaves differently than in its
    /// first run. [`Error::TooManySessions`] after
    /// [`Session::start_suspendable`](super::Session::start_suspendable), if the state of the session exceeds a limit.
    pub async fn finish(&self) -> Result<Execution, Error> {
        Ok(self.raw.finish().await?)
    }

    /// Reads a file, as the execution has left it. The stream counts against the memory quota until it is read to its
    /// end or dropped.
    ///
    /// # Errors
    /// [`Error::SessionBusy`] before the execution has ended. [`Error::Unsupported`] in a session: use
    /// [`Session::read_file`](super::Session::read_file). [`Error::File`], [`Error::QuotaExceeded`].
    pub async fn read_file(&self, path: impl Into<String>) -> Result<StreamReader<u8>, Error> {
        Ok(self.raw.read_file(path.into()).await?)
    }

    /// Lists the files that the execution has left and that match a pattern, like
    /// [`Session::list_files`](super::Session::list_files).
    ///
    /// # Errors
    /// Same as [`read_file`](Self::read_file).
    pub async fn list_files(&self, pattern: impl Into<String>) -> Result<Vec<FileEntry>, Error> {
        Ok(self.raw.list_files(pattern.into()).await?)
    }

    /// Serializes an execution that waits for answers, for
    /// [`Sandbox::resume_suspended`](super::Sandbox::resume_suspended), or for
    /// [`Sandbox::resume_suspended_session`](super::Sandbox::resume_suspended_session) if it runs in a session. The bytes
    /// are neither encrypted nor authenticated. The execution then ends, and further calls to `suspend` return the same
    /// bytes.
    ///
    /// # Errors
    /// [`Error::SessionBusy`] if the script is not waiting for an answer, if a tool of the provider is running, or if
    /// another call to `suspend` has not ended. [`Error::Unsupported`] if the execution was not started with
    /// [`Sandbox::start_suspendable`](super::Sandbox::start_suspendable) or
    /// [`Session::start_suspendable`](super::Session::start_suspendable), if it has ended or reached a limit, if its
    /// record of tool answers, times and random numbers exceeds 1 MiB, or if the bytes could exceed 64 MiB in a session.
    /// [`Error::QuotaExceeded`]. After an error, the execution continues.
    pub async fn suspend(&self) -> Result<Vec<u8>, Error> {
        Ok(self.raw.suspend().await?)
    }

    /// Cancels the execution. The script receives an exception and a short time to clean up, and is then unwound. Does
    /// nothing if the execution was already cancelled or has ended.
    pub fn cancel(&self) {
        self.raw.cancel();
    }
}
