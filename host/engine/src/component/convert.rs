//! Our words in those of the contract.

use std::time::Duration;

use super::wit::{sandbox::OutputStream, types};
use crate::{
    CheckpointInfo, Diagnostic, Execution, FileEntry, FileKind, GuestValue, IfExists, Language, Metadata, Outcome,
    Output, RaisedOutcome, Request, Resource, Rollback, SessionInfo, SourceKind, Stream, ToolErrorKind, ToolOutcome,
    ToolRecord, TrapKind,
};

/// How many bytes one call gives of a file, a blob or a stream at most.
pub(super) const READ_BYTES_MOST: u64 = 16 << 20;

/// How many bytes of a stream an execution has in it at most.
const OUTPUT_BYTES_MOST: usize = 4 << 20;

/// What a request asks for, without its source's limits being checked.
pub(super) fn request(request: &types::Request) -> Request<'_> {
    let types::Request { source, name, kind, stdin, deadline_ms } = request;
    let mut asked = Request::new(source);
    if let Some(name) = name {
        asked = asked.name(name);
    }
    if let Some(kind) = kind {
        asked = asked.kind(match kind {
            types::SourceKind::Detect => SourceKind::Detect,
            types::SourceKind::Script => SourceKind::Script,
            types::SourceKind::Module => SourceKind::Module,
        });
    }
    if let Some(stdin) = stdin {
        asked = asked.stdin(stdin);
    }
    if let Some(deadline_ms) = deadline_ms {
        asked = asked.cancel_after(Duration::from_millis(*deadline_ms));
    }
    asked
}

/// At most `len` bytes from `offset` on, and no more than one call gives.
pub(super) fn part(bytes: &[u8], offset: u64, len: u64) -> &[u8] {
    let at = |position: u64| usize::try_from(position).unwrap_or(usize::MAX).min(bytes.len());
    let end = offset.saturating_add(len.min(READ_BYTES_MOST));
    bytes.get(at(offset)..at(end)).unwrap_or(&[])
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl From<Execution> for types::Execution {
    fn from(execution: Execution) -> Self {
        let Execution {
            outcome,
            interrupted,
            value,
            stdout,
            stderr,
            fuel_consumed,
            memory_used_bytes,
            duration,
            files_created,
            files_modified,
            files_deleted,
            tool_calls,
            workspace_path: _,
            session_id,
            rolled_back_to,
            metadata,
            files: _,
            // The contract has no place for it, and whoever has the rest of this can draw it again.
            guidance: _,
        } = execution;
        Self {
            outcome: outcome.into(),
            interrupted: interrupted.map(Into::into),
            value: value.map(Into::into),
            stdout: stdout.into(),
            stderr: stderr.into(),
            fuel_consumed,
            memory_used_bytes,
            duration_ns: nanoseconds(duration),
            files_created,
            files_modified,
            files_deleted,
            tool_calls: tool_calls.into_iter().map(Into::into).collect(),
            session_id,
            went_back: rolled_back_to.map(Into::into),
            metadata: metadata.into(),
        }
    }
}

impl From<Outcome> for types::Outcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Completed => Self::Completed,
            Outcome::Exited { code } => Self::Exited(code),
            Outcome::Raised(raised) => Self::Raised(raised.into()),
            Outcome::Exhausted { resource, limit, used } => {
                Self::Exhausted(types::Exhausted { resource: resource.into(), limit, used })
            }
            Outcome::Cancelled => Self::Cancelled,
            Outcome::Trapped { trap } => Self::Trapped(trap.into()),
        }
    }
}

impl From<RaisedOutcome> for types::Raised {
    fn from(RaisedOutcome { type_name, message, traceback, line }: RaisedOutcome) -> Self {
        Self { type_name, message, traceback, line }
    }
}

impl From<Resource> for types::ResourceKind {
    fn from(resource: Resource) -> Self {
        match resource {
            Resource::Fuel => Self::Fuel,
            Resource::Time => Self::Time,
            Resource::Memory => Self::Memory,
        }
    }
}

impl From<TrapKind> for types::TrapKind {
    fn from(trap: TrapKind) -> Self {
        match trap {
            TrapKind::StackOverflow => Self::StackOverflow,
            TrapKind::Unreachable => Self::Unreachable,
            TrapKind::OutOfBounds => Self::OutOfBounds,
            TrapKind::BadCall => Self::BadCall,
            TrapKind::Arithmetic => Self::Arithmetic,
            TrapKind::BadReport => Self::BadReport,
            TrapKind::Other => Self::Other,
        }
    }
}

