//! An execution that its caller observes, its result, and its files.
//!
//! A provider cannot suspend a guest, so one call runs the whole execution.

use std::{cell::Cell, fmt, rc::Rc, time::Duration};

use glovebox_core::{
    CallResult, Displays, Metadata, Metering, Output as StreamOutput,
    contract::{MAX_LISTED_FILES, MAX_READ_BYTES, nanoseconds, part, too_many_files},
    files::{FileError, Snapshot},
    guidance::Guidance,
    session::Rollback,
    tools::ToolRecord,
};
use glovebox_vfs::Changes;
use glovebox_wasi::Output;
#[cfg(not(feature = "concurrent"))]
use glovebox_wasi::Stream;

#[cfg(not(feature = "concurrent"))]
use crate::bindings::exports::glovebox::sandbox::sandbox::{OutputStream, Step, ToolAnswer};
use crate::{
    Live, Runtime,
    bindings::types::{self, SandboxError},
};

/// Runs a started execution, which its caller observes.
type StartFn = Box<dyn FnOnce(&Rc<Live>) -> Result<FinishedExecution, SandboxError>>;

/// An execution that its caller observes and cancels. It runs on the first call to [`run`](Self::run).
pub struct Started {
    live: Rc<Live>,
    begin: Cell<Option<StartFn>>,
    is_in_session: bool,
}

impl fmt::Debug for Started {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Started").field("live", &self.live).finish_non_exhaustive()
    }
}

impl Started {
    /// Creates an execution that has not run yet.
    #[must_use]
    pub fn new(begin: StartFn) -> Self {
        Self { live: Rc::default(), begin: Cell::new(Some(begin)), is_in_session: false }
    }

    /// Marks the execution as part of a session. Its files belong to the session.
    #[must_use]
    pub fn in_session(self) -> Self {
        Self { is_in_session: true, ..self }
    }

    /// Makes the output available while the script runs.
    #[must_use]
    pub fn observed(self) -> Self {
        Self { live: Rc::new(Live::observed()), ..self }
    }

    /// Returns the state that the caller observes.
    #[must_use]
    pub fn live(&self) -> &Rc<Live> {
        &self.live
    }

    /// Runs the execution. Has no effect if the execution is running or has ended.
    pub fn run(&self) {
        if let Some(begin) = self.begin.take() {
            self.live.end(begin(&self.live));
        }
    }

    /// Cancels the execution, because the caller has dropped its handle. An execution that has not begun never runs.
    pub fn release(&self) {
        if self.begin.take().is_some() {
            self.live.end(Err(SandboxError::Unavailable("the execution was dropped before it began".into())));
        }
        self.live.release();
    }

    /// Returns the result of the execution, or `None` before its end.
    #[must_use]
    pub fn result(&self) -> Option<Result<types::Execution, SandboxError>> {
        self.live.with_result(|result| result.map(FinishedExecution::to_wit).map_err(Clone::clone))
    }

    /// Checks the answer to a call. The provider has answered all calls itself: it ignores a JSON answer to an existing
    /// call, and rejects any other answer. `argument` is the name of the argument that contains the answer.
    pub fn check_answer(
        &self,
        argument: &str,
        id: u64,
        answer: &Result<String, types::CallFailure>,
    ) -> Result<(), SandboxError> {
        let calls = self.live.with_result(|result| result.map_or(0, |executed| executed.tool_calls.len() as u64));
        if id >= calls.unwrap_or(0) {
            return Err(SandboxError::InvalidArgument(format!("`{argument}`: there is no call with the ID {id}")));
        }
        if let Ok(text) = answer
            && serde_json::from_str::<serde::de::IgnoredAny>(text).is_err()
        {
            return Err(SandboxError::InvalidArgument(format!("`{argument}`: the answer to call {id} is not JSON")));
        }
        Ok(())
    }

    /// Returns the files after the execution. Fails before the execution has run, if the execution failed, and for an
    /// execution in a session. `hint` says how the caller waits for the end.
    pub fn files(&self, hint: &str) -> Result<Files, SandboxError> {
        if self.is_in_session {
            let text = "the files of an execution in a session belong to the session; use the session's functions";
            return Err(SandboxError::Unsupported(text.into()));
        }
        let files = self.live.with_result(|result| match result {
            Ok(executed) => Ok(Files::new(executed.files.clone())),
            Err(error) => Err(error.clone()),
        });
        files.unwrap_or_else(|| {
            Err(SandboxError::SessionBusy(format!("the execution may still change its files; {hint}")))
        })
    }

    /// Cancels the execution. Has no effect if the execution has ended.
    pub fn cancel(&self) {
        self.live.cancel();
    }
}

#[cfg(not(feature = "concurrent"))]
impl Started {
    /// Runs the execution on the first call. Every call returns the result of the execution.
    pub fn advance(&self, answers: &[ToolAnswer]) -> Result<Step, SandboxError> {
        answers.iter().try_for_each(|ToolAnswer { id, answer }| self.check_answer("answers", *id, answer))?;
        self.run();
        self.result().map_or(Ok(Step::Running), |result| result.map(Step::Done))
    }

    /// Returns at most `len` bytes of a stream's retained output, starting at `offset`, and at most the contract's
    /// maximum for one call. The output is empty until the execution has run.
    #[must_use]
    pub fn read_output(&self, stream: OutputStream, offset: u64, len: u64) -> Vec<u8> {
        let stream = match stream {
            OutputStream::Stdout => Stream::Stdout,
            OutputStream::Stderr => Stream::Stderr,
        };
        self.live.with_output(stream, |bytes| part(bytes, offset, len).to_vec())
    }
}

