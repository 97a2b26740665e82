//! Sessions with asynchronous calls.

use super::{Started, StreamReader, sessions as raw, tasks};
use crate::{CheckpointInfo, Error, Execution, FileEntry, GuestValue, IfExists, Request, SessionInfo};

/// An interpreter that persists between executions, with its variables, functions, imports and files.
///
/// A session runs one call at a time. Until a call has returned, and while an execution from [`start`](Self::start) has
/// not ended, every method except [`id`](Self::id) and [`info`](Self::info) returns [`Error::SessionBusy`]. After the
/// session has ended, every method except `id`, `info` and [`close`](Self::close) returns [`Error::SessionEnded`].
///
/// Dropping a call that has not returned cancels its script. The next call waits until the script has stopped. Dropping
/// the session drops the interpreter without running its exit handlers.
///
/// ```no_run
/// use glovebox_guest::{Error, IfExists, Sandbox, SessionOptions};
///
/// # async fn example() -> Result<(), Error> {
/// let session = Sandbox::python().concurrent().session(&SessionOptions::default()).await?;
/// session.write_file("a.txt", "hi", IfExists::Replace).await?;
/// session.execute("text = open('a.txt').read()").await?;
/// let state = session.hibernate().await?.collect().await;
/// # let _ = state;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Session {
    pub(super) raw: raw::Session,
}

impl Session {
    /// Returns the session's ID, which the provider chooses. The ID is not a secret.
    #[must_use]
    pub fn id(&self) -> String {
        self.raw.id()
    }

    /// Describes the session, without the effects of a call that has not returned.
    #[must_use]
    pub fn info(&self) -> SessionInfo {
        self.raw.info()
    }

    /// Runs a script in the session's interpreter.
    ///
    /// # Errors
    /// Same as [`crate::Session::execute`].
    pub async fn execute(&self, request: impl Into<Request>) -> Result<Execution, Error> {
        Ok(self.raw.execute(request.into()).await?)
    }

    /// Starts an execution in the session, and returns once it has begun.
    ///
    /// # Errors
    /// Same as [`execute`](Self::execute).
    pub async fn start(&self, request: impl Into<Request>) -> Result<Started, Error> {
        Ok(Started { raw: self.raw.start(request.into()).await? })
    }

    /// Starts an execution like [`start`](Self::start). [`Started::suspend`] can serialize it, together with the state of
    /// the session before the execution. The session is then rolled back as after any other cancelled execution, and
    /// continues without the execution. [`Sandbox::resume_suspended_session`](super::Sandbox::resume_suspended_session)
    /// continues the execution in a new session.
    ///
    /// # Errors
    /// Same as [`execute`](Self::execute). Also [`Error::Unsupported`] if scripts cannot call the component's tools.
    /// [`Started::finish`] returns [`Error::TooManySessions`] if the state of the session exceeds a limit.
    pub async fn start_suspendable(&self, request: impl Into<Request>) -> Result<Started, Error> {
        Ok(Started { raw: self.raw.start_suspendable(request.into()).await? })
    }

    /// Reads a global variable. Returns `None` if the variable does not exist.
    ///
    /// # Errors
    /// Same as [`crate::Session::get_variable`].
    pub async fn get_variable(&self, name: impl Into<String>) -> Result<Option<GuestValue>, Error> {
        Ok(self.raw.get_variable(name.into()).await?)
    }

    /// Sets a global variable from JSON text.
    ///
    /// # Errors
    /// Same as [`crate::Session::set_variable`].
    pub async fn set_variable(&self, name: impl Into<String>, json: impl Into<String>) -> Result<(), Error> {
        Ok(self.raw.set_variable(name.into(), json.into()).await?)
    }

    /// Reads a file. Later changes to the file do not affect the stream. The stream counts against the memory quota
    /// until it is read to its end or dropped.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::SessionEnded`], [`Error::SessionBusy`].
    pub async fn read_file(&self, path: impl Into<String>) -> Result<StreamReader<u8>, Error> {
        Ok(self.raw.read_file(path.into()).await?)
    }

    /// Writes a file and creates its missing ancestor directories.
    ///
    /// # Errors
    /// Same as [`read_file`](Self::read_file).
    pub async fn write_file(
        &self,
        path: impl Into<String>,
        bytes: impl Into<Vec<u8>>,
        if_exists: IfExists,
    ) -> Result<(), Error> {
        tasks::send(bytes.into(), |contents| self.write_file_from(path, contents, if_exists)).await
    }

