//! Implements the files of a started execution. Contains the functions that also read the files of sessions.

use glovebox::Files;
use wasmtime::component::{Accessor, HasSelf, Resource, StreamReader};

use super::{call::Call, session_streams::BytesStream, started::ConcurrentExecution};
use crate::{
    SandboxCtx,
    convert::{SandboxFailure, refused},
    quotas::{QuotaShare, QuotaUse},
    sandbox::{Bytes, list_files},
    wit::types::{FileEntry, SandboxError},
};

impl ConcurrentExecution {
    /// Returns the files at the end of the execution.
    fn files(&self) -> Result<Files, SandboxFailure> {
        if self.stepped().is_in_session {
            let text = "the files of an execution in a session belong to the session; use the session's functions";
            return Err(SandboxError::Unsupported(text.into()).into());
        }
        if !self.started().has_ended() {
            let text = "the execution may still change its files; wait for `finish`";
            return Err(SandboxError::SessionBusy(text.into()).into());
        }
        self.stepped().retained_files()
    }
}

/// Begins a call that reads the files of an execution, with `bytes` bytes of arguments. The execution holds the files'
/// share of the quota, so the call keeps the execution.
fn begin<T: 'static>(
    accessor: &Accessor<T, HasSelf<SandboxCtx>>,
    started: &Resource<ConcurrentExecution>,
    bytes: usize,
) -> Result<(Call, ConcurrentExecution, Files), SandboxFailure> {
    accessor.with(|mut access| {
        let ctx = access.get().check_present()?;
        let execution = ctx.get(started)?.clone();
        let files = execution.files()?;
        Ok((Call::holding(ctx, bytes as u64)?, execution, files))
    })
}

/// Implements `started.read-file`.
pub(super) async fn read<T: Send + 'static>(
    accessor: &Accessor<T, HasSelf<SandboxCtx>>,
    started: &Resource<ConcurrentExecution>,
    path: String,
) -> Result<StreamReader<u8>, SandboxFailure> {
    let (call, execution, files) = begin(accessor, started, path.len())?;
    let handle = call.caller.meter.take(QuotaUse::Handle)?;
    let contents = call.run(move |call, _| {
        let _execution = execution;
        contents(call, &files, &path)
    });
    stream(accessor, contents.await?, handle)
}

/// Implements `started.list-files`.
pub(super) async fn list<T: Send + 'static>(
    accessor: &Accessor<T, HasSelf<SandboxCtx>>,
    started: &Resource<ConcurrentExecution>,
    pattern: String,
) -> Result<Vec<FileEntry>, SandboxFailure> {
    let (call, execution, files) = begin(accessor, started, pattern.len())?;
    let listed = call.run(move |_, _| {
        let _execution = execution;
        list_files(&files, &pattern)
    });
    listed.await
}

/// Copies a file. Charges its bytes to the quota before copying them.
pub(super) fn contents(call: &Call, files: &Files, path: &str) -> Result<Bytes, SandboxFailure> {
    let bytes = files.size_bytes(path).map_err(refused(path))?;
    let share = call.caller.meter.take(QuotaUse::Bytes(bytes))?;
    let contents = files.read(path).map_err(refused(path))?;
    Ok(Bytes::with(contents, share)?)
}

/// Opens a stream from which the component reads `bytes`.
pub(super) fn stream<T: 'static>(
    accessor: &Accessor<T, HasSelf<SandboxCtx>>,
    bytes: Bytes,
    handle: QuotaShare,
) -> Result<StreamReader<u8>, SandboxFailure> {
    accessor.with(|access| Ok(StreamReader::new(access, BytesStream::new(bytes, handle))?))
}
