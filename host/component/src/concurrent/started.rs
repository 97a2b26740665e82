//! Implements `resource started`. Contains the functions that also read the files of sessions.

use std::{
    future::poll_fn,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
};

use glovebox::{AdvanceError, Files, Stream, ToolAnswer};
use wasmtime::component::{Access, Accessor, HasSelf, Resource, StreamReader};

use super::{
    call::Call,
    live::{LiveExecution, Observer},
    streams::{BytesStream, Events, Output},
    wit::{Event, HostStarted, HostStartedWithStore},
};
use crate::{
    SandboxCtx,
    convert::{SandboxFailure, refused},
    ctx::Caller,
    quotas::{Meter, QuotaShare, QuotaUse},
    sandbox::{Bytes, list_files},
    started::StartedResource,
    wit::types::{CallFailure, Display, Execution, FileEntry, SandboxError},
};

/// A started execution, shared by its handle, its streams, and its calls to `finish` and `suspend`.
#[expect(unreachable_pub, reason = "the bindings re-export it, some of them from a private module")]
#[derive(Clone, Debug)]
pub struct ConcurrentExecution(Arc<ExecutionState>);

#[derive(Debug)]
struct ExecutionState {
    stepped: StartedResource,
    live: LiveExecution,
    /// Maximum size of one call's arguments, in bytes.
    tool_bytes: u64,
    /// `true` while a call to `finish` waits.
    is_awaited: AtomicBool,
    suspended: SuspendedBytes,
}

/// A guard that marks an execution as awaited by a call to `finish`. At most one such call is allowed, so the host
/// never holds several copies of a result.
struct FinishGuard(ConcurrentExecution);

impl Drop for FinishGuard {
    fn drop(&mut self) {
        self.0.0.is_awaited.store(false, Ordering::Release);
    }
}

/// The bytes of a suspended execution. The execution keeps the bytes, because a caller that drops a call to `suspend`
/// would otherwise lose the execution.
#[derive(Debug, Default)]
struct SuspendedBytes {
    bytes: OnceLock<Bytes>,
    /// `true` while a call suspends the execution or copies the bytes.
    is_in_use: AtomicBool,
}

/// A guard that marks an execution as used by a call to `suspend`. Without the guard, two concurrent suspensions could
/// receive each other's results, for which they have reserved no memory.
struct SuspendGuard(ConcurrentExecution);

impl Drop for SuspendGuard {
    fn drop(&mut self) {
        self.0.suspended().is_in_use.store(false, Ordering::Release);
    }
}

impl SuspendGuard {
    /// Suspends the execution, keeps its bytes, and returns a copy of them.
    fn suspend(&self, meter: &Arc<Meter>) -> Result<Vec<u8>, SandboxFailure> {
        let bytes = self.0.stepped().suspend(meter)?;
        Ok(self.0.suspended().bytes.get_or_init(|| bytes).as_slice().to_vec())
    }
}

impl ConcurrentExecution {
    pub(super) fn new(stepped: StartedResource, live: LiveExecution, tool_bytes: u64) -> Self {
        let (is_awaited, suspended) = (AtomicBool::new(false), SuspendedBytes::default());
        Self(Arc::new(ExecutionState { stepped, live, tool_bytes, is_awaited, suspended }))
    }

    pub(super) fn stepped(&self) -> &StartedResource {
        &self.0.stepped
    }

    pub(super) fn started(&self) -> &glovebox::Started {
        &self.0.stepped.started
    }

    fn suspended(&self) -> &SuspendedBytes {
        &self.0.suspended
    }

    pub(super) fn tool_bytes(&self) -> u64 {
        self.0.tool_bytes
    }

    /// Lets the session of a dropped execution admit the next call, which waits until the execution has ended.
    fn leave_session(&self) {
        if let Some(stepping) = &self.0.stepped.stepping {
            stepping.release();
        }
    }

    pub(super) fn observer(&self) -> Observer {
        self.0.live.observers().observer()
    }