impl From<Output> for types::Output {
    fn from(Output { mut bytes, total_bytes }: Output) -> Self {
        let kept_bytes = bytes.len() as u64;
        bytes.truncate(OUTPUT_BYTES_MOST);
        Self { bytes, kept_bytes, total_bytes }
    }
}

impl From<GuestValue> for types::GuestValue {
    fn from(GuestValue { repr, json }: GuestValue) -> Self {
        Self { repr, json }
    }
}

impl From<ToolRecord> for types::ToolRecord {
    fn from(ToolRecord { name, arguments, outcome, started, duration }: ToolRecord) -> Self {
        let outcome = match outcome {
            ToolOutcome::Returned(result) => types::ToolOutcome::Returned(result),
            ToolOutcome::Failed { kind, message } => {
                types::ToolOutcome::Failed(types::ToolFailure { kind: kind.into(), message })
            }
            ToolOutcome::Unfinished => types::ToolOutcome::Unfinished,
        };
        Self { name, arguments, outcome, started_ns: nanoseconds(started), duration_ns: nanoseconds(duration) }
    }
}

impl From<ToolErrorKind> for types::ToolError {
    fn from(kind: ToolErrorKind) -> Self {
        match kind {
            ToolErrorKind::Failed => Self::Failed,
            ToolErrorKind::Limit => Self::Limit,
            ToolErrorKind::Timeout => Self::Timeout,
            ToolErrorKind::Unknown => Self::Unknown,
            ToolErrorKind::InvalidArguments => Self::InvalidArguments,
        }
    }
}

impl From<types::ToolError> for ToolErrorKind {
    fn from(kind: types::ToolError) -> Self {
        match kind {
            types::ToolError::Failed => Self::Failed,
            types::ToolError::Limit => Self::Limit,
            types::ToolError::Timeout => Self::Timeout,
            types::ToolError::Unknown => Self::Unknown,
            types::ToolError::InvalidArguments => Self::InvalidArguments,
        }
    }
}

impl From<Rollback> for types::WentBack {
    fn from(Rollback { checkpoint: _, executions_lost }: Rollback) -> Self {
        Self { executions_lost }
    }
}

impl From<Metadata> for types::Metadata {
    fn from(metadata: Metadata) -> Self {
        let Metadata {
            runtime,
            runtime_name,
            version,
            prepared,
            image_sha256,
            stdout_total_bytes: _,
            stderr_total_bytes: _,
        } = metadata;
        Self { runtime: runtime.into(), runtime_name, version, prepared, image_sha256 }
    }
}

impl From<Language> for types::Language {
    fn from(language: Language) -> Self {
        match language {
            Language::Python => Self::Python,
            Language::JavaScript => Self::Javascript,
        }
    }
}

impl From<Diagnostic> for types::Diagnostic {
    fn from(Diagnostic { line, column, message }: Diagnostic) -> Self {
        Self { line, column, message }
    }
}

impl From<FileEntry> for types::FileEntry {
    fn from(FileEntry { path, kind, size_bytes, modified_ns }: FileEntry) -> Self {
        let kind = match kind {
            FileKind::File => types::FileKind::File,
            FileKind::Directory => types::FileKind::Directory,
            FileKind::Symlink => types::FileKind::Symlink,
        };
        Self { path, kind, size_bytes, modified_ns }
    }
}

impl From<types::IfExists> for IfExists {
    fn from(if_exists: types::IfExists) -> Self {
        match if_exists {
            types::IfExists::Fail => Self::Fail,
            types::IfExists::Replace => Self::Replace,
        }
    }
}

impl From<CheckpointInfo> for types::CheckpointInfo {
    fn from(CheckpointInfo { id, automatic, executions, private_bytes }: CheckpointInfo) -> Self {
        Self { id: id.0, automatic, executions, private_bytes }
    }
}

impl From<SessionInfo> for types::SessionInfo {
    fn from(info: SessionInfo) -> Self {
        let SessionInfo {
            id,
            language: _,
            runtime_name: _,
            executions,
            memory_bytes,
            private_bytes,
            held_bytes,
            checkpoints,
            checkpoints_skipped: _,
            rollbacks,
            ended,
        } = info;
        let checkpoints = u32::try_from(checkpoints).unwrap_or(u32::MAX);
        Self { id, executions, memory_bytes, private_bytes, held_bytes, checkpoints, went_back: rollbacks, ended }
    }
}

impl From<OutputStream> for Stream {
    fn from(stream: OutputStream) -> Self {
        match stream {
            OutputStream::Stdout => Self::Stdout,
            OutputStream::Stderr => Self::Stderr,
        }
    }
}