/// Returns the error for operations on suspended executions, which a provider does not support.
pub(crate) fn not_suspendable() -> SandboxError {
    SandboxError::Unsupported(
        "this provider cannot suspend a guest to wait for the caller's answers (`features.stepping` is missing)".into(),
    )
}

/// Rejects tools that the caller wants to answer, because a provider cannot suspend a guest.
pub(crate) fn no_tools(tools: &[types::Tool]) -> Result<(), SandboxError> {
    if tools.is_empty() {
        return Ok(());
    }
    Err(not_suspendable())
}

/// The result of one execution.
#[derive(Debug)]
pub struct FinishedExecution {
    /// The result of the call into the guest.
    pub ran: CallResult,
    /// The retained output.
    pub output: Output,
    /// The records of the tool calls.
    pub tool_calls: Vec<ToolRecord>,
    /// The created, modified and deleted files.
    pub changes: Changes,
    /// The duration of the execution.
    pub duration: Duration,
    /// A snapshot of the files after the execution.
    pub files: Snapshot,
    /// The runtime that ran the script.
    pub runtime: Rc<Runtime>,
    /// The session's ID, if the execution was in a session.
    pub session_id: Option<String>,
    /// The rollback of the session after this execution, if one was necessary.
    pub rolled_back_to: Option<Rollback>,
    /// The fuel analysis, and advice on a failure.
    pub guidance: Guidance,
}

impl FinishedExecution {
    /// Returns the displays.
    pub fn displays(&self) -> impl Iterator<Item = types::Display> + use<> {
        Displays::from(self.output.displays.clone()).retained.into_iter().map(Into::into)
    }

    /// Converts the result to the contract's type.
    #[must_use]
    pub fn to_wit(&self) -> types::Execution {
        let Self {
            ran,
            output,
            tool_calls,
            changes,
            duration,
            files: _,
            runtime,
            session_id,
            rolled_back_to,
            guidance,
        } = self;
        let metadata = Metadata {
            runtime: runtime.language,
            runtime_name: runtime.name.clone(),
            version: Some(runtime.version.clone()),
            prepared: true,
            image_sha256: Some(runtime.image_sha256.clone()),
            metering: Metering::Fuel,
            stdout_total_bytes: output.stdout.total_bytes,
            stderr_total_bytes: output.stderr.total_bytes,
        };
        let displays = Displays::from(output.displays.clone());
        types::Execution {
            outcome: ran.outcome.clone().into(),
            interrupted: ran.interrupted.clone().map(Into::into),
            value: ran.value.clone().map(Into::into),
            stdout: StreamOutput::from(output.stdout.clone()).into(),
            stderr: StreamOutput::from(output.stderr.clone()).into(),
            displays: displays.retained.into_iter().map(Into::into).collect(),
            displays_dropped: displays.dropped,
            fuel_consumed: ran.fuel_consumed,
            memory_used_bytes: ran.memory_used_bytes,
            duration_ns: nanoseconds(*duration),
            files_created: changes.created.clone(),
            files_modified: changes.modified.clone(),
            files_deleted: changes.deleted.clone(),
            tool_calls: tool_calls.iter().cloned().map(Into::into).collect(),
            session_id: session_id.clone(),
            rolled_back_to: rolled_back_to.map(Into::into),
            guidance: guidance.clone().into(),
            metadata: metadata.into(),
        }
    }
}

/// A snapshot of a workspace's files.
#[derive(Clone, Debug)]
pub struct Files(Snapshot);

impl Files {
    /// Wraps a snapshot of a workspace.
    #[must_use]
    pub fn new(snapshot: Snapshot) -> Self {
        Self(snapshot)
    }

    /// Lists the entries that match a pattern. Fails if more than [`MAX_LISTED_FILES`] entries match.
    pub fn list(&self, pattern: &str) -> Result<Vec<types::FileEntry>, SandboxError> {
        let entries = self.0.list(pattern).map_err(refused(pattern))?;
        if entries.len() > MAX_LISTED_FILES {
            let message = too_many_files(entries.len());
            return Err(SandboxError::from_file(types::FileError::Refused, pattern, message));
        }
        Ok(entries.into_iter().map(Into::into).collect())
    }

    /// Returns a path's attributes.
    pub fn stat(&self, path: &str) -> Result<types::FileEntry, SandboxError> {
        Ok(self.0.stat(path).map_err(refused(path))?.into())
    }

    /// Reads at most `len` bytes of a file, starting at `offset`. The contract's maximum for one call also applies.
    pub fn read(&self, path: &str, offset: u64, len: u64) -> Result<Vec<u8>, SandboxError> {
        self.0.read(path, offset, Some(len.min(MAX_READ_BYTES))).map_err(refused(path))
    }
}

/// Returns a function for `map_err` that converts an error from an operation on `path`.
pub(crate) fn refused(path: &str) -> impl FnOnce(FileError) -> SandboxError + use<'_> {
    move |error| SandboxError::from_file(error.kind().into(), path, error.message())
}

/// A byte buffer that grows at its end.
#[derive(Clone, Debug, Default)]
pub struct Blob(Vec<u8>);

impl Blob {
    /// Wraps existing bytes.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Returns all bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// Returns all bytes.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Appends bytes. Returns `false` and appends nothing if there is not enough memory.
    pub fn append(&mut self, bytes: &[u8]) -> bool {
        let has_room = self.0.try_reserve(bytes.len()).is_ok();
        if has_room {
            self.0.extend_from_slice(bytes);
        }
        has_room
    }

    /// Returns at most `len` bytes, starting at `offset`.
    #[must_use]
    pub fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        part(&self.0, offset, len).to_vec()
    }
}