    /// Returns the number of displays so far.
    pub(super) fn display_count(&self) -> usize {
        // The live displays are freed when the result is available.
        let in_result = || Some(self.started().execution()?.displays.len());
        self.0.live.display_count().or_else(in_result).unwrap_or(0)
    }

    fn display(&self, index: u32) -> Option<glovebox::Display> {
        let index = usize::try_from(index).ok()?;
        self.0.live.display(index).or_else(|| self.started().execution()?.displays.get(index).cloned())
    }

    fn awaiting(&self) -> Result<FinishGuard, SandboxError> {
        if self.0.is_awaited.swap(true, Ordering::Acquire) {
            let text = "another call to `finish` is waiting for this execution; wait until it returns";
            return Err(SandboxError::SessionBusy(text.into()));
        }
        Ok(FinishGuard(self.clone()))
    }

    fn suspending(&self) -> Result<SuspendGuard, SandboxError> {
        if self.suspended().is_in_use.swap(true, Ordering::Acquire) {
            let text = "another call to `suspend` is still suspending this execution; try again";
            return Err(SandboxError::SessionBusy(text.into()));
        }
        Ok(SuspendGuard(self.clone()))
    }

    /// Suspends the execution on another thread, and returns its bytes. If the future is dropped, the thread continues,
    /// and a later call returns the bytes.
    async fn suspend(&self, caller: Arc<Caller>) -> Result<Vec<u8>, SandboxFailure> {
        let suspending = self.suspending()?;
        if let Some(bytes) = self.suspended().bytes.get() {
            return Ok(bytes.as_slice().to_vec());
        }
        // Only executions that have not ended get a thread, so the `started` quota limits the number of threads.
        self.stepped().check_suspendable()?;
        // The execution already has a share of the `started` quota.
        let call = Call::without_shares(caller);
        call.run_now(move |call, _| suspending.suspend(&call.caller.meter)).await
    }

    /// Waits for the end of the execution and returns its result.
    async fn result(&self) -> Result<Execution, SandboxFailure> {
        let observer = self.observer();
        let end = poll_fn(|context| {
            observer.observe(context);
            self.started().end().map_or(Poll::Pending, Poll::Ready)
        });
        let end = end.await;
        if let Some(error) = self.0.stepped.left.over_quota.get() {
            return Err(error.clone().into());
        }
        Ok(glovebox::Execution::clone(&*end?).into())
    }

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

impl SandboxCtx {
    /// Returns an execution, and a quota share for a new stream.
    fn stream_of(
        &mut self,
        started: &Resource<ConcurrentExecution>,
    ) -> Result<(ConcurrentExecution, QuotaShare), SandboxFailure> {
        let execution = self.check_present()?.get(started)?.clone();
        Ok((execution, self.caller.meter.take(QuotaUse::Handle)?))
    }
}

/// Opens a stream of an execution's output.
fn output<T: Send + 'static>(
    mut access: Access<'_, T, HasSelf<SandboxCtx>>,
    started: &Resource<ConcurrentExecution>,
    stream: Stream,
) -> Result<StreamReader<u8>, SandboxFailure> {
    let (execution, share) = access.get().stream_of(started)?;
    Ok(StreamReader::new(access, Output::new(execution, stream, share))?)
}

/// Begins a call that reads the files of an execution, with `bytes` bytes of arguments. The execution holds the files'
/// share of the quota, so the call keeps the execution.
fn begin_reading<T: 'static>(
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

