//! An execution that the caller continues step by step, its result, and its files.
//!
//! A provider cannot suspend a guest, so the first `continue` runs the whole execution.

use std::{fmt, rc::Rc, time::Duration};

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

use crate::{
    Runtime,
    bindings::{
        exports::glovebox::sandbox::sandbox::{OutputStream, Step, ToolAnswer},
        types::{self, SandboxError},
    },
};

/// Runs a started execution. The argument is `true` if the execution was cancelled before it ran.
type StartFn = Box<dyn FnOnce(bool) -> Result<FinishedExecution, SandboxError>>;

/// An execution that the caller continues step by step.
pub struct Started {
    stage: Stage,
    is_cancelled: bool,
    is_in_session: bool,
}

enum Stage {
    Waiting(StartFn),
    Done(Box<FinishedExecution>),
    Failed(SandboxError),
}

impl fmt::Debug for Started {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Started").field("is_cancelled", &self.is_cancelled).finish_non_exhaustive()
    }
}

impl Started {
    /// Creates an execution that has not run yet.
    #[must_use]
    pub fn new(begin: StartFn) -> Self {
        Self { stage: Stage::Waiting(begin), is_cancelled: false, is_in_session: false }
    }

    /// Marks the execution as part of a session. Its files belong to the session.
    #[must_use]
    pub fn in_session(self) -> Self {
        Self { is_in_session: true, ..self }
    }

    /// Returns `true` if the execution has run.
    #[must_use]
    pub fn is_over(&self) -> bool {
        !matches!(self.stage, Stage::Waiting(_))
    }

    /// Runs the execution on the first call. Every call returns the result of the execution.
    pub fn advance(&mut self, answers: &[ToolAnswer]) -> Result<Step, SandboxError> {
        self.check(answers)?;
        if matches!(self.stage, Stage::Waiting(_)) {
            let lost = || SandboxError::Unavailable("the execution could not be started".into());
            let Stage::Waiting(begin) = std::mem::replace(&mut self.stage, Stage::Failed(lost())) else {
                return Err(lost());
            };
            self.stage = match begin(self.is_cancelled) {
                Ok(executed) => Stage::Done(Box::new(executed)),
                Err(error) => Stage::Failed(error),
            };
        }
        match &self.stage {
            Stage::Done(executed) => Ok(Step::Done(executed.to_wit())),
            Stage::Failed(error) => Err(error.clone()),
            Stage::Waiting(_) => Ok(Step::Running),
        }
    }

    /// Checks the caller's answers. The provider has answered all calls itself: it ignores a JSON answer to an existing
    /// call, and rejects any other answer.
    fn check(&self, answers: &[ToolAnswer]) -> Result<(), SandboxError> {
        let calls = match &self.stage {
            Stage::Done(executed) => executed.tool_calls.len() as u64,
            _ => 0,
        };
        for ToolAnswer { id, answer } in answers {
            if *id >= calls {
                return Err(SandboxError::InvalidArgument(format!("`answers`: there is no call with the ID {id}")));
            }
            if let Ok(text) = answer
                && serde_json::from_str::<serde::de::IgnoredAny>(text).is_err()
            {
                return Err(SandboxError::InvalidArgument(format!("`answers`: the answer to call {id} is not JSON")));
            }
        }
        Ok(())
    }

    /// Returns at most `len` bytes of a stream's retained output, starting at `offset`, and at most the contract's
    /// maximum for one call. The output is empty until the execution has run.
    #[must_use]
    pub fn read_output(&self, stream: OutputStream, offset: u64, len: u64) -> Vec<u8> {
        let Stage::Done(executed) = &self.stage else { return Vec::new() };
        let captured = match stream {
            OutputStream::Stdout => &executed.output.stdout,
            OutputStream::Stderr => &executed.output.stderr,
        };
        part(&captured.bytes, offset, len).to_vec()
    }

    /// Returns the files after the execution. Fails before the execution has run, if the execution failed, and for an
    /// execution in a session.
    pub fn files(&self) -> Result<Files, SandboxError> {
        match &self.stage {
            _ if self.is_in_session => {
                let text = "the files of an execution in a session belong to the session; use `session.files`";
                Err(SandboxError::Unsupported(text.into()))
            }
            Stage::Done(executed) => Ok(Files::new(executed.files.clone())),
            Stage::Failed(error) => Err(error.clone()),
            Stage::Waiting(_) => {
                let text = "the execution may still change its files; call `continue` until it returns `done`";
                Err(SandboxError::SessionBusy(text.into()))
            }
        }
    }

    /// Cancels the execution if it has not run yet.
    pub fn cancel(&mut self) {
        self.is_cancelled = true;
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