    /// Like [`write_file`](Self::write_file), but reads the contents from a stream. The file changes only after the
    /// stream has ended. If the contents exceed a limit, the provider stops reading, and the call fails.
    ///
    /// # Errors
    /// Same as [`read_file`](Self::read_file).
    pub async fn write_file_from(
        &self,
        path: impl Into<String>,
        contents: StreamReader<u8>,
        if_exists: IfExists,
    ) -> Result<(), Error> {
        Ok(self.raw.write_file(path.into(), contents, if_exists).await?)
    }

    /// Lists the files, directories and links whose path matches a pattern, sorted by path.
    ///
    /// # Errors
    /// Same as [`read_file`](Self::read_file). Also [`Error::File`] if more than 10,000 paths match.
    pub async fn list_files(&self, pattern: impl Into<String>) -> Result<Vec<FileEntry>, Error> {
        Ok(self.raw.list_files(pattern.into()).await?)
    }

    /// Renames a file, directory or link. The parent directory of `to` must exist.
    ///
    /// # Errors
    /// Same as [`read_file`](Self::read_file).
    pub async fn rename_file(
        &self,
        from: impl Into<String>,
        to: impl Into<String>,
        if_exists: IfExists,
    ) -> Result<(), Error> {
        Ok(self.raw.rename_file(from.into(), to.into(), if_exists).await?)
    }

    /// Deletes a file, a link or an empty directory.
    ///
    /// # Errors
    /// Same as [`read_file`](Self::read_file).
    pub async fn delete_file(&self, path: impl Into<String>) -> Result<(), Error> {
        Ok(self.raw.delete_file(path.into(), false).await?)
    }

    /// Deletes a file, a link, or a directory and everything below it.
    ///
    /// # Errors
    /// Same as [`read_file`](Self::read_file).
    pub async fn delete_all(&self, path: impl Into<String>) -> Result<(), Error> {
        Ok(self.raw.delete_file(path.into(), true).await?)
    }

    /// Creates a second session with the same state, but with different random numbers, except from generators that a
    /// script has seeded. Later changes in either session do not affect the other session.
    ///
    /// # Errors
    /// Same as [`crate::Session::fork`].
    pub async fn fork(&self) -> Result<Self, Error> {
        Ok(Self { raw: self.raw.fork().await? })
    }

    /// Takes a checkpoint for [`undo_to`](Self::undo_to), and returns its ID. The policy limits the number of retained
    /// checkpoints.
    ///
    /// # Errors
    /// Same as [`crate::Session::checkpoint`].
    pub async fn checkpoint(&self) -> Result<u64, Error> {
        Ok(self.raw.checkpoint().await?)
    }

    /// Returns the retained checkpoints, oldest first.
    ///
    /// # Errors
    /// [`Error::SessionEnded`], [`Error::SessionBusy`].
    pub async fn checkpoints(&self) -> Result<Vec<CheckpointInfo>, Error> {
        Ok(self.raw.checkpoints().await?)
    }

    /// Restores the latest checkpoint that differs from the current state, and returns its ID.
    ///
    /// # Errors
    /// [`Error::NoCheckpoint`], [`Error::SessionEnded`], [`Error::SessionBusy`].
    pub async fn undo(&self) -> Result<u64, Error> {
        Ok(self.raw.undo().await?)
    }

    /// Restores a checkpoint and discards all later checkpoints.
    ///
    /// # Errors
    /// Same as [`undo`](Self::undo).
    pub async fn undo_to(&self, id: u64) -> Result<(), Error> {
        Ok(self.raw.undo_to(id).await?)
    }

    /// Saves the session as bytes for [`Sandbox::resume`](super::Sandbox::resume). The session continues. The bytes do
    /// not contain checkpoints or tools.
    ///
    /// # Errors
    /// [`Error::SessionEnded`], [`Error::SessionBusy`].
    pub async fn hibernate(&self) -> Result<StreamReader<u8>, Error> {
        Ok(self.raw.hibernate().await?)
    }

    /// Runs the interpreter's exit handlers, within the limits of one execution, and ends the session. Does nothing if
    /// the session has already ended.
    ///
    /// # Errors
    /// [`Error::SessionBusy`].
    pub async fn close(&self) -> Result<(), Error> {
        Ok(self.raw.close().await?)
    }
}