impl<T: Send + 'static> HostStartedWithStore<T> for HasSelf<SandboxCtx> {
    fn stdout(
        access: Access<'_, T, Self>,
        started: Resource<ConcurrentExecution>,
    ) -> Result<StreamReader<u8>, SandboxFailure> {
        output(access, &started, Stream::Stdout)
    }

    fn stderr(
        access: Access<'_, T, Self>,
        started: Resource<ConcurrentExecution>,
    ) -> Result<StreamReader<u8>, SandboxFailure> {
        output(access, &started, Stream::Stderr)
    }

    fn events(
        mut access: Access<'_, T, Self>,
        started: Resource<ConcurrentExecution>,
    ) -> Result<StreamReader<Event>, SandboxFailure> {
        let ctx = access.get();
        let (execution, handle) = ctx.stream_of(&started)?;
        let bytes = ctx.caller.meter.take(QuotaUse::Bytes(execution.tool_bytes()))?;
        Ok(StreamReader::new(access, Events::new(execution, [handle, bytes]))?)
    }

    async fn finish(
        accessor: &Accessor<T, Self>,
        started: Resource<ConcurrentExecution>,
    ) -> Result<Execution, SandboxFailure> {
        let execution =
            accessor.with(|mut access| access.get().check_present().and_then(|ctx| ctx.get(&started).cloned()))?;
        let awaiting = execution.awaiting()?;
        awaiting.0.result().await
    }

    async fn read_file(
        accessor: &Accessor<T, Self>,
        started: Resource<ConcurrentExecution>,
        path: String,
    ) -> Result<StreamReader<u8>, SandboxFailure> {
        let (call, execution, files) = begin_reading(accessor, &started, path.len())?;
        let handle = call.caller.meter.take(QuotaUse::Handle)?;
        let contents = call.run(move |call, _| {
            let _execution = execution;
            contents(call, &files, &path)
        });
        stream(accessor, contents.await?, handle)
    }

    async fn list_files(
        accessor: &Accessor<T, Self>,
        started: Resource<ConcurrentExecution>,
        pattern: String,
    ) -> Result<Vec<FileEntry>, SandboxFailure> {
        let (call, execution, files) = begin_reading(accessor, &started, pattern.len())?;
        let listed = call.run(move |_, _| {
            let _execution = execution;
            list_files(&files, &pattern)
        });
        listed.await
    }

    async fn suspend(
        accessor: &Accessor<T, Self>,
        started: Resource<ConcurrentExecution>,
    ) -> Result<Vec<u8>, SandboxFailure> {
        let (execution, caller) = accessor.with(|mut access| {
            let ctx = access.get().check_present()?;
            Ok::<_, wasmtime::Error>((ctx.get(&started)?.clone(), Arc::clone(&ctx.caller)))
        })?;
        execution.suspend(caller).await
    }
}

impl HostStarted for SandboxCtx {
    fn answer(
        &mut self,
        started: Resource<ConcurrentExecution>,
        id: u64,
        answer: Result<String, CallFailure>,
    ) -> Result<(), SandboxFailure> {
        let pending = self.check_present()?.get(&started)?.started().pending();
        let answer = ToolAnswer { id, answer: answer.map_err(Into::into) };
        pending.answer(vec![answer]).map_err(|error| match error {
            AdvanceError::UnknownCall { .. } | AdvanceError::NotJson { .. } => {
                SandboxError::InvalidArgument(format!("`answer`: {error}")).into()
            }
            error => error.into(),
        })
    }

    fn display(&mut self, started: Resource<ConcurrentExecution>, index: u32) -> Result<Display, SandboxFailure> {
        let execution = self.check_present()?.get(&started)?;
        if let Some(display) = execution.display(index) {
            return Ok(display.into());
        }
        if let Some(error) = execution.stepped().left.over_quota.get() {
            return Err(error.clone().into());
        }
        let count = execution.display_count();
        let text = format!("`index`: display {index} does not exist; the execution has {count} displays so far");
        Err(SandboxError::InvalidArgument(text).into())
    }

    fn cancel(&mut self, started: Resource<ConcurrentExecution>) -> wasmtime::Result<()> {
        self.check_present()?.get(&started)?.started().cancel();
        Ok(())
    }

    fn drop(&mut self, started: Resource<ConcurrentExecution>) -> wasmtime::Result<()> {
        // Streams can outlive the handle, so cancel the execution explicitly.
        let execution = self.check_present()?.take(started)?;
        execution.started().cancel();
        execution.leave_session();
        Ok(())
    }
}
